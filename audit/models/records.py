"""DecisionRecords as they were emitted, and what they are found by. Append only, by triggers."""

from django.db import models
from django.db.models.functions import Length, Substr
from django.db.models.lookups import Exact

from audit.quick_rows import QuickRow

_HASH_LENGTH = 32
_SIGNATURE_LENGTH = 64
# `dr_`, the digits of the DFID, and `_`.
_FLOW_OF_ID = 36


class DecisionRecord(QuickRow):
    """A record: `body` is its canonical JSON, signed as a DSSE envelope by the key `key_id`.

    The other columns repeat what it says, for searches. `seq` is the last entry that it is folded from.
    `supersedes` is the id of the terminal record whose place it takes. A flow has one terminal record that
    takes no place, and each place is taken once: so just one of its terminal records is superseded by none.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.CharField(max_length=64)
    record_id = models.CharField(max_length=96, unique=True)
    dfid = models.UUIDField()
    seq = models.PositiveBigIntegerField()
    status = models.CharField(max_length=16)
    terminal = models.BooleanField()
    decision_key = models.CharField(max_length=64, blank=True)
    agent_id = models.CharField(max_length=64)
    approval_mode = models.CharField(max_length=16)
    trace_id = models.CharField(max_length=32)
    supersedes = models.OneToOneField(
        "self",
        to_field="record_id",
        null=True,
        on_delete=models.PROTECT,
        related_name="superseded_by",
        # The migration has a constraint, or a trigger, that is asked at once and not at the commit.
        db_constraint=False,
        db_column="supersedes",
    )
    at = models.DateTimeField()
    body = models.BinaryField()
    record_hash = models.BinaryField()
    prev_hash = models.BinaryField()
    signature = models.BinaryField()
    key_id = models.CharField(max_length=32)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "dfid", "seq"), name="record_once"),
            models.UniqueConstraint(
                fields=("dfid",),
                condition=models.Q(terminal=True, supersedes__isnull=True),
                name="record_one_first_terminal",
            ),
            models.CheckConstraint(
                condition=models.Q(supersedes__isnull=True) | models.Q(terminal=True),
                name="record_supersedes_as_terminal",
            ),
            models.CheckConstraint(
                condition=models.Q(supersedes__isnull=True)
                | (
                    Exact(Substr("supersedes_id", 1, _FLOW_OF_ID), Substr("record_id", 1, _FLOW_OF_ID))
                    & ~models.Q(supersedes_id=models.F("record_id"))
                ),
                name="record_supersedes_of_its_flow",
            ),
            models.CheckConstraint(
                condition=Exact(Length("record_hash"), _HASH_LENGTH), name="record_hash_length"
            ),
            models.CheckConstraint(
                condition=Exact(Length("prev_hash"), _HASH_LENGTH), name="record_prev_hash_length"
            ),
            models.CheckConstraint(
                condition=Exact(Length("signature"), _SIGNATURE_LENGTH), name="record_signature_length"
            ),
        )
        indexes = (
            models.Index(fields=("tenant", "-id"), name="record_recent"),
            # `record_once` would find them as well, but SQLite would rather walk those of an agent.
            models.Index(fields=("tenant", "dfid", "-id"), name="record_by_flow"),
            models.Index(fields=("tenant", "decision_key", "-id"), name="record_by_decision"),
            models.Index(fields=("tenant", "status", "-id"), name="record_by_status"),
            models.Index(fields=("tenant", "agent_id", "-id"), name="record_by_agent"),
            models.Index(fields=("tenant", "approval_mode", "-id"), name="record_by_mode"),
            models.Index(fields=("tenant", "trace_id", "-id"), name="record_by_trace"),
            models.Index(fields=("tenant", "at", "id"), name="record_by_time"),
            models.Index(fields=("tenant", "record_hash"), name="record_by_hash"),
            # All that a count of what a kind decided in a period reads.
            models.Index(fields=("tenant", "decision_key", "status", "at", "dfid"), name="record_counts"),
        )

    def __str__(self) -> str:
        return self.record_id


class RecordTerm(QuickRow):
    """One of several values that a record is found by: a subject, an approver, a score."""

    class Name(models.TextChoices):
        """What the value is."""

        SUBJECT = "subject"
        APPROVER = "approver"
        POLICY_DECISION = "policy"
        SCORECARD = "score"
        FAILED_EVALUATOR = "failed"
        OUTCOME = "outcome"

    id = models.BigAutoField(primary_key=True)
    tenant = models.CharField(max_length=64)
    name = models.CharField(max_length=8, choices=Name.choices)
    value = models.TextField()
    # No foreign key, as entries have none: rows are written once, in the transaction of their record.
    record = models.BigIntegerField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("record", "name", "value"), name="term_once"),)
        indexes = (models.Index(fields=("tenant", "name", "value", "-record"), name="term_by_value"),)

    def __str__(self) -> str:
        return f"{self.name} {self.value}"
