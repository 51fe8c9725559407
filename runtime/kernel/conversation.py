"""The rules of a conversation: which protocol version its agents share, and when it has gone on too long."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import semver

# Envelopes of this major version are carried, whatever a minor version adds to them.
MAJOR = 1
FIRST = semver.Version(MAJOR)
SUPPORTED = f">={FIRST} <{MAJOR + 1}.0.0"
# Two agents that answer each other without end come to this, and no further.
MOST_MESSAGES = 200
MOST_AT_ONCE = 60
WINDOW_S = 60


@dataclass(frozen=True, slots=True)
class Span:
    """Protocol versions from `low` to `high`, both included; `high` is the highest that all understand."""

    low: semver.Version
    high: semver.Version

    def __str__(self) -> str:
        return f">={self.low} <={self.high}"


def parsed(text: str) -> semver.Version:
    """A version of which the minor and patch numbers may be missing. Raises ValueError for no version."""
    return semver.Version.parse(text, optional_minor_and_patch=True)


def is_ordered(low: str, high: str) -> bool:
    """Whether a range has anything in it."""
    return parsed(low) <= parsed(high)


def agree(known: Span | None, low: str, high: str) -> Span | None:
    """What the range leaves of what was common so far (None: nobody has said anything); None for nothing.

    A range that goes on past the major version which is carried counts up to the first of that version, or
    up to where it begins: which minor versions there are is known only to agents that name one.
    """
    begins, ends = parsed(low), parsed(high)
    if begins.major > MAJOR or ends.major < MAJOR:
        return None
    begins = max(begins, FIRST)
    if ends.major > MAJOR:
        ends = begins if known is None else max(known.high, begins)
    if known is not None:
        begins, ends = max(begins, known.low), min(ends, known.high)
    return Span(begins, ends) if begins <= ends else None


def deprecated_on(version: str, announced: Iterable[Mapping[str, str]]) -> str | None:
    """The earliest day that was announced for the end of a version, as YYYY-MM-DD; None where none was."""
    wanted = parsed(version)
    days = [day for dates in announced for named, day in dates.items() if parsed(named) == wanted]
    return min(days, default=None)


class Bound(StrEnum):
    """What keeps the next message out of a conversation."""

    TOO_MANY_MESSAGES = "TOO_MANY_MESSAGES"
    TOO_FAST = "TOO_FAST"


def bound_of(*, sent: int, lately: int) -> Bound | None:
    """Whether one more message would be one too many: of all, or of those of the last WINDOW_S seconds."""
    if sent >= MOST_MESSAGES:
        return Bound.TOO_MANY_MESSAGES
    if lately >= MOST_AT_ONCE:
        return Bound.TOO_FAST
    return None
