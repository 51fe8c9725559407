"""The one decision on an escalation."""

from django.conf import settings
from django.db import models

from escalations import contracts
from escalations.models.escalation import Escalation


class Decision(models.Model):
    """A person's decision, bound to the evidence that was shown. One row per escalation, for ever."""

    escalation = models.OneToOneField(
        Escalation, primary_key=True, on_delete=models.PROTECT, related_name="decision"
    )
    action = models.CharField(max_length=16, choices=contracts.Action.pairs())
    revision = models.PositiveIntegerField()
    evidence_hash = models.CharField(max_length=64)
    justification = models.TextField(blank=True, default="")
    approver = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    solo = models.BooleanField(default=False)
    statement = models.BinaryField()
    signature = models.BinaryField()
    key_id = models.CharField(max_length=64)
    decided_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.action} on {self.escalation_id}"
