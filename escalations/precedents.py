"""What people decided so often in the same way that it could be a rule (ContextOS, "StrategyRule"). Pure.

A precedent proposes a change and decides nothing: a person makes it a draft, which is tried on past proposals
and activated by somebody else, like any other. The gate knows nothing of precedents.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from audit import canonical
from escalations.contracts import Action
from escalations.noise import ENDED_BADLY

LIMITS: Final = "limits"
RULES: Final = "rules"
LEAST_CASES: Final = 10
LEAST_PEOPLE: Final = 2
_OBJECTIONS: Final = frozenset({"WRONG", "UNSAFE"})


class Change(StrEnum):
    """What a precedent proposes: a higher limit for one agent, or to refuse without asking people."""

    RAISE_LIMIT = "RAISE_LIMIT"
    REJECT_AT_ONCE = "REJECT_AT_ONCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One finding on which people decided. `record_id` is the flow's last decision record.

    `action` is the decision in effect, `approvers` who made it (`user:7`), `outcome` what ran, or "".
    `value` and `limit` are whole numbers in `unit`, None where the finding has others.
    `assessments` is what people said of the record afterwards.
    """

    record_id: str
    dfid: str
    kind: str
    check: str
    rule: str
    code: str
    agent_id: str
    action: str
    approvers: tuple[str, ...]
    outcome: str = ""
    value: int | None = None
    limit: int | None = None
    unit: str = ""
    assessments: tuple[str, ...] = ()

    @property
    def was_let_through(self) -> bool:
        """Whether people allowed it as it was proposed, it went well, and nobody objects now."""
        is_objected = not _OBJECTIONS.isdisjoint(self.assessments)
        return self.action == Action.OVERRIDE and self.outcome not in ENDED_BADLY and not is_objected


@dataclass(frozen=True, slots=True, kw_only=True)
class Precedent:
    """Cases that were decided alike, and what would decide the next one without asking.

    `agent_id` is empty where the change concerns all agents. `up_to` is the limit that would have let all of
    `cases` through; None for another change. `others` counts the cases that `up_to` leaves to people.
    """

    change: Change
    kind: str
    check: str
    rule: str
    code: str
    agent_id: str
    up_to: int | None
    cases: tuple[Case, ...]
    others: int

    @property
    def people(self) -> int:
        """How many people decided so."""
        return len({name for case in self.cases for name in case.approvers})

    @property
    def record_ids(self) -> tuple[str, ...]:
        """The records that it rests on, the oldest first."""
        return tuple(dict.fromkeys(case.record_id for case in self.cases))

    @property
    def digest(self) -> str:
        """What a person is shown and agrees to draft: the change, and the records that it rests on."""
        shown = {
            "change": self.change.value,
            "kind": self.kind,
            "check": self.check,
            "rule": self.rule,
            "agent_id": self.agent_id,
            "up_to": self.up_to,
            "record_ids": list(self.record_ids),
        }
        return canonical.digest(canonical.encode(shown))


def find(cases: Iterable[Case]) -> list[Precedent]:
    """Every precedent in these cases, which are in the order in which they were decided; most cases first."""
    by_rule: dict[tuple[str, str, str, str], list[Case]] = defaultdict(list)
    by_agent: dict[tuple[str, str, str, str, str], list[Case]] = defaultdict(list)
    for case in cases:
        if case.rule and case.check in (LIMITS, RULES):
            by_rule[case.kind, case.check, case.rule, case.code].append(case)
        if case.rule and case.check == LIMITS:
            by_agent[case.kind, case.check, case.rule, case.code, case.agent_id].append(case)
    found = [
        *(_raise_limit(group) for group in by_agent.values()),
        *(_reject(group) for group in by_rule.values()),
    ]
    whole = [each for each in found if each is not None and each.people >= LEAST_PEOPLE]
    return sorted(whole, key=lambda each: (-len(each.cases), each.kind, each.rule, each.agent_id))


def _raise_limit(group: Sequence[Case]) -> Precedent | None:
    """Up to the largest value that was always let through: from the first that was not, people decide."""
    if any(case.value is None for case in group):
        return None
    refused = [case.value for case in group if case.value is not None and not case.was_let_through]
    ceiling = min(refused, default=None)
    below = [case for case in group if case.value is not None and (ceiling is None or case.value < ceiling)]
    if len(below) < LEAST_CASES:
        return None
    return _of(
        below,
        Change.RAISE_LIMIT,
        agent_id=group[0].agent_id,
        up_to=max(case.value for case in below if case.value is not None),
        others=len(group) - len(below),
    )


def _reject(group: Sequence[Case]) -> Precedent | None:
    """Where people aborted every case, whoever proposed it."""
    if len(group) < LEAST_CASES or any(case.action != Action.ABORT for case in group):
        return None
    return _of(group, Change.REJECT_AT_ONCE)


def _of(
    cases: Sequence[Case], change: Change, *, agent_id: str = "", up_to: int | None = None, others: int = 0
) -> Precedent:
    first = cases[0]
    return Precedent(
        change=change,
        kind=first.kind,
        check=first.check,
        rule=first.rule,
        code=first.code,
        agent_id=agent_id,
        up_to=up_to,
        cases=tuple(cases),
        others=others,
    )
