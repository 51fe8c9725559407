"""How many open escalations a filter of the queue finds, and what a filter can choose from."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, QuerySet

from audit import statements
from escalations import contracts, queries
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Escalation
from escalations.queue_filter import QueueFilter
from runtime.core import clock

MOST_CHOICES = 100


def count_matching(*, tenant: str, wanted: Sequence[QueueFilter]) -> list[int]:
    """How many open escalations each filter finds, in one query; what asks about a person is not asked."""
    if not wanted:
        return []
    now = clock.now()
    people = {item.mine for item in wanted if item.mine is not None}
    if len(people) > 1 or not all(_is_known(item) for item in wanted):
        found = (
            Escalation.objects.of(tenant).filter(state=contracts.State.OPEN).aggregate(**_counts(wanted, now))
        )
        return list(found.values())
    asked = tuple((item.impact, item.family, item.mine is not None) for item in wanted)
    values: dict[str, Any] = {"user_pk": people.pop(), "now": now} if people else {}
    return list(_KNOWN.first(asked, tenant=tenant, **values) or [0] * len(wanted))


def _counts(wanted: Iterable[QueueFilter], now: datetime) -> dict[str, Count]:
    return {
        f"filter_{number}": Count("escalation_id", filter=queries.condition(item, now))
        for number, item in enumerate(wanted)
    }


def _is_known(wanted: QueueFilter) -> bool:
    return replace(wanted, mine=None, decidable=False, authority=False).asks_known


def _known(
    asked: Sequence[tuple[str, str, bool]], *, tenant: str, user_pk: int = 0, now: datetime | None = None
) -> QuerySet[Escalation, Any]:
    """`asked` are the filters: impact, family, and whether they ask for the claims of the person."""
    wanted = (
        QueueFilter(impact=impact, family=family, mine=user_pk if is_own else None)
        for impact, family, is_own in asked
    )
    rows = Escalation.objects.of(tenant).filter(state=contracts.State.OPEN)
    return statements.as_one(rows, **_counts(wanted, now or queries.ANY_TIME))


_KNOWN: Final = statements.Read(_known)


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


def list_occurring(
    *, tenant: str, known: Mapping[UUID, AnyEvidence], every: Sequence[Escalation] | None = None
) -> Occurring:
    """What a filter can choose from, of the first `MAX_WALKED`: from the evidence, as the rows show it.

    `known` is evidence that the caller has read already, of the rows of its page, and `every` are all open
    escalations where the caller has read them.
    """
    rows = _oldest(tenant) if every is None else sorted(every, key=lambda row: row.opened_at)
    listed = list(rows[: queries.MAX_WALKED])
    others = queries.get_evidence(tenant=tenant, escalations=[row for row in listed if row.pk not in known])
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


def _oldest(tenant: str) -> QuerySet[Escalation]:
    rows = Escalation.objects.of(tenant).filter(state=contracts.State.OPEN).select_related("claimed_by")
    return rows.order_by("opened_at")


def _frequent(values: Iterable[str]) -> Sequence[tuple[str, int]]:
    return [(value, number) for value, number in Counter(values).most_common(MOST_CHOICES) if value]
