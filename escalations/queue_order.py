"""The order of the queue and its groups: the list and the way from item to item follow the same one. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from escalations.contracts import Family, State
from escalations.queue_filter import Sort

LEAST_ALIKE = 3
LEAST_IN_INCIDENT = 2
# Of escalations with a deadline. The last column is unique, so a page can be cut anywhere.
DECISIONS: Mapping[Sort, tuple[str, ...]] = {
    Sort.DEADLINE: ("deadline_at", "-impact_rank", "escalation_id"),
    Sort.IMPACT: ("-impact_rank", "deadline_at", "escalation_id"),
    Sort.AGE: ("opened_at", "escalation_id"),
}
# Of those without one, which come first.
OPERATIONAL: Mapping[Sort, tuple[str, ...]] = {
    Sort.DEADLINE: ("-impact_rank", "escalation_id"),
    Sort.IMPACT: ("-impact_rank", "escalation_id"),
    Sort.AGE: ("opened_at", "escalation_id"),
}


class Item(NamedTuple):
    """One item of the queue: its key, and the columns that groups are made by."""

    pk: UUID
    state: str
    family: str
    agent_id: str
    policy_kind: str
    reason: str
    impact: str
    incident: str


class Grouped(Protocol):
    """The columns that groups are made by."""

    @property
    def state(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def agent_id(self) -> str: ...
    @property
    def policy_kind(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def impact(self) -> str: ...
    @property
    def incident(self) -> str: ...


Row = TypeVar("Row", bound=Grouped)


@dataclass(frozen=True, slots=True)
class Group(Generic[Row]):
    """Rows shown together: of one incident, alike, or a single one; `key` is empty for a single one."""

    key: str
    is_incident: bool
    rows: Sequence[Row]


def gather(rows: Sequence[Row]) -> list[Group[Row]]:
    """Put rows of one group where its first row is; the order is otherwise kept. Closed rows are single."""
    shared = Counter(_incident(row) for row in rows if _incident(row))
    keys = [_incident(row) if shared[_incident(row)] >= LEAST_IN_INCIDENT else _likeness(row) for row in rows]
    sizes = Counter(keys)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for number, (row, key) in enumerate(zip(rows, keys, strict=True)):
        least = LEAST_IN_INCIDENT if key[:1] == ("incident",) else LEAST_ALIKE
        groups.setdefault(key if key and sizes[key] >= least else (str(number),), []).append(row)
    return [
        Group(key=" ".join(key) if len(key) > 1 else "", is_incident=key[0] == "incident", rows=members)
        for key, members in groups.items()
    ]


def _incident(row: Grouped) -> tuple[str, ...]:
    is_one = row.incident and row.state == State.OPEN
    return ("incident", row.family, row.incident) if is_one else ()


def _likeness(row: Grouped) -> tuple[str, ...]:
    # Silences differ only in their time.
    if row.state != State.OPEN or row.family == Family.AGENT:
        return ()
    return ("alike", row.family, row.agent_id, row.policy_kind, row.reason, row.impact)
