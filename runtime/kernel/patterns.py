"""What a regular expression costs to compile and to run, told from its text: there is no clock here.

Costs are nanoseconds on a machine that is slower than ours, so never too small; tests/kernel/test_patterns.py
measures that what is let through compiles within a millisecond. The library compiles a pattern anew at every
`matches`, and holds the interpreter's lock while it does.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

# Measured: what is let through takes less than a millisecond on an idle machine of 2024.
MAX_COMPILE = 800_000
_START = 60_000
_PIECE = 400
# By escape: nanoseconds to compile one, and how many states it has. Unicode classes are large.
_CLASSES: dict[str, tuple[int, int]] = {
    **dict.fromkeys("wW", (350_000, 60)),
    **dict.fromkeys("pP", (350_000, 60)),
    **dict.fromkeys("dD", (65_000, 16)),
    **dict.fromkeys("sS", (15_000, 8)),
    **dict.fromkeys("bB", (60_000, 2)),
}
_WIDE = (8_000, 8)
_PLAIN = (_PIECE, 1)
_MEMBER = (60, 1)
# A class of which the other case of every member is looked up: milliseconds, where it spans many characters.
_FOLDED = 2_500_000
_MOST_SPANNED = 1_000
_SPANNING = frozenset("SWDPpxuU")
_FLAGS = re.compile(r"\?(?:P?<[A-Za-z_][A-Za-z0-9_]*>|([imsU]*)(?:-[imsU]+)?[:)])")
_COUNT = re.compile(r"\{(\d{1,6})(,(\d{0,6}))?\}")
_MAX_DEPTH = 60


@dataclass(frozen=True, slots=True)
class Cost:
    """Nanoseconds to compile a pattern, and the states that each character may meet."""

    compiling: int
    states: int

    def matching(self, chars: int) -> int:
        """Nanoseconds to look through a text of so many characters, at worst."""
        return self.states * chars * 4


class _TooOddError(Exception):
    """A construct that this reader does not follow."""


@lru_cache(maxsize=1024)
def cost(pattern: str) -> Cost | None:
    """What `pattern` costs; None for one that cannot be followed."""
    reader = _PatternReader(pattern)
    try:
        compiling, states = reader.branches()
        if reader.ignores_case:
            reader = _PatternReader(pattern, ignores_case=True)
            compiling, states = reader.branches()
    except (_TooOddError, IndexError):
        return None
    if reader.at != len(pattern):
        return None
    return Cost(compiling=_START + compiling * (4 if reader.ignores_case else 1), states=states)


class _PatternReader:
    """Sums up what each piece costs, times how often it is repeated."""

    def __init__(self, pattern: str, *, ignores_case: bool = False) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.ignores_case = ignores_case

    @property
    def next(self) -> str:
        return self.pattern[self.at] if self.at < len(self.pattern) else ""

    def branches(self) -> tuple[int, int]:
        """Up to the end, or to the bracket that closes the group."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _TooOddError
        compiling = states = 0
        while self.next not in ("", ")"):
            if self.next == "|":
                self.at += 1
                compiling, states = compiling + _PIECE, states + 1
                continue
            one, its_states = self.piece()
            times = self.times()
            compiling, states = compiling + one * times, states + its_states * times
        self.depth -= 1
        return compiling, states

    def piece(self) -> tuple[int, int]:
        character = self.next
        self.at += 1
        if character == "(":
            return self.group()
        if character == "[":
            return self.members()
        if character == "\\":
            return self.escape()
        if character == ".":
            return _WIDE
        return _PLAIN if character.isascii() else _WIDE

    def group(self) -> tuple[int, int]:
        if self.next == "?":
            flags = _FLAGS.match(self.pattern, self.at)
            if flags is None:
                raise _TooOddError
            self.at = flags.end()
            self.ignores_case = self.ignores_case or "i" in (flags[1] or "")
            if flags[0].endswith(")"):
                return _PLAIN
        compiling, states = self.branches()
        if self.next != ")":
            raise _TooOddError
        self.at += 1
        return compiling + _PIECE, states + 1

    def escape(self) -> tuple[int, int]:
        character = self.pattern[self.at]
        self.at += 1
        if character in "pPxuU" and self.next == "{":
            self.at = self.pattern.index("}", self.at) + 1 if "}" in self.pattern[self.at :] else 1 << 30
        elif character in "pP":
            self.at += 1
        if character in "xuU":
            return _WIDE
        return _CLASSES.get(character, _PLAIN)

    def members(self) -> tuple[int, int]:
        """A class in brackets, classes in it included; one that leaves out is as large as what it leaves."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _TooOddError
        compiling, states = _PLAIN
        is_spanning = False
        if self.next == "^":
            self.at += 1
            compiling, states = _WIDE
        is_first = True
        while is_first or self.next != "]":
            character = self.pattern[self.at]
            self.at += 1
            found = _MEMBER if character.isascii() else _WIDE
            if character == "[":
                # What is left out is found after the other cases are, but not within another class.
                is_spanning = is_spanning or self.next == "^"
                found = self.members()
            elif character == "\\":
                is_spanning = is_spanning or self.next in _SPANNING
                found = self.escape()
            elif not character.isascii():
                is_spanning = is_spanning or self.spans_many()
            compiling, states = compiling + found[0], max(states, found[1])
            is_first = False
        self.at += 1
        self.depth -= 1
        if is_spanning and self.ignores_case:
            compiling += _FOLDED
        return compiling, states

    def spans_many(self) -> bool:
        """Whether the member that was just read ends a range of many characters."""
        range_of = self.pattern[max(self.at - 3, 0) : self.at]
        return range_of[-2:-1] == "-" and ord(range_of[-1]) - ord(range_of[0]) > _MOST_SPANNED

    def times(self) -> int:
        """How often the piece before is written out: 1, or as its counts say."""
        times = 1
        while self.next and self.next in "*+?{":
            counted = _COUNT.match(self.pattern, self.at)
            if counted is not None:
                times *= max(int(counted[1]) + (counted[2] is not None), int(counted[3] or 0), 1)
                self.at = counted.end()
            elif self.next == "{":
                raise _TooOddError
            else:
                self.at += 1
        return times
