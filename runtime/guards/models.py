"""Soft guards, their runs, and the reviews that a flag opens (DIR paper, 6.3)."""

from django.db import models
from django.db.models import Q

from runtime.contracts import guard as contract
from runtime.core.ids import new_id
from runtime.core.scoping import TenantManager
from runtime.flows.models import Flow, Proposal
from runtime.registry.models import Agent
from runtime.state.models import MemoryItem


class Guard(models.Model):
    """A guard as it is configured now: a deployment setting, outside a kind's hash."""

    tenant = models.CharField(max_length=64, default="default")
    guard_id = models.CharField(max_length=64)
    kind = models.CharField(max_length=8, choices=contract.GuardKind.pairs())
    body = models.BinaryField()
    digest = models.CharField(max_length=64)
    enabled = models.BooleanField(default=True)
    configured_at = models.DateTimeField()
    switched_at = models.DateTimeField(null=True, blank=True)
    switched_by = models.CharField(max_length=160, blank=True, default="")
    switch_reason = models.CharField(max_length=500, blank=True, default="")

    objects = TenantManager()

    class Meta:
        ordering = ("guard_id",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "guard_id"), name="guard_once_per_tenant"),
            models.CheckConstraint(
                condition=Q(kind__in=contract.GuardKind.values()), name="guard_kind_known"
            ),
        )

    def __str__(self) -> str:
        return self.guard_id


class GuardRun(models.Model):
    """One guard's look at one proposal, and the outbox row that asks for it.

    `next_at` is also the lease: who takes a run moves it past the longest call, so that a run whose worker
    died becomes due again by itself.
    """

    tenant = models.CharField(max_length=64, default="default")
    proposal = models.ForeignKey(
        Proposal, on_delete=models.PROTECT, related_name="guard_runs", db_index=False
    )
    guard = models.ForeignKey(Guard, on_delete=models.PROTECT, related_name="runs", db_index=False)
    state = models.CharField(
        max_length=8, choices=contract.GuardRunState.pairs(), default=contract.GuardRunState.PENDING
    )
    tries = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField()
    # What the guard was when it answered: its row moves on.
    guard_digest = models.CharField(max_length=64, blank=True, default="")
    result = models.BinaryField(null=True, blank=True)
    detail = models.CharField(max_length=300, blank=True, default="")
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("proposal", "guard"), name="guard_run_once"),
            models.CheckConstraint(
                condition=Q(state__in=contract.GuardRunState.values()), name="guard_run_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state=contract.GuardRunState.PENDING, finished_at__isnull=True)
                | (~Q(state=contract.GuardRunState.PENDING) & Q(finished_at__isnull=False)),
                name="guard_run_end_goes_with_its_state",
            ),
        )
        indexes = (
            models.Index(
                fields=("next_at",), condition=Q(state=contract.GuardRunState.PENDING), name="guard_run_due"
            ),
            models.Index(fields=("guard", "state"), name="guard_run_by_state"),
        )

    def __str__(self) -> str:
        return f"{self.guard_id} on {self.proposal_id}"


class Review(models.Model):
    """A flag, and what a person found. It blocks nothing: the flow goes on meanwhile.

    A soft guard flags a proposal; a person flags a flow that received an item of memory, with the reason; a
    router of the flow's workflow flags a step after the proposal.
    """

    review_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="reviews")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="reviews")
    origin = models.CharField(
        max_length=8, choices=contract.ReviewOrigin.pairs(), default=contract.ReviewOrigin.GUARD
    )
    proposal = models.ForeignKey(
        Proposal, null=True, blank=True, on_delete=models.PROTECT, related_name="reviews"
    )
    guard = models.ForeignKey(Guard, null=True, blank=True, on_delete=models.PROTECT, related_name="reviews")
    run = models.OneToOneField(
        GuardRun, null=True, blank=True, on_delete=models.PROTECT, related_name="review"
    )
    memory = models.ForeignKey(
        MemoryItem, null=True, blank=True, on_delete=models.PROTECT, related_name="reviews"
    )
    router = models.CharField(max_length=64, blank=True, default="")
    requested_by = models.CharField(max_length=160, blank=True, default="")
    request_reason = models.CharField(max_length=500, blank=True, default="")
    # Hundredths of a percent: exact, and comparable in the database.
    confidence_bps = models.PositiveSmallIntegerField()
    findings = models.BinaryField()
    emergency_stop = models.CharField(
        max_length=12, choices=contract.EmergencyStop.pairs(), default=contract.EmergencyStop.NOT_ASKED
    )
    agent_suspended = models.BooleanField(default=False)
    state = models.CharField(
        max_length=8, choices=contract.ReviewState.pairs(), default=contract.ReviewState.OPEN
    )
    flagged_at = models.DateTimeField()
    result = models.CharField(max_length=12, choices=contract.ReviewResult.pairs(), blank=True, default="")
    note = models.CharField(max_length=500, blank=True, default="")
    reviewed_by = models.CharField(max_length=160, blank=True, default="")
    reviewed_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(confidence_bps__lte=contract.WHOLE_BPS), name="review_confidence_within_one"
            ),
            models.CheckConstraint(
                condition=Q(state=contract.ReviewState.OPEN, result="", reviewed_at__isnull=True)
                | Q(
                    state=contract.ReviewState.REVIEWED,
                    result__in=contract.ReviewResult.values(),
                    reviewed_at__isnull=False,
                ),
                name="review_result_goes_with_its_state",
            ),
            models.CheckConstraint(
                condition=Q(
                    origin=contract.ReviewOrigin.GUARD,
                    proposal__isnull=False,
                    guard__isnull=False,
                    run__isnull=False,
                    memory__isnull=True,
                    router="",
                    requested_by="",
                    request_reason="",
                )
                | (
                    Q(
                        origin=contract.ReviewOrigin.MEMORY,
                        proposal__isnull=True,
                        guard__isnull=True,
                        run__isnull=True,
                        memory__isnull=False,
                        router="",
                    )
                    & ~Q(requested_by="")
                    & ~Q(request_reason="")
                )
                | (
                    Q(
                        origin=contract.ReviewOrigin.ROUTER,
                        proposal__isnull=True,
                        guard__isnull=True,
                        run__isnull=True,
                        memory__isnull=True,
                        requested_by="",
                    )
                    & ~Q(router="")
                    & ~Q(request_reason="")
                ),
                name="review_is_of_what_asked_for_it",
            ),
            models.UniqueConstraint(
                fields=("flow", "router"), condition=~Q(router=""), name="review_once_per_router"
            ),
            models.UniqueConstraint(
                fields=("flow", "memory"), condition=Q(memory__isnull=False), name="review_once_per_memory"
            ),
        )
        indexes = (
            models.Index(
                fields=("tenant", "-confidence_bps", "flagged_at"),
                condition=Q(state=contract.ReviewState.OPEN),
                name="review_open",
            ),
            models.Index(fields=("tenant", "-reviewed_at"), name="review_by_end"),
        )

    @property
    def asked_by(self) -> str:
        """What the review is about: the guard or router that flagged, or the memory that was received."""
        if self.guard is not None:
            return self.guard.guard_id
        return self.router if self.memory is None else str(self.memory)

    def __str__(self) -> str:
        return str(self.review_id)
