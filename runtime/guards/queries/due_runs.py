"""Reads for the workers of soft guards: which guard runs are due."""

from datetime import datetime

from django.db.models import Exists, OuterRef, Q

from runtime.contracts.guard import GuardKind, GuardRunState
from runtime.epochs.queries import current_epoch
from runtime.guards.models import GuardRun
from runtime.registry.models import Stop


def list_due(*, at: datetime, limit: int) -> list[tuple[int, datetime]]:
    """Runs whose time has come with that time, oldest first, chosen without a lock.

    While everything is stopped, and after a restore, no target is called, so webhook runs wait.
    """
    in_force = Stop.objects.filter(tenant=OuterRef("tenant"), lifted_at__isnull=True)
    rows = (
        GuardRun.objects.filter(state=GuardRunState.PENDING, next_at__lte=at)
        .filter(~Q(guard__kind=GuardKind.WEBHOOK) | ~(Exists(in_force) | current_epoch.recovering()))
        .order_by("next_at")
    )
    return list(rows.values_list("pk", "next_at")[:limit])
