"""What becomes of a target's circuit, and looks that people take at a target."""

from audit.events.base import At, Event, Kind, Text


class CircuitOpened(Event):
    """So many failures in a row: nobody calls the target before `retry_at`."""

    kind = Kind.CIRCUIT_OPENED
    target: str
    failures: int
    retry_at: At


class CircuitClosed(Event):
    """Calls go through again; `reason` is PROBE_SUCCEEDED, or what a person wrote."""

    kind = Kind.CIRCUIT_CLOSED
    target: str
    reason: Text


class TargetChecked(Event):
    """A person looked whether the target can be called; nothing was sent to it."""

    kind = Kind.TARGET_CHECKED
    target: str
    is_good: bool
