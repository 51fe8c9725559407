"""Legal holds, and the last round of the watchdog: nobody is missed for the time in which nobody listened."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import Exact

from runtime.contracts import hold as contract
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
    name = models.CharField(max_length=contract.LONGEST_NAME)
    target = models.CharField(max_length=8, choices=HoldTarget.pairs())
    flow = models.ForeignKey(Flow, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    subject = models.CharField(max_length=contract.LONGEST_SUBJECT, blank=True, default="")
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
