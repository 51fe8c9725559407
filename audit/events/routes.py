"""What followed from a result beyond its outcome: routes, advice, and facts that were not written."""

from audit.events.base import Event, Id, Kind, Text


class RouteTaken(Event):
    """Routes count from 1, in the order of the kind; `to_step` is what runs instead."""

    kind = Kind.ROUTE_TAKEN
    intent_id: Id
    step: str
    route: int
    action: Text
    to_step: str | None = None


class RouteFailed(Event):
    """A route that could not be asked, and so was not taken."""

    kind = Kind.ROUTE_FAILED
    intent_id: Id
    step: str
    route: int
    why: str


class AgentAdvised(Event):
    """`advice` is the policy kind's own text."""

    kind = Kind.AGENT_ADVISED
    agent_id: str
    dfid: Id
    intent_id: Id
    step: str
    advice: str


class FactNotWritten(Event):
    """A fact that a step should have taken from its receipt; `value` is the expression that gave none."""

    kind = Kind.FACT_NOT_WRITTEN
    intent_id: Id
    path: str
    value: str
    why: str
