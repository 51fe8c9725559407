"""Conversations between agents, their messages with mailboxes, and the capabilities that agents offer.

The envelope of a message with its payload is not here but in a `Payload` of the ledger, under `commitment`:
erasing one there leaves no copy.
"""

from django.db import models
from django.db.models import Q

from runtime.contracts.message import ConversationState, DeadReason, MessageState, MessageType
from runtime.contracts.message_payloads import HealthStatus
from runtime.core.ids import new_id
from runtime.core.scoping import TenantManager
from runtime.flows.models import Flow
from runtime.kernel.capability_health import ListingState
from runtime.registry.models import Agent

_DIGITS = 64


class Conversation(models.Model):
    """A conversation, by the id that its agents gave it. Its row is the lock of whoever sends in it.

    `low` and `high` are the protocol versions that all its agents understand so far.
    """

    conversation_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    name = models.CharField(max_length=128)
    opened_by = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="conversations")
    opened_at = models.DateTimeField()
    state = models.CharField(max_length=8, choices=ConversationState.pairs(), default=ConversationState.OPEN)
    stopped_at = models.DateTimeField(null=True, blank=True)
    slowed_at = models.DateTimeField(null=True, blank=True)
    low = models.CharField(max_length=64)
    high = models.CharField(max_length=64)
    # Those between agents; what is between one and the registry is not counted.
    messages_sent = models.PositiveIntegerField(default=0)

    objects = TenantManager()

    class Meta:
        ordering = ("-conversation_id",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "name"), name="conversation_once_per_tenant"),
            models.CheckConstraint(
                condition=Q(state=ConversationState.OPEN, stopped_at__isnull=True)
                | Q(state=ConversationState.STOPPED, stopped_at__isnull=False),
                name="conversation_stopped_at_a_time",
            ),
        )

    def __str__(self) -> str:
        return self.name


class Mailbox(models.Model):
    """How many messages an agent was ever sent. The row is the lock of whoever sends to it."""

    agent = models.OneToOneField(Agent, primary_key=True, on_delete=models.PROTECT, related_name="mailbox")
    last_number = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"mailbox of {self.agent_id}"


class Message(models.Model):
    """A message and what became of it. No sender: from the registry of capabilities; no recipient: to it.

    `entry_seq` is the number of its entry in the stream of its conversation.
    """

    tenant = models.CharField(max_length=64, default="default")
    message_id = models.CharField(max_length=26)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.PROTECT, related_name="messages", db_index=False
    )
    message_type = models.CharField(max_length=24, choices=MessageType.pairs())
    sender = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.PROTECT, related_name="messages_sent"
    )
    recipient = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.PROTECT, related_name="messages_got", db_index=False
    )
    flow = models.ForeignKey(Flow, null=True, blank=True, on_delete=models.PROTECT, related_name="messages")
    correlation_id = models.CharField(max_length=128, blank=True, default="")
    number = models.PositiveIntegerField(null=True, blank=True)
    commitment = models.CharField(max_length=_DIGITS)
    size_bytes = models.PositiveIntegerField()
    protocol_version = models.CharField(max_length=64)
    deprecated_on = models.CharField(max_length=10, blank=True, default="")
    key_id = models.CharField(max_length=16, blank=True, default="")
    sent_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    entry_seq = models.PositiveBigIntegerField()
    state = models.CharField(max_length=8, choices=MessageState.pairs(), default=MessageState.WAITING)
    ended_at = models.DateTimeField(null=True, blank=True)
    # The session that acknowledged it, by its public name.
    taken_in = models.CharField(max_length=40, blank=True, default="")
    reason = models.CharField(max_length=24, blank=True, default="", choices=DeadReason.pairs())

    objects = TenantManager()

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "message_id"), name="message_once_per_tenant"),
            models.UniqueConstraint(fields=("recipient", "number"), name="message_number_once"),
            models.UniqueConstraint(fields=("conversation", "entry_seq"), name="message_entry_once"),
            models.CheckConstraint(
                condition=Q(recipient__isnull=True, number__isnull=True, state=MessageState.TAKEN)
                | Q(recipient__isnull=False, number__isnull=False),
                name="message_to_an_agent_is_numbered",
            ),
            models.CheckConstraint(
                condition=Q(sender__isnull=False) | Q(recipient__isnull=False),
                name="message_is_of_an_agent",
            ),
            models.CheckConstraint(
                condition=Q(state=MessageState.WAITING, ended_at__isnull=True, taken_in="", reason="")
                | Q(state=MessageState.TAKEN, ended_at__isnull=False, reason="")
                | (Q(state=MessageState.DEAD, ended_at__isnull=False, taken_in="") & ~Q(reason="")),
                name="message_ends_once",
            ),
        )
        indexes = (
            models.Index(fields=("conversation", "sent_at"), name="message_by_conversation"),
            models.Index(
                fields=("recipient", "number"),
                condition=Q(state=MessageState.WAITING),
                name="message_waiting",
            ),
            models.Index(
                fields=("expires_at",), condition=Q(state=MessageState.WAITING), name="message_to_expire"
            ),
            models.Index(fields=("tenant", "-id"), condition=Q(state=MessageState.DEAD), name="message_dead"),
        )

    def __str__(self) -> str:
        return self.message_id


class Capability(models.Model):
    """What an agent says that it offers: `body` is the canonical JSON of its claims.

    `state`, `failures`, `quarantines` and `until` are what the runtime saw of it, `override` what a person
    decided, empty while nobody did.
    """

    tenant = models.CharField(max_length=64, default="default")
    provider = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="capabilities", db_index=False)
    capability = models.CharField(max_length=128)
    body = models.BinaryField()
    digest = models.CharField(max_length=_DIGITS)
    advertised_at = models.DateTimeField()
    status = models.CharField(max_length=12, choices=HealthStatus.pairs())
    heard_at = models.DateTimeField(null=True, blank=True)
    state = models.CharField(max_length=12, choices=ListingState.pairs(), default=ListingState.LISTED)
    failures = models.PositiveSmallIntegerField(default=0)
    quarantines = models.PositiveSmallIntegerField(default=0)
    until = models.DateTimeField(null=True, blank=True)
    override = models.CharField(max_length=12, blank=True, default="", choices=ListingState.pairs())
    override_by = models.CharField(max_length=160, blank=True, default="")
    override_reason = models.CharField(max_length=500, blank=True, default="")
    override_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        ordering = ("capability", "provider")
        constraints = (
            models.UniqueConstraint(fields=("provider", "capability"), name="capability_once_per_provider"),
            models.CheckConstraint(
                condition=Q(state=ListingState.QUARANTINED, until__isnull=False)
                | (~Q(state=ListingState.QUARANTINED) & Q(until__isnull=True)),
                name="capability_quarantine_ends",
            ),
            models.CheckConstraint(
                condition=Q(override_at__isnull=True, override="", override_by="")
                | (Q(override_at__isnull=False) & ~Q(override_by="")),
                name="capability_override_by_somebody",
            ),
        )
        indexes = (models.Index(fields=("tenant", "capability"), name="capability_by_name"),)

    def __str__(self) -> str:
        return f"{self.capability} of {self.provider_id}"
