"""Why retention keeps the words of a flow whose time is over. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

MOST_DAYS: Final = 36_500


class KeptBecause(StrEnum):
    """In the order in which they are asked: a flow is counted under the first that applies."""

    HOLD = "HOLD"
    INCIDENT = "INCIDENT"
    DESTRUCTIVE = "DESTRUCTIVE"
    DENIED = "DENIED"
    ESCALATED = "ESCALATED"
    FAILED_SCORECARD = "FAILED_SCORECARD"
    NOT_SCORED = "NOT_SCORED"
    UNSETTLED = "UNSETTLED"


WORDS: Final[Mapping[KeptBecause, str]] = MappingProxyType(
    {
        KeptBecause.HOLD: "A legal hold keeps it.",
        KeptBecause.INCIDENT: "An incident links it, be it open or closed.",
        KeptBecause.DESTRUCTIVE: "An action that cannot be undone was run.",
        KeptBecause.DENIED: "A proposal of it was rejected.",
        KeptBecause.ESCALATED: "It was escalated to a person.",
        KeptBecause.FAILED_SCORECARD: "A decision record of it failed its scorecard.",
        KeptBecause.NOT_SCORED: "Its last decision record has no scorecard yet.",
        KeptBecause.UNSETTLED: "A call of it is in doubt, or somebody still has to look at it.",
    }
)
