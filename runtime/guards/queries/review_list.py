"""Reviews for their pages: what waits, what was found, and how often each guard was right."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from runtime.contracts.guard import GuardRunState, ReviewResult, ReviewState
from runtime.core import paging
from runtime.flows.models import Intent
from runtime.guards.models import Guard, GuardRun, Review

PAGE = 50
RATED_DAYS = 30


@dataclass(frozen=True, slots=True)
class Rating:
    """A guard, its runs of the last RATED_DAYS days by how they ended, and what people found of its flags."""

    guard: Guard
    looked: int
    flagged: int
    failed: int
    confirmed: int
    false_alarms: int


def count_open(*, tenant: str) -> int:
    """How many flags wait for a person."""
    return Review.objects.of(tenant).filter(state=ReviewState.OPEN).count()


def oldest_open_at(*, tenant: str) -> datetime | None:
    """Since when the oldest of them waits."""
    rows = Review.objects.of(tenant).filter(state=ReviewState.OPEN).order_by("flagged_at")
    return rows.values_list("flagged_at", flat=True).first()


def list_open(*, tenant: str, after: UUID | None) -> paging.Page[Review]:
    """Surest first, then oldest."""
    rows = _whole(tenant).filter(state=ReviewState.OPEN)
    last = None if after is None else Review.objects.of(tenant).filter(pk=after).first()
    if last is not None:
        rows = rows.filter(
            Q(confidence_bps__lt=last.confidence_bps)
            | Q(confidence_bps=last.confidence_bps, flagged_at__gt=last.flagged_at)
            | Q(confidence_bps=last.confidence_bps, flagged_at=last.flagged_at, pk__gt=last.pk)
        )
    return paging.cut(list(rows.order_by("-confidence_bps", "flagged_at", "pk")[: PAGE + 1]), PAGE)


def list_reviewed(*, tenant: str, after: UUID | None) -> paging.Page[Review]:
    """Newest result first."""
    rows = _whole(tenant).filter(state=ReviewState.REVIEWED)
    last = None if after is None else Review.objects.of(tenant).filter(pk=after).first()
    if last is not None and last.reviewed_at is not None:
        rows = rows.filter(
            Q(reviewed_at__lt=last.reviewed_at) | Q(reviewed_at=last.reviewed_at, pk__lt=last.pk)
        )
    return paging.cut(list(rows.order_by("-reviewed_at", "-pk")[: PAGE + 1]), PAGE)


def get_review(*, tenant: str, review_id: UUID) -> Review | None:
    """The review with everything that its page shows, or None."""
    return _whole(tenant).select_related("proposal__verdict__bundle", "run").filter(pk=review_id).first()


def get_intent(*, review: Review) -> Intent | None:
    """The current state of the flow's newest intent."""
    return Intent.objects.filter(flow_id=review.flow_id).order_by("-intent_id").first()


def list_of_flow(*, dfid: UUID) -> list[Review]:
    """The open reviews of one flow, surest first."""
    rows = Review.objects.filter(flow_id=dfid, state=ReviewState.OPEN).select_related("guard")
    return list(rows.order_by("-confidence_bps", "flagged_at")[:PAGE])


def flows_in_review(*, dfids: Iterable[UUID]) -> set[UUID]:
    """Those of the flows that have an open review."""
    rows = Review.objects.filter(flow_id__in=list(dfids), state=ReviewState.OPEN)
    return set(rows.values_list("flow_id", flat=True))


def rate_guards(*, tenant: str, now: datetime) -> list[Rating]:
    """Every guard of the tenant with its figures, by name."""
    since = now - timedelta(days=RATED_DAYS)
    runs = {
        (guard, state): count
        for guard, state, count in GuardRun.objects.of(tenant)
        .filter(finished_at__gte=since)
        .values_list("guard", "state")
        .annotate(Count("pk"))
    }
    found = {
        (guard, result): count
        for guard, result, count in Review.objects.of(tenant)
        .filter(state=ReviewState.REVIEWED, reviewed_at__gte=since)
        .values_list("guard", "result")
        .annotate(Count("pk"))
    }
    return [
        Rating(
            guard=guard,
            looked=runs.get((guard.pk, GuardRunState.CLEAR), 0)
            + runs.get((guard.pk, GuardRunState.FLAGGED), 0),
            flagged=runs.get((guard.pk, GuardRunState.FLAGGED), 0),
            failed=runs.get((guard.pk, GuardRunState.FAILED), 0),
            confirmed=found.get((guard.pk, ReviewResult.CONFIRMED), 0),
            false_alarms=found.get((guard.pk, ReviewResult.FALSE_ALARM), 0),
        )
        for guard in Guard.objects.of(tenant)
    ]


def _whole(tenant: str) -> QuerySet[Review]:
    return Review.objects.of(tenant).select_related("agent", "guard", "flow", "proposal")
