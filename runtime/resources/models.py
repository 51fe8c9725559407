"""What can run out, and who holds how much of it (DIR paper, 7)."""

from django.db import models
from django.db.models import F, Q

from audit.quick_rows import QuickRow
from runtime.contracts import states
from runtime.core.scoping import TenantManager
from runtime.registry.models import Agent


class Resource(models.Model):
    """A capacity in `unit`: `reserved` is held for a while, `committed` used up; both never pass it."""

    tenant = models.CharField(max_length=64, default="default")
    name = models.CharField(max_length=500)
    unit = models.CharField(max_length=500)
    capacity = models.PositiveBigIntegerField()
    reserved = models.PositiveBigIntegerField(default=0)
    committed = models.PositiveBigIntegerField(default=0)
    configured_at = models.DateTimeField()
    configured_by = models.CharField(max_length=160)

    objects = TenantManager()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "name"), name="resource_once_per_tenant"),
            models.CheckConstraint(
                condition=Q(capacity__gte=0, reserved__gte=0, committed__gte=0),
                name="resource_never_negative",
            ),
            models.CheckConstraint(
                condition=Q(capacity__gte=F("reserved") + F("committed")), name="resource_never_over_capacity"
            ),
        )

    def __str__(self) -> str:
        return self.name


class Reservation(QuickRow):
    """One claim of an accepted proposal. HELD has a lease; PINNED by a worker's claim has none."""

    resource = models.ForeignKey(
        Resource, on_delete=models.PROTECT, related_name="reservations", db_index=False
    )
    flow = models.ForeignKey("runtime.Flow", on_delete=models.PROTECT, related_name="reservations")
    proposal = models.ForeignKey(
        "runtime.Proposal", on_delete=models.PROTECT, related_name="reservations", db_index=False
    )
    amount = models.PositiveBigIntegerField()
    state = models.CharField(
        max_length=12, choices=states.ReservationState.pairs(), default=states.ReservationState.HELD
    )
    reason = models.CharField(max_length=64, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    reserved_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=states.ReservationState.values()), name="reservation_state_known"
            ),
            models.CheckConstraint(condition=Q(amount__gte=1), name="reservation_of_something"),
            models.UniqueConstraint(fields=("proposal", "resource"), name="reservation_once_per_claim"),
            models.CheckConstraint(
                condition=Q(state=states.ReservationState.HELD, lease_until__isnull=False)
                | (~Q(state=states.ReservationState.HELD) & Q(lease_until__isnull=True)),
                name="reservation_lease_goes_with_holding",
            ),
            models.CheckConstraint(
                condition=Q(state__in=states.STANDING, ended_at__isnull=True)
                | (~Q(state__in=states.STANDING) & Q(ended_at__isnull=False)),
                name="reservation_ended_at_goes_with_its_state",
            ),
        )
        indexes = (
            models.Index(
                fields=("lease_until",),
                condition=Q(state=states.ReservationState.HELD),
                name="reservation_leased",
            ),
            models.Index(
                fields=("resource", "id"), condition=Q(state__in=states.STANDING), name="reservation_standing"
            ),
            models.Index(fields=("resource", "-flow"), name="reservation_by_resource"),
        )

    def __str__(self) -> str:
        return f"{self.amount} of {self.resource_id} for {self.flow_id}"


class ComputeBudget(models.Model):
    """Caps and use of one flow, under its lock. A cap of NULL bounds nothing; use past a cap was still made.

    Money is in micro-dollars. The caps are those of the manifest at the opening: a later one changes nothing.
    """

    flow = models.OneToOneField(
        "runtime.Flow", primary_key=True, on_delete=models.PROTECT, related_name="compute_budget"
    )
    tokens_cap = models.PositiveBigIntegerField(null=True, blank=True)
    cost_cap_micros = models.PositiveBigIntegerField(null=True, blank=True)
    tool_calls_cap = models.PositiveBigIntegerField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    tokens_used = models.PositiveBigIntegerField(default=0)
    cost_used_micros = models.PositiveBigIntegerField(default=0)
    tool_calls_used = models.PositiveBigIntegerField(default=0)

    class Meta:
        indexes = (
            models.Index(
                fields=("ends_at",), condition=Q(ends_at__isnull=False), name="compute_budget_by_end"
            ),
        )

    def __str__(self) -> str:
        return f"compute of {self.flow_id}"


class UsageReport(models.Model):
    """Deltas of what a flow used, by its agent, or by the answer of a `target`. Only ever added."""

    tenant = models.CharField(max_length=64, default="default")
    flow = models.ForeignKey("runtime.Flow", on_delete=models.PROTECT, related_name="usage_reports")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    tokens = models.PositiveBigIntegerField(default=0)
    cost_micros = models.PositiveBigIntegerField(default=0)
    tool_calls = models.PositiveBigIntegerField(default=0)
    target = models.CharField(max_length=64, blank=True, default="")
    reported_at = models.DateTimeField()

    objects = TenantManager()

    class Meta:
        indexes = (models.Index(fields=("tenant", "reported_at"), name="usage_by_time"),)

    def __str__(self) -> str:
        return f"{self.tokens} tokens in {self.flow_id}"
