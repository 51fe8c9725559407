"""What people think of decision records. Append only, by triggers; a newer row of the same person counts."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import Exact

from audit.assessments import Assessment, Correction


class RecordFeedback(models.Model):
    """One piece of feedback on a record. The reason is a `Payload` under `commitment`, empty without one.

    `number` counts what `author` (`user:7`) has said of the record: the highest counts. `feedback_id` is that
    of the form, so that a form sent twice is one. `has_decided`: the author is among the record's approvers.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.CharField(max_length=64)
    feedback_id = models.UUIDField(unique=True)
    # No foreign keys, as records have none: rows are written once, beside their entry.
    record = models.BigIntegerField()
    record_id = models.CharField(max_length=96)
    dfid = models.UUIDField()
    author = models.CharField(max_length=64)
    number = models.PositiveIntegerField()
    assessment = models.CharField(max_length=24, choices=[(item, item) for item in Assessment])
    correction = models.CharField(max_length=16, blank=True, choices=[(item, item) for item in Correction])
    commitment = models.CharField(max_length=64, blank=True)
    has_decided = models.BooleanField()
    at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("record", "author", "number"), name="feedback_once_in_turn"),
            models.CheckConstraint(condition=Q(number__gte=1), name="feedback_counts_from_one"),
            models.CheckConstraint(
                condition=Q(assessment__in=list(Assessment)), name="feedback_assessment_is_known"
            ),
            models.CheckConstraint(
                condition=Q(correction__in=["", *Correction]), name="feedback_correction_is_known"
            ),
            models.CheckConstraint(
                condition=Q(correction="") | ~Q(assessment=Assessment.RIGHT),
                name="feedback_right_needs_no_correction",
            ),
            models.CheckConstraint(
                condition=~Q(commitment="") | Q(assessment=Assessment.RIGHT),
                name="feedback_says_why_unless_right",
            ),
            models.CheckConstraint(
                condition=Q(commitment="") | Q(Exact(Length("commitment"), 64)),
                name="feedback_commitment_length",
            ),
        )
        indexes = (
            models.Index(fields=("tenant", "assessment", "-record"), name="feedback_by_assessment"),
            models.Index(fields=("dfid",), name="feedback_of_flow"),
        )

    def __str__(self) -> str:
        return f"{self.assessment} on {self.record_id}"
