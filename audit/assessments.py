"""What people may say of a decision record: the closed lists, and the rules of feedback. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LONGEST: Final = 1000


class Assessment(StrEnum):
    """What somebody thinks of a decision afterwards. Values are stored: they are permanent."""

    RIGHT = "RIGHT"
    WRONG = "WRONG"
    UNSAFE = "UNSAFE"
    UNNECESSARY_ESCALATION = "UNNECESSARY_ESCALATION"
    MISSING_ESCALATION = "MISSING_ESCALATION"

    @property
    def is_negative(self) -> bool:
        """Whether it speaks against what was decided, so that nothing is to be learned from the decision."""
        return self in (Assessment.WRONG, Assessment.UNSAFE)


class Correction(StrEnum):
    """What should have come of it instead."""

    ALLOW = "ALLOW"
    ALLOW_CHANGED = "ALLOW_CHANGED"
    REFUSE = "REFUSE"
    ASK_A_PERSON = "ASK_A_PERSON"


@dataclass(frozen=True, slots=True)
class Assessed:
    """One piece of feedback that keeps the rules; the correction and the reason may be empty."""

    assessment: Assessment
    correction: str = ""
    reason: str = ""


def read(*, assessment: str, correction: str, reason: str) -> Assessed | str:
    """What a form says, with line ends as one character; or what is wrong with it, in a sentence."""
    text = reason.replace("\r\n", "\n").replace("\r", "\n").strip()
    if assessment not in set(Assessment):
        return "Choose what you think of the decision."
    if correction and correction not in set(Correction):
        return "Choose what should have come of it from the list, or leave it open."
    if len(text) > LONGEST or "\x00" in text:
        return f"A reason has at most {LONGEST:,} characters; this one has {len(text):,}."
    given = Assessed(Assessment(assessment), correction, text)
    if given.assessment is Assessment.RIGHT:
        return "What is right needs no other outcome." if correction else given
    return given if text else "Write why. Only for Right you may leave it out."
