"""The circuit of a target: there is a row only once the target has failed."""

from django.db import models
from django.db.models import Q

from runtime.contracts import states
from runtime.core.scoping import TenantManager

_CLOSED, _HALF_OPEN = states.CircuitState.CLOSED, states.CircuitState.HALF_OPEN


class Circuit(models.Model):
    """One circuit breaker, moved by compare-and-swap on `version`; `probe` names the claim that may try."""

    tenant = models.CharField(max_length=64, default="default")
    target = models.CharField(max_length=64)
    state = models.CharField(
        max_length=12, choices=states.CircuitState.pairs(), default=states.CircuitState.CLOSED
    )
    failures = models.PositiveIntegerField(default=0)
    openings = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    probe = models.CharField(max_length=80, blank=True, default="")
    changed_at = models.DateTimeField()
    version = models.PositiveBigIntegerField(default=0)

    objects = TenantManager()

    class Meta:
        ordering = ("target",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "target"), name="circuit_once_per_target"),
            models.CheckConstraint(
                condition=Q(state__in=states.CircuitState.values()), name="circuit_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state=_CLOSED, retry_at__isnull=True)
                | (~Q(state=_CLOSED) & Q(retry_at__isnull=False)),
                name="circuit_waits_unless_closed",
            ),
            models.CheckConstraint(
                condition=(Q(state=_HALF_OPEN) & ~Q(probe="")) | (~Q(state=_HALF_OPEN) & Q(probe="")),
                name="circuit_probe_goes_with_half_open",
            ),
        )

    def __str__(self) -> str:
        return f"{self.target} {self.state}"
