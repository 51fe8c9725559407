"""Geometry of the small charts. Templates only print it; each chart also has its data as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from runtime.core.views import column_chart
from runtime.flows.queries.activity import Bucket

WIDTH, HEIGHT, BASE = 720, 132, 112
GAP = 4
LEAST_TOP = 2


@dataclass(frozen=True, slots=True)
class Bar:
    """One time interval as three stacked rectangles, from the base line up."""

    x: float
    width: float
    begins_at: datetime
    parts: Sequence[tuple[str, float, float]]
    bucket: Bucket
    tick: bool


@dataclass(frozen=True, slots=True)
class Throughput:
    """The chart of verdicts. `top` is the count at the upper grid line."""

    bars: Sequence[Bar]
    top: int
    width: int = WIDTH
    height: int = HEIGHT
    base: int = BASE


def throughput(buckets: Sequence[Bucket]) -> Throughput:
    """Stacked bars, scaled so that the highest bar fits under a round number."""
    top = column_chart.round_up(max((bucket.total for bucket in buckets), default=0), least=LEAST_TOP)
    step = WIDTH / max(1, len(buckets))
    bars = []
    for index, bucket in enumerate(buckets):
        parts, y = [], float(BASE)
        for name, count in (
            ("accept", bucket.accepted),
            ("escalate", bucket.escalated),
            ("reject", bucket.rejected),
        ):
            height = round(count / top * (BASE - 12), 1)
            if height:
                y -= height
                parts.append((name, round(y, 1), height))
        bars.append(
            Bar(
                x=round(index * step + GAP / 2, 1),
                width=round(step - GAP, 1),
                begins_at=bucket.begins_at,
                parts=parts,
                bucket=bucket,
                tick=bucket.begins_at.minute % 30 == 0,
            )
        )
    return Throughput(bars=bars, top=top)


@dataclass(frozen=True, slots=True)
class Line:
    """A named count with its width in percent of the longest."""

    name: str
    count: int
    width: int


def bars(counts: Sequence[tuple[str, int]]) -> list[Line]:
    """Horizontal bars against the greatest count."""
    greatest = max((count for _, count in counts), default=1)
    return [Line(name=name, count=count, width=max(2, count * 100 // greatest)) for name, count in counts]
