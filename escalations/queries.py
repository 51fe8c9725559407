"""Reads of escalations for the queue, the decision page and the frame of every page."""

import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db.models import Count, Max, Min, Q, QuerySet

from audit import canonical, queries, statements
from audit.events import Kind
from audit.verification.verify import UNREADABLE
from escalations import contracts, decision_search, evidence_contracts, queue_order
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Decision, Escalation, Evidence, Question, SavedView
from escalations.models.question import IS_ANSWERED
from escalations.queue_filter import NOBODY, QueueFilter
from escalations.queue_order import Item
from runtime.contracts import states
from runtime.core import clock, id_search, mismatches, paging
from runtime.flows.models import Intent
from runtime.state.models import Fact

log = logging.getLogger(__name__)
Row = TypeVar("Row")
PAGE = 100
OPERATIONAL_SHOWN = 200
MAX_KEPT = 200
MAX_WALKED = 1000
# For a filter that no time decides: a statement is compiled once, and no clock may be asked for it.
ANY_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
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
    rows = _with_decisions(_find(_OPERATIONAL, wanted, OPERATIONAL_SHOWN, tenant=tenant))
    return rows if keeps is None else keeps(rows)


def list_decisions(
    *, tenant: str, wanted: QueueFilter, after: Cursor | None, size: int = PAGE, keeps: Keeps | None = None
) -> paging.Page[Escalation]:
    """Open escalations with a deadline, in the order asked for.

    With `keeps`, of the next `MAX_WALKED` only.
    """
    most = size + 1 if keeps is None else MAX_WALKED
    if after:
        behind = _behind(queue_order.DECISIONS[wanted.sort], after)
        found = list(_in_time(_open(tenant=tenant, wanted=wanted).filter(behind), wanted)[:most])
    else:
        found = _find(_DECISIONS, wanted, most, tenant=tenant)
    rows = _with_decisions(found)
    return paging.cut(rows if keeps is None else keeps(rows)[: size + 1], size)


def _find(read: statements.Read[Row], wanted: QueueFilter, most: int, *, tenant: str) -> list[Row]:
    """The rows of a filter; compiled where it asks for nothing but a few known values."""
    if wanted.asks_known:
        return read.rows(wanted, most, tenant=tenant)
    return list(read.plain(wanted, most, tenant=tenant))


def _operational(wanted: QueueFilter, most: int, *, tenant: str) -> QuerySet[Escalation]:
    rows = _open(tenant=tenant, wanted=wanted).exclude(family__in=contracts.WITH_DEADLINE)
    return rows.order_by(*queue_order.OPERATIONAL[wanted.sort])[:most]


def _decisions(wanted: QueueFilter, most: int, *, tenant: str) -> QuerySet[Escalation]:
    return _in_time(_open(tenant=tenant, wanted=wanted), wanted)[:most]


def _in_time(rows: QuerySet[Escalation], wanted: QueueFilter) -> QuerySet[Escalation]:
    """Those with a deadline, in the order of the filter."""
    return rows.filter(family__in=contracts.WITH_DEADLINE).order_by(*queue_order.DECISIONS[wanted.sort])


_OPERATIONAL: Final = statements.Read(_operational)
_DECISIONS: Final = statements.Read(_decisions)


def _with_decisions(rows: Sequence[Escalation]) -> Sequence[Escalation]:
    """The rows, each with its decisions, which are read for all of them at once."""
    of_row: dict[UUID, list[Decision]] = defaultdict(list)
    row_of = {row.pk: row for row in rows}
    for decision in _DECISIONS_OF.rows(keys=list(row_of)):
        decision.escalation = row_of[decision.escalation_id]
        of_row[decision.escalation_id].append(decision)
    for row in rows:
        row.keep_decisions(of_row[row.pk])
    return rows


def _decisions_of(*, keys: list[UUID]) -> QuerySet[Decision]:
    rows = Decision.objects.filter(escalation__pk__in=keys).select_related("approver")
    return rows.order_by("escalation", "sequence")


_DECISIONS_OF: Final = statements.Read(_decisions_of)


def list_ids(*, tenant: str, wanted: QueueFilter, keeps: Keeps | None = None) -> list[UUID]:
    """The ids of the queue in its order and groups, for the way from item to item; at most `MAX_WALKED`."""
    parts: list[Sequence[Any]]
    if keeps is None:
        asked = ((_OPERATIONAL_ITEMS, OPERATIONAL_SHOWN), (_DECISION_ITEMS, MAX_WALKED))
        parts = [[Item(*row) for row in _find(read, wanted, most, tenant=tenant)] for read, most in asked]
    else:
        walked = _with_decisions(_find(_DECISIONS, wanted, MAX_WALKED, tenant=tenant))
        parts = [list_operational(tenant=tenant, wanted=wanted, keeps=keeps), keeps(walked)]
    # A group is as long as its page.
    pages = [parts[0], *(parts[1][start : start + PAGE] for start in range(0, len(parts[1]), PAGE))]
    ids = [row.pk for page in pages for group in queue_order.gather(page) for row in group.rows]
    return ids[:MAX_WALKED]


def _operational_items(wanted: QueueFilter, most: int, *, tenant: str) -> QuerySet[Escalation, Any]:
    return _operational(wanted, most, tenant=tenant).values_list(*Item._fields)


def _decision_items(wanted: QueueFilter, most: int, *, tenant: str) -> QuerySet[Escalation, Any]:
    return _decisions(wanted, most, tenant=tenant).values_list(*Item._fields)


_OPERATIONAL_ITEMS: Final = statements.Read(_operational_items)
_DECISION_ITEMS: Final = statements.Read(_decision_items)


def list_saved_views(*, user_pk: int) -> Sequence[SavedView]:
    """The views that a person has saved, in their order."""
    return _SAVED.rows(user_pk=user_pk)


def _saved(*, user_pk: int) -> QuerySet[SavedView]:
    return SavedView.objects.filter(user_id=user_pk).order_by("position")


_SAVED: Final = statements.Read(_saved)


def list_by_id(*, tenant: str, ids: Sequence[UUID]) -> Sequence[Escalation]:
    """Those of the ids that are no longer open, with their decision: the page greys them in place."""
    if not ids:
        return []
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
    rows = Escalation.objects.of(tenant).filter(condition(asked, clock.now()))
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
    return None if found is None else _with_decisions([found])[0]


def _whole(*, tenant: str, escalation_id: UUID) -> QuerySet[Escalation]:
    rows = Escalation.objects.of(tenant).filter(escalation_id=escalation_id)
    return rows.select_related(
        "flow__agent__active_manifest", "proposal__verdict__bundle", "intent", "claimed_by"
    )


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
    return _QUESTIONS.rows(escalation_id=escalation.pk)


def _questions(*, escalation_id: UUID) -> QuerySet[Question]:
    return Question.objects.filter(escalation=escalation_id).select_related("asked_by").order_by("number")


_QUESTIONS: Final = statements.Read(_questions)


def count_unanswered(*, tenant: str, agent_id: str) -> int:
    """How often an agent was asked, if it has never answered; 0 where it has, or was not asked."""
    asked, answered = _ASKED.first(tenant=tenant, agent_id=agent_id) or (0, 0)
    return 0 if answered else int(asked)


def _asked(*, tenant: str, agent_id: str) -> QuerySet[Question, tuple[int, int]]:
    return statements.as_one(
        Question.objects.filter(escalation__tenant=tenant, escalation__agent_id=agent_id),
        asked=Count("pk", filter=Q(closed_at__isnull=False)),
        answered=Count("pk", filter=IS_ANSWERED),
    )


_ASKED: Final = statements.Read(_asked)


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
    if not hashes:
        return {}
    rows = _EVIDENCE.rows(
        keys=sorted(row.pk for row in escalations),
        revisions=sorted({number for number, _ in hashes.values()}),
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


def _evidence(*, keys: list[UUID], revisions: list[int]) -> QuerySet[Evidence]:
    return Evidence.objects.filter(escalation__pk__in=keys, revision__in=revisions)


_EVIDENCE: Final = statements.Read(_evidence)


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
    found: dict[str, Any] = {}
    for path, value in _FACTS.rows(tenant=tenant, paths=list(paths)):
        with contextlib.suppress(*UNREADABLE):
            found[path] = canonical.decode(bytes(value))
    return found


def _facts(*, tenant: str, paths: list[str]) -> QuerySet[Fact, tuple[str, Any]]:
    return Fact.objects.of(tenant).filter(path__in=paths).values_list("path", "value")


_FACTS: Final = statements.Read(_facts)


def _behind(order: Sequence[str], place: Cursor) -> Q:
    """What comes after a place in an order whose last column is unique."""
    found, same = Q(), dict[str, Any]()
    for name, value in zip(order, place, strict=True):
        column = name.removeprefix("-")
        found |= Q(**same, **{f"{column}__{'lt' if name.startswith('-') else 'gt'}": value})
        same[column] = value
    return found


def _open(*, tenant: str, wanted: QueueFilter) -> QuerySet[Escalation]:
    rows = Escalation.objects.of(tenant).filter(state=contracts.State.OPEN)
    now = ANY_TIME if wanted.asks_known else clock.now()
    rows = rows.filter(condition(wanted, now)).select_related("claimed_by")
    return rows.select_related("flow__agent__active_manifest", "intent") if wanted.is_personal else rows


def _claimed(now: datetime) -> Q:
    return Q(claimed_by__isnull=False, claimed_until__gt=now)


def condition(wanted: QueueFilter, now: datetime) -> Q:
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
