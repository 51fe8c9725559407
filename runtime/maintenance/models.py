"""Rounds of the watchdog and of retention, legal holds, and the runs that replay all flows."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Length
from django.db.models.lookups import Exact

from audit.models import ClassKey
from runtime.contracts import hold as hold_contract
from runtime.contracts import replay_run as run_contract
from runtime.contracts.hold import HoldTarget
from runtime.core.ids import new_id
from runtime.core.scoping import TenantManager
from runtime.flows.models import Flow

ONLY = 1
_DIGITS = 64


class WatchRound(models.Model):
    """The one row of the watchdog: its last round, and since when the rounds have had no gap."""

    only = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)
    last_at = models.DateTimeField()
    unbroken_since = models.DateTimeField()

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(only=ONLY), name="watch_round_is_one"),)

    def __str__(self) -> str:
        return f"{self.last_at}"


class RetentionRound(models.Model):
    """How far the round of retention has come: it goes through the flows that are due by kind and end.

    `began_at` is when it began; a round begins at the first flow again at `next_at`.
    """

    only = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)
    kind = models.CharField(max_length=128, blank=True, default="")
    ended_at = models.DateTimeField(null=True, blank=True)
    dfid = models.UUIDField(null=True, blank=True)
    began_at = models.DateTimeField()
    next_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(only=ONLY), name="retention_round_is_one"),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, dfid__isnull=True)
                | Q(ended_at__isnull=False, dfid__isnull=False),
                name="retention_place_is_whole",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.ended_at}"


class FactRound(models.Model):
    """How far the round that deletes old versions of facts has come: it goes through the facts by path.

    Whoever works on it locks the row; a round begins at the first fact again at `next_at`.
    """

    only = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)
    path = models.CharField(max_length=200, blank=True, default="")
    next_at = models.DateTimeField()

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(only=ONLY), name="fact_round_is_one"),)

    def __str__(self) -> str:
        return f"after {self.path}"


class PayloadRound(models.Model):
    """What is under one retired key of payloads, or in clear, is encrypted with the key in use, in rounds.

    `key` is empty for what is in clear. `after` is the number of the payload that was looked at last, `moved`
    how many were encrypted anew, and `unopened` how many nobody can open, which stay as they are.
    """

    tenant = models.CharField(max_length=64, default="default")
    key = models.OneToOneField(ClassKey, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    asked_by = models.CharField(max_length=160)
    asked_at = models.DateTimeField()
    after = models.PositiveBigIntegerField(default=0)
    moved = models.PositiveBigIntegerField(default=0)
    unopened = models.PositiveBigIntegerField(default=0)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(
                fields=("tenant",), condition=Q(key__isnull=True), name="payload_round_in_clear_once"
            ),
            models.CheckConstraint(condition=~Q(asked_by=""), name="payload_round_asked_by_somebody"),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("asked_at")),
                name="payload_round_ends_after_it_began",
            ),
        )

    def __str__(self) -> str:
        return f"{self.key_id or 'in clear'} after {self.after}"


class HoldLock(models.Model):
    """The one row that placing a hold and erasing both lock: so neither overlooks the other."""

    only = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(only=ONLY), name="hold_lock_is_one"),)

    def __str__(self) -> str:
        return "the lock of legal holds"


class LegalHold(models.Model):
    """A hold as it stands now: while it is live, the words of its flows are not erased. Never deleted.

    Why it was placed and released is not here but in a `Payload` of the ledger, under the commitments.
    """

    hold_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    name = models.CharField(max_length=hold_contract.LONGEST_NAME)
    target = models.CharField(max_length=8, choices=HoldTarget.pairs())
    flow = models.ForeignKey(Flow, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    subject = models.CharField(max_length=hold_contract.LONGEST_SUBJECT, blank=True, default="")
    commitment = models.CharField(max_length=_DIGITS, unique=True)
    placed_by = models.CharField(max_length=160)
    placed_at = models.DateTimeField()
    release_commitment = models.CharField(max_length=_DIGITS, blank=True, default="")
    released_by = models.CharField(max_length=160, blank=True, default="")
    released_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        ordering = ("-hold_id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(target=HoldTarget.FLOW, flow__isnull=False, subject="")
                | (Q(target=HoldTarget.SUBJECT, flow__isnull=True) & ~Q(subject="")),
                name="hold_names_what_it_keeps",
            ),
            models.CheckConstraint(condition=~Q(name=""), name="hold_has_a_name"),
            models.CheckConstraint(
                condition=Exact(Length("commitment"), _DIGITS), name="hold_commitment_length"
            ),
            models.CheckConstraint(
                condition=Q(released_at__isnull=True, released_by="", release_commitment="")
                | (
                    Q(released_at__isnull=False)
                    & ~Q(released_by="")
                    & Q(Exact(Length("release_commitment"), _DIGITS))
                ),
                name="hold_release_is_whole",
            ),
            models.UniqueConstraint(
                fields=("tenant", "name", "flow"),
                condition=Q(released_at__isnull=True, flow__isnull=False),
                name="hold_live_once_per_flow",
            ),
            models.UniqueConstraint(
                fields=("tenant", "name", "subject"),
                condition=Q(released_at__isnull=True, flow__isnull=True),
                name="hold_live_once_per_subject",
            ),
        )
        indexes = (
            models.Index(
                fields=("flow",), condition=Q(released_at__isnull=True, flow__isnull=False), name="hold_keeps"
            ),
            models.Index(
                fields=("tenant", "subject"),
                condition=Q(released_at__isnull=True, flow__isnull=True),
                name="hold_keeps_subject",
            ),
            models.Index(fields=("tenant", "released_at", "-hold_id"), name="hold_recent"),
        )

    def __str__(self) -> str:
        return f"{self.name} on {self.flow_id or self.subject}"


class ReplayRun(models.Model):
    """A run over the flows from after `cursor` (at first the beginning of its period) to `last_dfid`.

    Flows are replayed in the order of their ids, and `cursor` is the last one whose result is counted.
    Whoever works on the run holds it by `lease_owner` until `lease_until`. `flows` is how many there were
    when it began. Digests are hexadecimal SHA-256; `results_digest` goes on with each flow.
    """

    run_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    state = models.CharField(
        max_length=12,
        choices=run_contract.ReplayRunState.pairs(),
        default=run_contract.ReplayRunState.RUNNING,
    )
    since = models.DateTimeField(null=True, blank=True)
    until = models.DateTimeField(null=True, blank=True)
    cursor = models.UUIDField()
    last_dfid = models.UUIDField()
    flows = models.PositiveBigIntegerField()
    equal = models.PositiveBigIntegerField(default=0)
    different = models.PositiveBigIntegerField(default=0)
    erased = models.PositiveBigIntegerField(default=0)
    failed = models.PositiveBigIntegerField(default=0)
    results_digest = models.CharField(max_length=_DIGITS, default="0" * _DIGITS)
    lease_owner = models.CharField(max_length=32, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    started_by = models.CharField(max_length=160)
    started_at = models.DateTimeField()
    ended_by = models.CharField(max_length=160, blank=True, default="")
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        ordering = ("-run_id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=run_contract.ReplayRunState.values()), name="replay_run_state_known"
            ),
            models.UniqueConstraint(
                fields=("tenant",),
                condition=Q(state=run_contract.ReplayRunState.RUNNING),
                name="replay_run_one_at_a_time",
            ),
            models.CheckConstraint(
                condition=Q(state=run_contract.ReplayRunState.RUNNING, ended_at__isnull=True, ended_by="")
                | (
                    ~Q(state=run_contract.ReplayRunState.RUNNING)
                    & Q(ended_at__isnull=False, lease_owner="")
                    & ~Q(ended_by="")
                ),
                name="replay_run_end_goes_with_its_state",
            ),
            models.CheckConstraint(
                condition=Q(lease_owner="", lease_until__isnull=True)
                | (~Q(lease_owner="") & Q(lease_until__isnull=False)),
                name="replay_run_lease_is_whole",
            ),
            models.CheckConstraint(
                condition=Q(since__isnull=True) | Q(until__isnull=True) | Q(since__lt=models.F("until")),
                name="replay_run_period_has_a_length",
            ),
            models.CheckConstraint(
                condition=Exact(Length("results_digest"), _DIGITS), name="replay_run_digest_length"
            ),
        )
        indexes = (models.Index(fields=("tenant", "-run_id"), name="replay_run_newest"),)

    def __str__(self) -> str:
        return f"replay run {self.run_id}"

    @property
    def replayed(self) -> int:
        """How many flows are counted so far."""
        return self.equal + self.different + self.erased + self.failed


class ReplayFinding(models.Model):
    """A flow that differed in a run, or whose replay failed; a run keeps the first of them up to a bound.

    `recorded` and `found` are the two values as JSON, cut to a length. They go when the flow is erased.
    """

    run = models.ForeignKey(ReplayRun, on_delete=models.PROTECT, related_name="findings", db_index=False)
    dfid = models.UUIDField()
    result = models.CharField(max_length=12, choices=run_contract.FindingResult.pairs())
    change = models.CharField(max_length=32)
    path = models.TextField(blank=True, default="")
    seq = models.PositiveBigIntegerField(default=0)
    row = models.CharField(max_length=80, blank=True, default="")
    row_id = models.CharField(max_length=200, blank=True, default="")
    recorded = models.TextField(blank=True, default="")
    found = models.TextField(blank=True, default="")

    class Meta:
        ordering = ("run", "dfid")
        constraints = (
            models.UniqueConstraint(fields=("run", "dfid"), name="replay_finding_once"),
            models.CheckConstraint(
                condition=Q(result__in=run_contract.FindingResult.values()),
                name="replay_finding_result_known",
            ),
            models.CheckConstraint(condition=~Q(change=""), name="replay_finding_says_what"),
        )
        indexes = (models.Index(fields=("dfid",), name="replay_finding_of_flow"),)

    def __str__(self) -> str:
        return f"{self.result} {self.dfid}"
