"""What the queue shows, as its address says it; the decision page carries it along as `from=`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import urlencode

from django.core.exceptions import TooManyFieldsSent
from django.http import QueryDict

from escalations import contracts, policy
from escalations.policy import EscalationContext, Person
from runtime.contracts import states
from runtime.core.views import query_params

LONGEST_QUERY = 2000
NOBODY = "nobody"
# Minutes since it was opened, as the filter offers them.
AGES = (5, 15, 60)


class Sort(StrEnum):
    """The order of the queue; the values are those of its address."""

    DEADLINE = "deadline"
    IMPACT = "impact"
    AGE = "age"


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """What the queue shows; empty fields ask nothing. `text` looks in effect, agent, reason and kind.

    `mine` is the key of the user whose claims are wanted; `holder` is a user's key as text, or NOBODY. `age`
    is in minutes. `decidable` and `authority` are about the person who looks: queries alone ignore them.
    """

    impact: str = ""
    family: str = ""
    agent: str = ""
    kind: str = ""
    reason: str = ""
    text: str = ""
    mine: int | None = None
    rule: str = ""
    holder: str = ""
    age: int = 0
    decidable: bool = False
    authority: bool = False
    sort: Sort = Sort.DEADLINE

    @property
    def is_personal(self) -> bool:
        """Whether it asks what the person who looks may decide."""
        return self.decidable or self.authority

    @property
    def asks_known(self) -> bool:
        """Whether queries alone can answer it, of impact and family only: each has a few known values."""
        return replace(self, impact="", family="").asks_all

    @property
    def asks_all(self) -> bool:
        """Whether it shows all that is open, in whatever order."""
        return replace(self, sort=Sort.DEADLINE) == QueueFilter()


def read(query: Mapping[str, str], *, user_pk: int | None) -> QueueFilter:
    """Read the parameters of an address; what is none of the known values is ignored."""

    def known(name: str, values: list[str]) -> str:
        value = query.get(name, "")
        return value if value in values else ""

    holder = query.get("holder", "")
    return QueueFilter(
        impact=known("impact", states.Impact.values()),
        family=known("family", contracts.Family.values()),
        agent=query_params.text(query.get("agent", "")),
        kind=query_params.text(query.get("kind", "")),
        reason=query_params.text(query.get("reason", "")),
        text=query_params.text(query.get("q", "")),
        mine=user_pk if query.get("mine") == "1" else None,
        rule=query_params.text(query.get("rule", ""), longest=200),
        holder=holder if holder == NOBODY or query_params.is_whole(holder) else "",
        age=int(known("age", [str(minutes) for minutes in AGES]) or 0),
        decidable=query.get("decidable") == "1",
        authority=query.get("authority") == "1",
        sort=Sort(known("sort", list(Sort)) or Sort.DEADLINE),
    )


def read_from(text: str, *, user_pk: int | None) -> QueueFilter:
    """Read the filter that a decision page carries in `from=`: the query string of the queue's address.

    What no queue's address looks like asks nothing.
    """
    try:
        query = QueryDict(text[:LONGEST_QUERY])
    except TooManyFieldsSent:
        return QueueFilter()
    if any("\0" in value for value in query.values() if isinstance(value, str)):
        return QueueFilter()  # encoded twice; PostgreSQL refuses it in a search
    return read(query, user_pk=user_pk)


def to_query(wanted: QueueFilter) -> str:
    """Write the filter as a query string, "" where it asks nothing; `read_from` reads it back."""
    named = {
        "impact": wanted.impact,
        "family": wanted.family,
        "agent": wanted.agent,
        "kind": wanted.kind,
        "reason": wanted.reason,
        "q": wanted.text,
        "mine": "" if wanted.mine is None else "1",
        "rule": wanted.rule,
        "holder": wanted.holder,
        "age": str(wanted.age or ""),
        "decidable": "1" if wanted.decidable else "",
        "authority": "1" if wanted.authority else "",
        "sort": "" if wanted.sort is Sort.DEADLINE else wanted.sort.value,
    }
    return urlencode({name: value for name, value in named.items() if value})


# The action of each family that settles it as it is.
SETTLING: Mapping[contracts.Family, contracts.Action] = {
    contracts.Family.DECISION: contracts.Action.OVERRIDE,
    contracts.Family.OPERATIONAL: contracts.Action.RESUME,
    contracts.Family.AGENT: contracts.Action.ACKNOWLEDGE,
    contracts.Family.INTERRUPT: contracts.Action.RESUME,
}


def is_decidable(person: Person, situation: EscalationContext, *, now_ms: int) -> bool:
    """Whether `person` could settle it now, given the password: no question is open, nothing forbids it.

    A case that only other parameters would get past the gate is not decidable as it is.
    """
    waiting = situation.waiting_until_ms
    return not (waiting is not None and now_ms <= waiting) and _may_settle(person, situation, now_ms)


def is_within_authority(person: Person, situation: EscalationContext, *, now_ms: int) -> bool:
    """Whether nothing about `person` speaks against settling it, whatever holds up the case itself."""
    unhindered = replace(situation, failing=(), is_contradicted=False, steps_done=False, deadline_at_ms=None)
    return _may_settle(person, unhindered, now_ms)


def _may_settle(person: Person, situation: EscalationContext, now_ms: int) -> bool:
    confirmed = replace(person, confirmed_at_ms=now_ms)
    answer = policy.may(SETTLING[situation.family], confirmed, situation, now_ms=now_ms)
    return isinstance(answer, policy.Allowed)
