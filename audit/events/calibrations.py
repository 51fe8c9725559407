"""Maps from stated to observed confidence: drafted, activated, discarded and retired."""

from audit.events.base import Event, Kind, Text


class CalibrationDrafted(Event):
    """`version` is the number of the map among those of the agent, and `pairs` what it was made from."""

    kind = Kind.CALIBRATION_DRAFTED
    agent_id: str
    version: str
    policy_kind: str
    impact: Text
    digest: str
    pairs: int


class CalibrationActivated(Event):
    """`solo`: by its own author, the only admin; `replaces`: the map that was active before, or empty."""

    kind = Kind.CALIBRATION_ACTIVATED
    agent_id: str
    version: str
    policy_kind: str
    impact: Text
    digest: str
    reason: Text = ""
    solo: bool = False
    replaces: str = ""


class CalibrationDiscarded(Event):
    """A draft that never becomes active."""

    kind = Kind.CALIBRATION_DISCARDED
    agent_id: str
    version: str
    policy_kind: str
    impact: Text
    digest: str
    reason: Text


class CalibrationRetired(Event):
    """A map that was active and no longer is: its policy kind or the model profile is another one now."""

    kind = Kind.CALIBRATION_RETIRED
    agent_id: str
    version: str
    policy_kind: str
    impact: Text
    digest: str
    because: Text
