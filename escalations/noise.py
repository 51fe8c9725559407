"""Which rules and agents ask people for nothing: pure sums over escalations that have ended."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median_low

from escalations.contracts import Action, State
from runtime.contracts.states import Choice, OutcomeStatus
from runtime.kernel import spread

LEAST_ASKED = 10
# In percent of those that ended.
NEARLY_ALL, MOST, HALF = 95, 80, 50
_LET_THROUGH = frozenset({Action.OVERRIDE.value})
ENDED_BADLY = frozenset({OutcomeStatus.FAILED.value, OutcomeStatus.COMPENSATED.value})


class Advice(Choice):
    """What the sums suggest; a person drafts the change, and another one activates it."""

    RETIRE = "RETIRE"
    REJECT = "REJECT"
    STAFF = "STAFF"
    WATCH = "WATCH"


@dataclass(frozen=True, kw_only=True)
class EndedCase:
    """One finding of an escalation that has ended. `ended` is its resolution, `outcome` what ran, or "".

    `took_s` is from its opening to its end, in seconds; `value` and `limit` are in the finding's own unit.
    """

    kind: str
    check: str
    rule: str
    code: str
    agent_id: str
    ended: str
    outcome: str
    took_s: int
    value: str
    limit: str


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How escalations of one rule, or one agent, ended. `values` are the median and the 95th percentile."""

    first: EndedCase
    asked: int
    let_through: int
    changed: int
    aborted: int
    expired: int
    executed: int
    ended_badly: int
    median_s: int
    agents: int
    values: tuple[int, int] | None
    advice: Advice | None

    @property
    def let_through_percent(self) -> int:
        """How many of a hundred were let through as they were proposed."""
        return self.let_through * 100 // self.asked


def by_rule(cases: Iterable[EndedCase]) -> list[Noise]:
    """Return the noise of each rule of each policy kind, the one that asks most first."""
    return _sums(cases, lambda case: (case.kind, case.check, case.rule, case.code), _advice_on_rule)


def by_agent(cases: Iterable[EndedCase]) -> list[Noise]:
    """Return the noise of each agent, the one that asks most first."""
    return _sums(cases, lambda case: case.agent_id, lambda noise: None)


def _sums(
    cases: Iterable[EndedCase],
    key: Callable[[EndedCase], Hashable],
    advise: Callable[[Counter[str]], Advice | None],
) -> list[Noise]:
    groups: dict[Hashable, list[EndedCase]] = defaultdict(list)
    for case in cases:
        groups[key(case)].append(case)
    found = [_sum(group, advise) for group in groups.values()]
    return sorted(found, key=lambda noise: (-noise.asked, noise.first.kind, noise.first.rule))


def _sum(group: Sequence[EndedCase], advise: Callable[[Counter[str]], Advice | None]) -> Noise:
    ended = Counter(case.ended for case in group)
    let_through = [case for case in group if case.ended in _LET_THROUGH]
    counted = Counter(
        asked=len(group),
        let_through=len(let_through),
        changed=ended[Action.MODIFY],
        aborted=ended[Action.ABORT],
        expired=ended[State.EXPIRED],
        executed=sum(case.outcome == OutcomeStatus.SUCCEEDED for case in let_through),
        ended_badly=sum(case.outcome in ENDED_BADLY for case in let_through),
    )
    stated = (Decimal(case.value) for case in group if case.value.isascii() and case.value.isdigit())
    values = spread.of_values(stated)
    return Noise(
        first=group[0],
        asked=counted["asked"],
        let_through=counted["let_through"],
        changed=counted["changed"],
        aborted=counted["aborted"],
        expired=counted["expired"],
        executed=counted["executed"],
        ended_badly=counted["ended_badly"],
        median_s=median_low(case.took_s for case in group),
        agents=len({case.agent_id for case in group}),
        values=None if values is None else (int(values.p50), int(values.p95)),
        advice=advise(counted),
    )


def _advice_on_rule(counted: Counter[str]) -> Advice | None:
    asked = counted["asked"]
    if asked < LEAST_ASKED:
        return None
    if counted["let_through"] * 100 >= NEARLY_ALL * asked:
        return Advice.WATCH if counted["ended_badly"] else Advice.RETIRE
    if counted["aborted"] * 100 >= MOST * asked:
        return Advice.REJECT
    return Advice.STAFF if counted["expired"] * 100 >= HALF * asked else None
