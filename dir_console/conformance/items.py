"""What a conformance run asks, and what became of each item."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dir_console.conformance.sample import Sample


class Answer(StrEnum):
    """PARTLY: nothing is wrong with what was tried, but it is not all that is asked for."""

    YES = "yes"
    NO = "no"
    PARTLY = "partly"
    NOT_APPLICABLE = "not_applicable"


class Group(StrEnum):
    """Where an item comes from; the value is the title of its part."""

    DARE = "DARE: five conformance checks"
    READINESS = "ContextOS: six readiness answers"
    INVARIANTS = "Invariants of the runtime"
    BYPASS = "No bypass path, part by part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was tried now, what came out, and `why` it is anything but a yes."""

    answer: Answer
    tried: str
    seen: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An item. `tries` says in general what `run` does; `tests` show what cannot be tried at run time."""

    id: str
    group: Group
    paper: str
    asks: str
    tries: str
    run: Callable[[Sample], Finding]
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """An item with its finding, and how long that took."""

    check: Check
    finding: Finding
    seconds: float

    def plain(self) -> dict[str, Any]:
        """The result as it is sent and kept."""
        check, finding = self.check, self.finding
        return {
            "id": check.id,
            "group": check.group.value,
            "source": f"{check.paper}: {check.asks}",
            "answer": finding.answer.value,
            "tried": finding.tried,
            "seen": finding.seen,
            "why": finding.why,
            "tests": list(check.tests),
            "seconds": round(self.seconds, 3),
        }


def judged(*, tried: str, seen: str, wrong: list[str], short: list[str] | None = None) -> Finding:
    """NO with what is wrong, else PARTLY with what falls short, else YES."""
    if wrong:
        return Finding(answer=Answer.NO, tried=tried, seen=seen, why=listed(wrong))
    if short:
        return Finding(answer=Answer.PARTLY, tried=tried, seen=seen, why=listed(short))
    return Finding(answer=Answer.YES, tried=tried, seen=seen)


def listed(reasons: list[str], most: int = 5) -> str:
    """Several reasons in one text; of many the first ones, and how many more."""
    more = f" And {len(reasons) - most} more." if len(reasons) > most else ""
    return " ".join(reasons[:most]) + more


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"
