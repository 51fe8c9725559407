"""Reviews for their pages: what waits, what was found, and how often each guard was right."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from audit import canonical, statements
from runtime.contracts.guard import GuardRunState, ReviewOrigin, ReviewResult, ReviewState
from runtime.core import paging
from runtime.flows.models import Intent
from runtime.guards.models import Guard, GuardRun, Review

PAGE = 50
RATED_DAYS = 30
# Among how many open reviews alike ones are looked for.
GROUPED = 500


@dataclass(frozen=True, slots=True)
class Rating:
    """A guard, its runs of the last RATED_DAYS days by how they ended, and what people found of its flags."""

    guard: Guard
    looked: int
    flagged: int
    failed: int
    confirmed: int
    false_alarms: int


@dataclass(frozen=True, slots=True)
class Group:
    """Open reviews that are alike: one agent, one guard, the same findings; at most PAGE of them."""

    agent_id: str
    guard_id: str
    codes: tuple[str, ...]
    review_ids: tuple[UUID, ...]


def count_open(*, tenant: str) -> int:
    """How many flags wait for a person."""
    (number,) = _OPEN.first(tenant=tenant) or (0,)
    return int(number)


def _open(*, tenant: str) -> QuerySet[Review, tuple[int]]:
    return statements.as_one(Review.objects.of(tenant).filter(state=ReviewState.OPEN), number=Count("pk"))


_OPEN: Final = statements.Read(_open)


def oldest_open_at(*, tenant: str) -> datetime | None:
    """Since when the oldest of them waits."""
    return _OLDEST.first(tenant=tenant)


def _oldest(*, tenant: str) -> QuerySet[Review, datetime]:
    rows = Review.objects.of(tenant).filter(state=ReviewState.OPEN).order_by("flagged_at")
    return rows.values_list("flagged_at", flat=True)[:1]


_OLDEST: Final = statements.Read(_oldest)


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


def list_by_id(*, tenant: str, ids: Collection[UUID]) -> Sequence[Review]:
    """These reviews, open or not: what a page that is open shows already."""
    return list(_whole(tenant).filter(pk__in=list(ids)[:PAGE]))


def place_of(review: Review) -> tuple[int, int]:
    """Where an open review stands in the list, from 1, and how many are open."""
    rows = Review.objects.of(review.tenant).filter(state=ReviewState.OPEN)
    before = rows.filter(
        Q(confidence_bps__gt=review.confidence_bps)
        | Q(confidence_bps=review.confidence_bps, flagged_at__lt=review.flagged_at)
        | Q(confidence_bps=review.confidence_bps, flagged_at=review.flagged_at, pk__lt=review.pk)
    )
    return before.count() + 1, rows.count()


def get_next(*, review: Review) -> UUID | None:
    """The open review after this one in the list, else the first; None where none is left."""
    for after in (review.pk, None):
        page = list_open(tenant=review.tenant, after=after)
        others = [row.pk for row in page.rows if row.pk != review.pk]
        if others:
            return others[0]
    return None


def list_groups(*, tenant: str) -> list[Group]:
    """The open reviews of one agent and guard with the same findings, where there are several; most first."""
    found: dict[tuple[str, str, tuple[str, ...]], list[UUID]] = defaultdict(list)
    for review in _findings_of(Review.objects.of(tenant)):
        codes = codes_of(review)
        if codes and review.guard is not None:
            found[review.agent.agent_id, review.guard.guard_id, codes].append(review.pk)
    groups = [
        Group(agent_id=agent_id, guard_id=guard_id, codes=codes, review_ids=tuple(review_ids[:PAGE]))
        for (agent_id, guard_id, codes), review_ids in found.items()
        if len(review_ids) > 1
    ]
    return sorted(groups, key=lambda group: (-len(group.review_ids), group.agent_id, group.guard_id))


def list_alike_ids(*, review: Review) -> list[UUID]:
    """The open reviews of its agent and guard with its findings, surest first; with itself if it is open."""
    codes = codes_of(review)
    if review.origin != ReviewOrigin.GUARD:
        return []
    rows = Review.objects.of(review.tenant).filter(agent=review.agent_id, guard=review.guard_id)
    return [row.pk for row in _findings_of(rows) if codes and codes_of(row) == codes][:PAGE]


def list_alike(*, review: Review) -> list[Review]:
    """The same with all that a page shows of each."""
    rows = _whole(review.tenant).select_related("proposal__verdict__bundle", "run")
    ids = list_alike_ids(review=review)
    return sorted(rows.filter(pk__in=ids), key=lambda row: ids.index(row.pk))


def _findings_of(rows: QuerySet[Review]) -> QuerySet[Review]:
    """The open ones with their findings and without the rest, surest first; at most GROUPED."""
    light = rows.filter(state=ReviewState.OPEN, origin=ReviewOrigin.GUARD).select_related("agent", "guard")
    shown = light.only("findings", "agent__agent_id", "guard__guard_id")
    return shown.order_by("-confidence_bps", "flagged_at", "pk")[:GROUPED]


def codes_of(review: Review) -> tuple[str, ...]:
    """The codes of its findings, in order; none where they cannot be read."""
    try:
        return tuple(sorted(str(item["code"]) for item in canonical.decode(bytes(review.findings))))
    except (canonical.CanonicalError, KeyError, TypeError):
        return ()


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
    return _OF_FLOW.rows(dfid=dfid)


def _of_flow(*, dfid: UUID) -> QuerySet[Review]:
    rows = Review.objects.filter(flow_id=dfid, state=ReviewState.OPEN).select_related("guard", "memory")
    return rows.order_by("-confidence_bps", "flagged_at")[:PAGE]


_OF_FLOW: Final = statements.Read(_of_flow)


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
    return Review.objects.of(tenant).select_related("agent", "guard", "flow", "proposal", "memory")
