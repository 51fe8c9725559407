"""How long versions of facts are kept, and why the words of a flow are kept when their time is over. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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

EVERY_FACT: Final = "*"
_SELECTOR: Final = re.compile(r"\*|[a-z0-9_]+\.[A-Za-z0-9_:-]*")


@dataclass(frozen=True, slots=True)
class FactClass:
    """For how many days a version of these facts is kept after the next one was written; 0 is permanently.

    `selector` is a fact (`price.AAPL`), all in a namespace (`price.`), or every fact (`*`).
    """

    selector: str
    days: int


def read_fact_classes(words: Iterable[str]) -> tuple[FactClass, ...]:
    """The classes that words such as `price.=30` and `*=365` name, the narrowest first.

    Raises ValueError, with what is wrong with which word.
    """
    found: dict[str, FactClass] = {}
    for word in words:
        selector, _, days = word.partition("=")
        if _SELECTOR.fullmatch(selector) is None:
            raise ValueError(f"{word!r} names no facts: begin with price.AAPL=, with price.= or with *=")
        if not days.isascii() or not days.isdigit() or int(days) > MOST_DAYS:
            raise ValueError(f"{word!r} has no number of days from 0 to {MOST_DAYS} after its =")
        if selector in found:
            raise ValueError(f"{selector} is named twice")
        found[selector] = FactClass(selector, int(days))
    return tuple(sorted(found.values(), key=lambda of: (of.selector == EVERY_FACT, -len(of.selector))))
