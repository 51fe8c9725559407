"""Questions to the agent, and what it answered (DIR paper, 9.4: REQUEST_INFO)."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from escalations import contracts
from escalations.models.escalation import Escalation

IS_OPEN = Q(closed_why="")
IS_ANSWERED = Q(closed_why=contracts.Closing.ANSWERED)


class Question(models.Model):
    """One question of a person on one revision of the evidence. The answer is a claim, never a fact."""

    escalation = models.ForeignKey(
        Escalation, on_delete=models.PROTECT, related_name="questions", db_index=False
    )
    number = models.PositiveSmallIntegerField()
    text = models.TextField()
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    wait_until = models.DateTimeField()
    revision = models.PositiveIntegerField()
    evidence_hash = models.CharField(max_length=64)
    statement = models.BinaryField()
    signature = models.BinaryField()
    key_id = models.CharField(max_length=64)
    answer = models.TextField(blank=True, default="")
    payload_ref = models.CharField(max_length=500, blank=True, default="")
    answered_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_why = models.CharField(max_length=12, choices=contracts.Closing.pairs(), blank=True, default="")

    class Meta:
        ordering = ("escalation", "number")
        constraints = (
            models.UniqueConstraint(fields=("escalation", "number"), name="question_number_once"),
            models.UniqueConstraint(
                fields=("escalation",), condition=IS_OPEN, name="question_one_open_per_escalation"
            ),
            models.CheckConstraint(
                condition=(IS_OPEN & Q(closed_at__isnull=True)) | (~IS_OPEN & Q(closed_at__isnull=False)),
                name="question_closed_at_goes_with_its_reason",
            ),
            models.CheckConstraint(
                condition=(IS_ANSWERED & Q(answered_at__isnull=False))
                | (~IS_ANSWERED & Q(answered_at__isnull=True)),
                name="question_answered_at_goes_with_its_reason",
            ),
        )

    def __str__(self) -> str:
        return f"question {self.number} of {self.escalation_id}"
