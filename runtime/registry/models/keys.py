"""Keys of agents, feeds and auditors, and the sessions that those of agents open."""

from django.db import models
from django.db.models import Q

from audit import actors
from audit.quick_rows import QuickRow
from runtime.contracts.token_issuer import LONGEST_ISSUER, LONGEST_SUBJECT
from runtime.core.scoping import TenantManager


class Key(QuickRow):
    """A long-lived key of one agent, of one state feed, or of one auditor.

    An agent's key may be no secret but a subject of an issuer of tokens: whoever has its token is the agent.
    """

    tenant = models.CharField(max_length=64, default="default")
    key_id = models.CharField(max_length=40, unique=True)
    secret_hash = models.CharField(max_length=64, blank=True)
    issuer = models.CharField(max_length=LONGEST_ISSUER, blank=True, default="")
    subject = models.CharField(max_length=LONGEST_SUBJECT, blank=True, default="")
    agent = models.ForeignKey(
        "runtime.Agent", null=True, blank=True, on_delete=models.PROTECT, related_name="keys"
    )
    feed = models.CharField(max_length=64, blank=True, default="")
    fact_prefix = models.CharField(max_length=200, blank=True, default="")
    auditor = models.CharField(max_length=64, blank=True, default="")
    # Of an agent's key: where it may be used, such as prod; empty where anybody may say anything.
    environment = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(agent__isnull=False, feed="", auditor="")
                | (Q(agent__isnull=True, auditor="") & ~Q(feed=""))
                | (Q(agent__isnull=True, feed="") & ~Q(auditor="")),
                name="key_of_one_agent_feed_or_auditor",
            ),
            models.CheckConstraint(
                condition=Q(environment="") | Q(agent__isnull=False), name="key_environment_is_of_an_agent"
            ),
            models.CheckConstraint(
                condition=Q(issuer="", subject="") & ~Q(secret_hash="")
                | Q(agent__isnull=False, secret_hash="") & ~Q(issuer="") & ~Q(subject=""),
                name="key_is_a_secret_or_a_subject_of_an_issuer",
            ),
            models.UniqueConstraint(
                fields=("issuer", "subject"),
                condition=~Q(issuer="") & Q(revoked_at__isnull=True),
                name="key_one_agent_per_subject",
            ),
        )

    def __str__(self) -> str:
        return self.key_id

    @property
    def holder(self) -> str:
        """Whose key it is, as the ledger names them: its stream is theirs too."""
        if self.agent is not None:
            return actors.agent(self.agent.agent_id)
        return actors.feed(self.feed) if self.feed else actors.auditor(self.auditor)


class Session(models.Model):
    """What a handshake gave: a short-lived token that dies with its key."""

    token_id = models.CharField(max_length=40, unique=True)
    secret_hash = models.CharField(max_length=64)
    key = models.ForeignKey(Key, on_delete=models.PROTECT, related_name="sessions")
    agent = models.ForeignKey("runtime.Agent", on_delete=models.PROTECT, related_name="sessions")
    manifest_version = models.CharField(max_length=64)
    protocol_version = models.CharField(max_length=64)
    instance_id = models.CharField(max_length=128, blank=True, default="")
    environment = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.token_id
