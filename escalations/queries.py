"""Reads of escalations for the queue, the decision page and the frame of every page."""

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, Max, Min, Q, QuerySet, prefetch_related_objects

from audit import canonical, queries, statements
from audit.events import Kind
from audit.verification.verify import UNREADABLE
from escalations import contracts, decision_search, evidence_contracts, queue_order
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Decision, Escalation, Evidence, Question, SavedView
from escalations.models.question import IS_ANSWERED
from escalations.queue_filter import NOBODY, QueueFilter
from runtime.contracts import states
from runtime.core import clock, id_search, mismatches, paging
from runtime.flows.models import Intent
from runtime.state.models import Fact

log = logging.getLogger(__name__)
PAGE = 100
OPERATIONAL_SHOWN = 200
MAX_KEPT = 200
MAX_WALKED = 1000
MOST_CHOICES = 100
_REVISIONS = frozenset({Kind.ESCALATION_OPENED, Kind.ESCALATION_REVISED})


# Keeps what a person may decide of the rows it is given: only whoever knows the person can make one.
Keeps = Callable[[Sequence[Escalation]], Sequence[Escalation]]
# The place of a row in the queue: its values in the columns of `queue_order.DECISIONS`.
Cursor = Sequence[datetime | int | UUID]


@dataclass(frozen=True, slots=True)
class Counts:
    """Open escalations, when the oldest and the newest of high impact were opened, and the next deadline.

    `high` counts the critical ones too.
    """

    total: int
    high: int
    low: int
    operational: int
    oldest_at: datetime | None
    newest_high_at: datetime | None
    next_deadline_at: datetime | None


def count_open(*, tenant: str) -> Counts:
    """Open escalations by weight, in one query."""
    total, low, *others = _OPEN.first(tenant=tenant) or (0, 0, 0, None, None, None)
    return Counts(total, total - low, low, *others)


def _count_open(*, tenant: str) -> QuerySet[Escalation, Any]:
    return statements.as_one(
        Escalation.objects.of(tenant).filter(state=contracts.State.OPEN),
        total=Count("escalation_id"),
        low=Count("escalation_id", filter=Q(impact=states.Impact.LOW_IMPACT)),
        operational=Count("escalation_id", filter=Q(family=contracts.Family.OPERATIONAL)),
        oldest_at=Min("opened_at"),
        newest_high_at=Max("opened_at", filter=~Q(impact=states.Impact.LOW_IMPACT)),
        next_deadline_at=Min("deadline_at"),
    )


_OPEN: Final = statements.Read(_count_open)


def list_operational(*, tenant: str, wanted: QueueFilter, keeps: Keeps | None = None) -> Sequence[Escalation]:
    """Open escalations that have no deadline, silent agents among them; heaviest and oldest first."""
    rows = _open(tenant=tenant, wanted=wanted).exclude(family__in=contracts.WITH_DEADLINE)
    ordered = rows.order_by(*queue_order.OPERATIONAL[wanted.sort])[:OPERATIONAL_SHOWN]
    return list(ordered) if keeps is None else keeps(list(ordered))


def list_decisions(
    *, tenant: str, wanted: QueueFilter, after: Cursor | None, size: int = PAGE, keeps: Keeps | None = None
) -> paging.Page[Escalation]:
    """Open escalations with a deadline, in the order asked for.

    With `keeps`, of the next `MAX_WALKED` only.
    """
    order = queue_order.DECISIONS[wanted.sort]
    rows = _open(tenant=tenant, wanted=wanted).filter(family__in=contracts.WITH_DEADLINE)
    if after:
        rows = rows.filter(_behind(order, after))
    ordered = rows.order_by(*order)
    if keeps is not None:
        return paging.cut(keeps(list(ordered[:MAX_WALKED]))[: size + 1], size)
    return paging.cut(list(ordered[: size + 1]), size)


def list_ids(*, tenant: str, wanted: QueueFilter, keeps: Keeps | None = None) -> list[UUID]:
    """The ids of the queue in its order and groups, for the way from item to item; at most `MAX_WALKED`."""
    rows = _open(tenant=tenant, wanted=wanted)
    operational = rows.exclude(family__in=contracts.WITH_DEADLINE).order_by(
        *queue_order.OPERATIONAL[wanted.sort]
    )[:OPERATIONAL_SHOWN]
    decisions = rows.filter(family__in=contracts.WITH_DEADLINE).order_by(*queue_order.DECISIONS[wanted.sort])
    parts: list[Sequence[Any]]
    if keeps is None:
        columns = queue_order.COLUMNS
        parts = [
            list(operational.values_list(*columns, named=True)),
            list(decisions[:MAX_WALKED].values_list(*columns, named=True)),
        ]
    else:
        parts = [keeps(list(operational)), keeps(list(decisions[:MAX_WALKED]))]
    # A group is as long as its page.
    pages = [parts[0], *(parts[1][start : start + PAGE] for start in range(0, len(parts[1]), PAGE))]
    found = [row.pk for page in pages for group in queue_order.gather(page) for row in group.rows]
    return found[:MAX_WALKED]


def count_matching(*, tenant: str, wanted: Sequence[QueueFilter]) -> list[int]:
    """How many open escalations each filter finds, in one query; what asks about a person is not asked."""
    if not wanted:
        return []
    now = clock.now()
    counts = {
        f"filter_{number}": Count("escalation_id", filter=_condition(item, now))
        for number, item in enumerate(wanted)
    }
    found = Escalation.objects.of(tenant).filter(state=contracts.State.OPEN).aggregate(**counts)
    return [found[name] for name in counts]


def list_saved_views(*, user_pk: int) -> Sequence[SavedView]:
    """The views that a person has saved, in their order."""
    return list(SavedView.objects.filter(user_id=user_pk).order_by("position"))


@dataclass(frozen=True, slots=True)
class Occurring:
    """What the open queue holds: values with their counts, the most frequent first.

    `holders` are user keys as text with name and count, and `unclaimed` is how many nobody has claimed.
    """

    agents: Sequence[tuple[str, int]]
    kinds: Sequence[tuple[str, int]]
    reasons: Sequence[tuple[str, int]]
    rules: Sequence[tuple[str, int]]
    holders: Sequence[tuple[str, str, int]]
    unclaimed: int


def list_occurring(*, tenant: str, known: Mapping[UUID, AnyEvidence]) -> Occurring:
    """What a filter can choose from, of the first `MAX_WALKED`: from the evidence, as the rows show it.

    `known` is evidence that the caller has read already, of the rows of its page.
    """
    rows = Escalation.objects.of(tenant).filter(state=contracts.State.OPEN).select_related("claimed_by")
    listed = list(rows.order_by("opened_at")[:MAX_WALKED])
    others = get_evidence(tenant=tenant, escalations=[row for row in listed if row.pk not in known])
    read = {**known, **others}
    shown = [read[row.pk] for row in listed if row.pk in read]
    now = clock.now()
    holders = Counter(
        (str(row.claimed_by_id), row.claimed_by.get_username())
        for row in listed
        if row.claimed_by is not None and row.is_claimed(now)
    )
    return Occurring(
        agents=_frequent(one.agent_id for one in shown),
        kinds=_frequent(one.policy_kind for one in shown),
        reasons=_frequent(one.reason for one in shown),
        rules=_frequent(one.rule for one in shown),
        holders=[(pk, name, number) for (pk, name), number in holders.most_common(MOST_CHOICES)],
        unclaimed=len(listed) - holders.total(),
    )


def _frequent(values: Iterable[str]) -> Sequence[tuple[str, int]]:
    return [(value, number) for value, number in Counter(values).most_common(MOST_CHOICES) if value]


def list_by_id(*, tenant: str, ids: Sequence[UUID]) -> Sequence[Escalation]:
    """Those of the ids that are no longer open, with their decision: the page greys them in place."""
    rows = Escalation.objects.of(tenant).exclude(state=contracts.State.OPEN)
    return list(
        rows.select_related("claimed_by")
        .prefetch_related("decisions__approver")
        .filter(escalation_id__in=ids[:MAX_KEPT])
    )


def list_chosen(*, tenant: str, ids: Sequence[UUID]) -> Sequence[Escalation]:
    """The escalations of these ids, open or not, in the order given; with all that policy asks about."""
    rows = (
        Escalation.objects.of(tenant)
        .select_related("claimed_by", "intent", "flow__agent__active_manifest")
        .prefetch_related("decisions__approver")
        .in_bulk(ids)
    )
    return [rows[one] for one in ids if one in rows]


def list_closed(*, tenant: str, wanted: QueueFilter, size: int = PAGE) -> Sequence[Escalation]:
    """The newest that were closed."""
    # Nobody holds what is closed.
    asked = replace(wanted, mine=None, holder="")
    rows = Escalation.objects.of(tenant).filter(_condition(asked, clock.now()))
    rows = rows.exclude(state=contracts.State.OPEN).select_related("claimed_by")
    rows = rows.prefetch_related("decisions__approver")
    return list(rows.order_by("-escalation_id")[:size])


def list_by_part_of_id(*, tenant: str, part: str, size: int) -> Sequence[Escalation]:
    """The newest that have the part in their id, open or not."""
    rows = Escalation.objects.of(tenant)
    return list(rows.filter(id_search.having(rows, part)).order_by("-escalation_id")[:size])


def get(*, tenant: str, escalation_id: UUID) -> Escalation | None:
    """One escalation with everything its page names, or None."""
    found = _WHOLE.first(tenant=tenant, escalation_id=escalation_id)
    if found is not None:
        prefetch_related_objects([found], "decisions__approver")
    return found


def _whole(*, tenant: str, escalation_id: UUID) -> QuerySet[Escalation]:
    rows = Escalation.objects.of(tenant).filter(escalation_id=escalation_id)
    return rows.select_related("flow__agent__active_manifest", "proposal__verdict", "intent", "claimed_by")


_WHOLE: Final = statements.Read(_whole)


def list_open_of(*, proposals: Collection[UUID]) -> dict[UUID, UUID]:
    """The open decisions about these proposals, by the id of the proposal; not those about their calls."""
    rows = Escalation.objects.filter(
        proposal__in=list(proposals), state=contracts.State.OPEN, family=contracts.Family.DECISION
    )
    return dict(rows.values_list("proposal_id", "escalation_id"))


def find_flow(*, tenant: str, escalation_id: UUID) -> UUID | None:
    """The flow of an escalation, or None."""
    rows = Escalation.objects.of(tenant).filter(escalation_id=escalation_id)
    return rows.values_list("flow_id", flat=True).first()


def list_decided(*, tenant: str, user_pk: int, size: int) -> Sequence[Decision]:
    """The newest decisions of a person that everybody may see, with their escalations."""
    shown = decision_search.shown_of(Escalation.objects.of(tenant))
    rows = shown.filter(approver=user_pk).select_related("escalation")
    return list(rows.order_by("-decided_at", "-pk")[:size])


def list_questions(*, escalation: Escalation) -> Sequence[Question]:
    """The questions to the agent, in the order they were asked."""
    return list(Question.objects.filter(escalation=escalation).select_related("asked_by").order_by("number"))


def count_unanswered(*, tenant: str, agent_id: str) -> int:
    """How often an agent was asked, if it has never answered; 0 where it has, or was not asked."""
    rows = Question.objects.filter(escalation__tenant=tenant, escalation__agent_id=agent_id)
    counted = rows.aggregate(
        asked=Count("pk", filter=Q(closed_at__isnull=False)), answered=Count("pk", filter=IS_ANSWERED)
    )
    return 0 if counted["answered"] else int(counted["asked"])


def get_evidence(*, tenant: str, escalations: Sequence[Escalation]) -> dict[UUID, AnyEvidence]:
    """The current evidence of each escalation; without that which cannot be read, or was not recorded so.

    The ledger says which revision is in force, and is read first: a revision that comes meanwhile leaves the
    one before it where it was.
    """
    hashes: dict[str, tuple[int, str]] = {}
    for _, payload in queries.list_payloads_of_streams(
        tenant=tenant, streams={str(row.flow_id) for row in escalations}, kinds=_REVISIONS
    ):
        hashes[payload["escalation_id"]] = (payload["revision"], payload["evidence_hash"])
    rows = Evidence.objects.filter(
        escalation__in=[row.pk for row in escalations], revision__in={number for number, _ in hashes.values()}
    )
    found: dict[UUID, AnyEvidence] = {}
    for row in rows:
        revision, digest = hashes.get(str(row.escalation_id), (0, ""))
        if (
            row.revision != revision
            or mismatches.compare("evidence.body", str(row.pk), digest, row.body) is not None
        ):
            continue
        try:
            found[row.escalation_id] = evidence_contracts.read_evidence(bytes(row.body))
        except ValueError:
            log.exception("the evidence of escalation %s could not be read", row.escalation_id)
    return found


def get_intent(*, escalation: Escalation, proposal_id: str | None) -> Intent | None:
    """What ran after the decision: the intent of the person's own proposal, else the one that was stuck."""
    if proposal_id is None:
        return escalation.intent
    rows = Intent.objects.of(escalation.tenant).select_related("outcome")
    return rows.filter(proposal_id=proposal_id).first()


def live_facts(*, tenant: str, paths: Sequence[str]) -> dict[str, Any]:
    """The facts as they are now, path to value; the page compares them with the frozen ones.

    One whose bytes cannot be read is left out, as if nobody knew it.
    """
    rows = Fact.objects.of(tenant).filter(path__in=paths).values_list("path", "value")
    found: dict[str, Any] = {}
    for path, value in rows:
        with contextlib.suppress(*UNREADABLE):
            found[path] = canonical.decode(bytes(value))
    return found


def _behind(order: Sequence[str], place: Cursor) -> Q:
    """What comes after a place in an order whose last column is unique."""
    found, same = Q(), dict[str, Any]()
    for name, value in zip(order, place, strict=True):
        column = name.removeprefix("-")
        found |= Q(**same, **{f"{column}__{'lt' if name.startswith('-') else 'gt'}": value})
        same[column] = value
    return found


def _open(*, tenant: str, wanted: QueueFilter) -> QuerySet[Escalation]:
    rows = Escalation.objects.of(tenant).filter(state=contracts.State.OPEN).prefetch_related("decisions")
    rows = rows.filter(_condition(wanted, clock.now())).select_related("claimed_by")
    return rows.select_related("flow__agent__active_manifest", "intent") if wanted.is_personal else rows


def _claimed(now: datetime) -> Q:
    return Q(claimed_by__isnull=False, claimed_until__gt=now)


def _condition(wanted: QueueFilter, now: datetime) -> Q:
    """What a filter asks of a row; what depends on the person who looks is left to `Keeps`."""
    exact = {
        "family": wanted.family,
        "agent_id": wanted.agent,
        "policy_kind": wanted.kind,
        "reason": wanted.reason,
        "rule": wanted.rule,
    }
    found = Q(**{name: value for name, value in exact.items() if value})
    if wanted.impact == states.Impact.HIGH_IMPACT:
        found &= ~Q(impact=states.Impact.LOW_IMPACT)
    elif wanted.impact:
        found &= Q(impact=wanted.impact)
    if wanted.holder == NOBODY:
        found &= ~_claimed(now) | Q(claimed_by__isnull=True)
    elif wanted.holder:
        found &= _claimed(now) & Q(claimed_by_id=int(wanted.holder))
    if wanted.mine is not None:
        found &= _claimed(now) & Q(claimed_by_id=wanted.mine)
    if wanted.age:
        found &= Q(opened_at__lte=now - timedelta(minutes=wanted.age))
    if wanted.text:
        found &= (
            Q(effect__icontains=wanted.text)
            | Q(agent_id__icontains=wanted.text)
            | Q(reason__icontains=wanted.text)
            | Q(policy_kind__icontains=wanted.text)
            | Q(escalation_id__icontains=wanted.text)
        )
    return found
