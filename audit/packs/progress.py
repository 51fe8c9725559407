"""How far the making of a pack is: its stages, and how much of the current one is done."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final


class Stage(StrEnum):
    """The stages in their order."""

    SEALING = "SEALING"
    ENTRIES = "ENTRIES"
    PROOFS = "PROOFS"
    ROWS = "ROWS"
    RECORDS = "RECORDS"
    REPORT = "REPORT"
    FILES = "FILES"


# Told at the beginning of a stage, and in a long one now and then: the stage, how many are done, of how many.
Watch = Callable[[Stage, int, int], None]
EVERY: Final = 100
_STAGES: Final = list(Stage)


def unwatched(stage: Stage, done: int, total: int) -> None:
    """For whoever does not ask."""


def per_cent(stage: Stage, done: int, total: int) -> int:
    """The share of all that is done, in whole per cent: every stage counts alike."""
    within = done / total if total else 0
    return int(100 * (_STAGES.index(stage) + within) / len(_STAGES))
