"""The duration bar above a timeline: time per stage, from opening to end."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from runtime.core.views import times
from runtime.flows.views.timeline import TimelineLine

WHOLE = 1000
LEAST = 5  # of WHOLE, so that a millisecond can still be seen beside an hour


@dataclass(frozen=True, slots=True)
class Stretch:
    """Time that ended with entries of one stage; `x` and `width` are parts of WHOLE."""

    name: str
    tone: str
    wait: bool
    x: float
    width: float
    took: timedelta

    @property
    def took_words(self) -> str:
        """The duration as text."""
        return times.span(self.took)


def stretches(lines: Sequence[TimelineLine], *, until: datetime | None, waiting_for: str) -> list[Stretch]:
    """Return the gaps between entries, merged by stage; `until` adds the wait still in progress."""
    gaps: list[tuple[str, str, bool, timedelta]] = []
    for before, line in pairwise(lines):
        name = f"Waiting for {line.wait_for}" if line.wait else line.lane.name
        _extend(gaps, name, line.lane.tone, bool(line.wait), line.at - before.at)
    if until and lines:
        _extend(gaps, f"Waiting for {waiting_for}", "idle", True, until - lines[-1].at)
    total = sum((gap[3] for gap in gaps), timedelta())
    if total <= timedelta():
        return []
    shares = [max(LEAST, WHOLE * (gap[3] / total)) for gap in gaps]
    scale = WHOLE / sum(shares)
    made, x = [], 0.0
    for (name, tone, wait, took), share in zip(gaps, shares, strict=True):
        width = share * scale
        made.append(Stretch(name=name, tone=tone, wait=wait, x=round(x, 2), width=round(width, 2), took=took))
        x += width
    return made


def totals(made: Sequence[Stretch]) -> list[Stretch]:
    """Add up the stretches by name, in the order of first appearance."""
    added: dict[str, Stretch] = {}
    for stretch in made:
        before = added.get(stretch.name)
        took = stretch.took if before is None else before.took + stretch.took
        added[stretch.name] = replace(stretch, took=took)
    return list(added.values())


def _extend(
    gaps: list[tuple[str, str, bool, timedelta]], name: str, tone: str, wait: bool, took: timedelta
) -> None:
    if gaps and gaps[-1][:3] == (name, tone, wait):
        gaps[-1] = (name, tone, wait, gaps[-1][3] + took)
    else:
        gaps.append((name, tone, wait, took))
