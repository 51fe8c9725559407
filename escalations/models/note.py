"""Notes of people: beside a flow, an escalation or an agent, or the words with which a claim or a shift
moves on.

The text is not here but in a `Payload` of the ledger, under `commitment`: erasing it there leaves no copy.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import Exact

from escalations.contracts import NotePurpose
from escalations.models.escalation import Escalation
from runtime.core.ids import new_id
from runtime.core.scoping import TenantManager
from runtime.flows.models import Flow
from runtime.registry.models import Agent

_OF_A_FLOW = Q(flow__isnull=False, agent__isnull=True)
_OF_AN_AGENT = Q(flow__isnull=True, escalation__isnull=True, agent__isnull=False)
_OF_NOTHING = Q(flow__isnull=True, escalation__isnull=True, agent__isnull=True)


class Note(models.Model):
    """One note, never changed: a later one corrects it. `addressee` lost a claim, or was given one."""

    note_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    purpose = models.CharField(max_length=12, choices=NotePurpose.pairs())
    flow = models.ForeignKey(Flow, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    escalation = models.ForeignKey(
        Escalation, null=True, blank=True, on_delete=models.PROTECT, related_name="notes"
    )
    agent = models.ForeignKey(Agent, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    addressee = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
    )
    commitment = models.CharField(max_length=64, unique=True)
    written_at = models.DateTimeField()

    objects = TenantManager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=(Q(purpose=NotePurpose.NOTE, addressee__isnull=True) & (_OF_A_FLOW | _OF_AN_AGENT))
                | (
                    Q(purpose__in=(NotePurpose.TAKEOVER, NotePurpose.HANDOVER))
                    & Q(escalation__isnull=False, addressee__isnull=False)
                    & _OF_A_FLOW
                )
                | (Q(purpose=NotePurpose.SHIFT, addressee__isnull=True) & _OF_NOTHING),
                name="note_is_about_what_its_purpose_says",
            ),
            models.CheckConstraint(condition=Exact(Length("commitment"), 64), name="note_commitment_length"),
        )
        indexes = (models.Index(fields=("addressee", "purpose", "note_id"), name="note_to_whom"),)

    def __str__(self) -> str:
        return f"note {self.note_id}"


class NoteMention(models.Model):
    """A person whom a note names with `@username`."""

    note = models.ForeignKey(Note, on_delete=models.PROTECT, related_name="mentions")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "note"), name="mention_once_per_note"),)

    def __str__(self) -> str:
        return f"mention of {self.user_id} in {self.note_id}"
