"""Geometry of a chart of plain columns over time. Its data is shown as a table too."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

WIDTH, HEIGHT, TOP, BASE = 480, 120, 14, 100
GAP = 3


@dataclass(frozen=True, slots=True)
class Column:
    """One time interval, from the base line up."""

    x: float
    width: float
    begins_at: datetime
    parts: Sequence[tuple[str, float, float]]  # class, y and height of each rectangle
    tick: bool


@dataclass(frozen=True, slots=True)
class Columns:
    """The chart. `top` is the value at the upper grid line, in words."""

    bars: Sequence[Column]
    top: str
    width: int = WIDTH
    height: int = HEIGHT
    base: int = BASE
    line: int = TOP


def draw(values: Sequence[tuple[datetime, int]], *, top: int, words: str) -> Columns:
    """Columns scaled so that `top` reaches the grid line; `words` say what `top` is."""
    step = WIDTH / max(1, len(values))
    bars = []
    for index, (begins_at, value) in enumerate(values):
        height = round(value / top * (BASE - TOP), 1) if top else 0.0
        bars.append(
            Column(
                x=round(index * step + GAP / 2, 1),
                width=round(step - GAP, 1),
                begins_at=begins_at,
                parts=[("use", round(BASE - height, 1), height)] if height else [],
                tick=begins_at.minute % 30 == 0,
            )
        )
    return Columns(bars=bars, top=words)


def round_up(value: int, *, least: int) -> int:
    """Return the next of 1, 2 and 5 times a power of ten that is at least `value` and `least`."""
    scale = 1
    while True:
        for step in (1, 2, 5):
            if step * scale >= max(value, least):
                return step * scale
        scale *= 10
