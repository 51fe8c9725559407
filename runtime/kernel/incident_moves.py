"""The states of an incident as one table of allowed moves."""

from runtime.contracts.incident import IncidentState

S = IncidentState

# An effect that comes back opens it again, until it is closed; after that there is another incident.
MOVES: dict[IncidentState, tuple[IncidentState, ...]] = {
    S.OPEN: (S.MITIGATED, S.RESOLVED),
    S.MITIGATED: (S.OPEN, S.RESOLVED),
    S.RESOLVED: (S.OPEN, S.CLOSED),
    S.CLOSED: (),
}


def allows(before: IncidentState, after: IncidentState) -> bool:
    """Whether an incident may move from `before` to `after`."""
    return after in MOVES[before]
