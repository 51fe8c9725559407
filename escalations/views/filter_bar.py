"""The views and the filter bar above the queue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse

from escalations import contracts, queries, queue_counts, queue_filter
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Escalation
from escalations.queue_filter import AGES, NOBODY, QueueFilter, Sort
from escalations.views import queue_walk
from runtime.contracts import states
from runtime.core.views import labels
from runtime.kernel import effects

SORTS: Mapping[Sort, str] = {
    Sort.DEADLINE: "Deadline",
    Sort.IMPACT: "Impact",
    Sort.AGE: "Oldest first",
}
AGE_WORDS: Mapping[int, str] = {5: "Over 5 min", 15: "Over 15 min", 60: "Over 1 h"}
FAMILIES: Mapping[contracts.Family, str] = {
    contracts.Family.DECISION: "Decisions",
    contracts.Family.OPERATIONAL: "Operational",
    contracts.Family.AGENT: "Silent agents",
    contracts.Family.INTERRUPT: "Interrupted workflows",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One value of a select."""

    value: str
    word: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Select:
    """One field of the filter bar; its first option asks nothing unless `any_word` is empty."""

    name: str
    label: str
    options: tuple[Option, ...]
    any_word: str = "Any"


@dataclass(frozen=True, slots=True)
class Tab:
    """One view above the queue; `pk` is that of a saved one, which its owner can delete."""

    word: str
    url: str
    n: int | None
    current: bool
    pk: int | None = None


def selects(
    *,
    tenant: str,
    wanted: QueueFilter,
    known: Mapping[UUID, AnyEvidence],
    every: Sequence[Escalation] | None = None,
) -> Sequence[Select]:
    """The selects of the filter bar: what the open queue holds, with counts, and what is chosen.

    `known` is the evidence of the rows below it, and `every` are these rows where nothing else is open.
    """
    held = queue_counts.list_occurring(tenant=tenant, known=known, every=every)
    return [
        _counted("agent", "Agent", _as_words(held.agents), wanted.agent),
        _counted("kind", "Kind", _as_words(held.kinds), wanted.kind),
        _counted("reason", "Reason", _as_words(held.reasons), wanted.reason),
        _counted("rule", "Rule or check", _as_words(held.rules), wanted.rule),
        _counted("holder", "Claimed by", [(NOBODY, "Nobody", held.unclaimed), *held.holders], wanted.holder),
        _fixed("impact", "Impact", _impacts(), wanted.impact),
        _fixed(
            "family", "Family", [(family.value, word) for family, word in FAMILIES.items()], wanted.family
        ),
        _fixed("age", "Waiting", [(str(age), AGE_WORDS[age]) for age in AGES], str(wanted.age or "")),
        _fixed(
            "sort",
            "Sort by",
            [("" if sort is Sort.DEADLINE else sort.value, word) for sort, word in SORTS.items()],
            "" if wanted.sort is Sort.DEADLINE else wanted.sort.value,
            any_word="",
        ),
    ]


def tabs(request: HttpRequest, wanted: QueueFilter, *, tenant: str, left: int) -> Sequence[Tab]:
    """The built-in views, then the person's own, with how many each finds."""
    user_pk = request.user.pk or 0
    shown_closed = request.GET.get("show") == "closed"
    own = queries.list_saved_views(user_pk=user_pk)
    named: list[tuple[str, QueueFilter, int | None]] = [
        ("All open", QueueFilter(), None),
        ("Critical", QueueFilter(impact=states.Impact.CRITICAL), None),
        ("High impact", QueueFilter(impact=states.Impact.HIGH_IMPACT), None),
        ("Low impact", QueueFilter(impact=states.Impact.LOW_IMPACT), None),
        ("Operational", QueueFilter(family=contracts.Family.OPERATIONAL), None),
        ("Silent agents", QueueFilter(family=contracts.Family.AGENT), None),
        ("Interrupted workflows", QueueFilter(family=contracts.Family.INTERRUPT), None),
        ("Decidable now", QueueFilter(decidable=True), None),
        ("Mine", QueueFilter(mine=user_pk), None),
        *(
            (effects.visible(row.name), queue_filter.read_from(row.query, user_pk=user_pk), row.pk)
            for row in own
        ),
    ]
    numbers = queue_counts.count_matching(tenant=tenant, wanted=[asked for _, asked, _ in named])
    views = [
        Tab(
            word=word,
            url=_address(asked),
            # What a person may decide is known only from the evidence of every row.
            n=None if asked.is_personal else n,
            current=wanted == asked and not shown_closed,
            pk=pk,
        )
        for (word, asked, pk), n in zip(named, numbers, strict=True)
    ]
    first_own = len(views) - len(own)
    # Not escalations: no decision is pending, but their effect still has to be checked.
    views.insert(first_own, Tab(word="Calls in doubt", url=reverse("calls-in-doubt"), n=left, current=False))
    views.insert(first_own + 1, Tab(word="Closed", url="?show=closed", n=None, current=shown_closed))
    return views


def _address(wanted: QueueFilter) -> str:
    return queue_walk.queue_url(queue_filter.to_query(wanted))


def _impacts() -> list[tuple[str, str]]:
    return [(value, labels.badge(labels.IMPACTS, value).word) for value in states.Impact.values()]


def _as_words(found: Sequence[tuple[str, int]]) -> list[tuple[str, str, int]]:
    return [(value, value, number) for value, number in found]


def _counted(name: str, label: str, found: Sequence[tuple[str, str, int]], chosen: str) -> Select:
    options = [
        Option(
            value=value,
            word=f"{effects.visible(word)} ({n})",
            chosen=value == chosen,
        )
        for value, word, n in found
    ]
    if chosen and not any(option.chosen for option in options):
        options.append(Option(value=chosen, word=f"{effects.visible(chosen)} (0)", chosen=True))
    return Select(name=name, label=label, options=tuple(options))


def _fixed(
    name: str, label: str, found: Sequence[tuple[str, str]], chosen: str, *, any_word: str = "Any"
) -> Select:
    options = tuple(Option(value=value, word=word, chosen=value == chosen) for value, word in found)
    return Select(name=name, label=label, options=options, any_word=any_word)
