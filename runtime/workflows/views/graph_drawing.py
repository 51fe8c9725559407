"""A workflow as a drawing: its instructions in rows from the start, and the ways between them. Pure.

All lengths are in the units of the SVG.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from runtime.contracts.workflow import (
    INTERRUPT,
    Checker,
    Router,
    SequenceChecker,
    ValidateRouter,
    WorkflowDocument,
)
from runtime.kernel.workflows import linter
from runtime.workflows.queries.traffic import Traffic

_BOX_WIDTH: Final = 176
_BOX_HEIGHT: Final = 44
_GAP_X: Final = 48
_GAP_Y: Final = 96
_EDGE: Final = 8
# Ways that do not lead to the next row run in lanes at the right, in tracks of their own between the rows.
_LANE: Final = 16
_TRACK: Final = 5
_TRACKS: Final = 5
_LABEL_HEIGHT: Final = 18
_LABEL_ROOM: Final = 72
_LONGEST: Final = 20
# Widths of a way by its share of the busiest one; the style sheet knows them by number.
_SHARES: Final = (0.5, 0.2, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """An instruction as it is drawn; `core` is empty for the place where routers call a person."""

    name: str
    short: str
    core: str
    x: int
    y: int
    is_start: bool = False
    is_end: bool = False
    visits: int = 0

    @property
    def caption(self) -> str:
        """What stands below the name."""
        words = [self.core.lower() if self.core else "a person"]
        words += ["start"] if self.is_start else []
        words += ["end"] if self.is_end else []
        return ", ".join(words) + (f" · {self.visits:,} taken" if self.visits else "")

    @property
    def tone(self) -> str:
        """The colour of the box."""
        if not self.core:
            return "warn"
        return "accent" if self.is_start or self.is_end else "idle"


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """A way from one instruction to another: an edge of the graph, or a router that demands it.

    `checkers` are asked before the step it leads to; `taken` is how often flows took it. `width` is 0 for a
    way that none took, else 1 to 3.
    """

    source: str
    target: str
    router: str
    checkers: Sequence[str]
    taken: int
    width: int
    path: str
    label: str
    label_x: int
    label_y: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """The whole picture."""

    width: int
    height: int
    box_width: int
    box_height: int
    boxes: Sequence[Box]
    ways: Sequence[Way]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """Where a way runs: from a point at the foot of a box to one at the head of another.

    `lane` is its place at the right, from 0; None for a way to the next row.
    """

    from_x: int
    from_y: int
    to_x: int
    to_y: int
    lane: int | None


def draw(workflow: WorkflowDocument, traffic: Traffic) -> Drawing:
    """Draw each instruction in the row of its shortest way from the start, and every way once."""
    rows = _rows(workflow)
    width = max(len(row) for row in rows) * (_BOX_WIDTH + _GAP_X) - _GAP_X
    boxes: dict[str, Box] = {}
    for level, row in enumerate(rows):
        left = _EDGE + (width - len(row) * (_BOX_WIDTH + _GAP_X) + _GAP_X) // 2
        for place, name in enumerate(row):
            boxes[name] = _box(
                workflow,
                name,
                x=left + place * (_BOX_WIDTH + _GAP_X),
                y=_EDGE + _GAP_Y // 2 + level * (_BOX_HEIGHT + _GAP_Y),
                visits=sum(traffic.interrupts.values()) if name == INTERRUPT else traffic.visits[name],
            )
    asked = ways_of(workflow)
    lines = _lines([(boxes[source], boxes[target]) for source, target, _ in asked])
    busiest = max((taken_of(traffic, source, target) for source, target, _ in asked), default=0)
    right = _EDGE + width
    ways = [
        _way(workflow, traffic, way, line=line, right=right, busiest=busiest)
        for way, line in zip(asked, lines, strict=True)
    ]
    lanes = sum(line.lane is not None for line in lines)
    return Drawing(
        width=right + lanes * _LANE + (_LABEL_ROOM if lanes else 0) + _EDGE,
        height=len(rows) * (_BOX_HEIGHT + _GAP_Y) + 2 * _EDGE,
        box_width=_BOX_WIDTH,
        box_height=_BOX_HEIGHT,
        boxes=list(boxes.values()),
        ways=ways,
    )


def ways_of(workflow: WorkflowDocument) -> Sequence[tuple[str, str, str]]:
    """Every way as source, target and router; the router is empty for an edge of the graph."""
    found = [(before, after, "") for before, after in workflow.edges]
    for router in workflow.routers:
        found += [(router.on, target, router.id) for target in _led_to(router)]
        if isinstance(router, ValidateRouter) and router.by is not None:
            found += [(router.by, target, router.id) for target in (router.by, router.failed)]
    return list(dict.fromkeys(found))


def checkers_of(workflow: WorkflowDocument, target: str) -> Sequence[Checker]:
    """The checkers that are asked before a step, however it is reached."""
    known = workflow.instructions.get(target)
    return (
        []
        if known is None
        else [
            checker
            for checker in workflow.checkers
            if (checker.to is known.core if isinstance(checker, SequenceChecker) else checker.on == target)
        ]
    )


def taken_of(traffic: Traffic, source: str, target: str) -> int:
    """How often flows went from one instruction straight to another, or on to a person."""
    return traffic.interrupts[source] if target == INTERRUPT else traffic.ways[source, target]


def _led_to(router: Router) -> Sequence[str]:
    if not isinstance(router, ValidateRouter):
        return (router.to,)
    return (router.failed,) if router.by is None else (router.by,)


def _rows(workflow: WorkflowDocument) -> Sequence[Sequence[str]]:
    """The instructions by the length of their shortest way from the start, and the place of the person last.

    The linter lets no workflow be registered that has an instruction which nothing leads to.
    """
    follow = linter.successors(workflow)
    rows, seen = [[workflow.start]], {workflow.start}
    while True:
        reached = {name for before in rows[-1] for name in follow[before]} - seen
        if not reached:
            break
        # In the order of the document, which its author chose.
        rows.append([name for name in workflow.instructions if name in reached])
        seen |= reached
    calls = any(target == INTERRUPT for _, target, _ in ways_of(workflow))
    return [*rows, [INTERRUPT]] if calls else rows


def _box(workflow: WorkflowDocument, name: str, *, x: int, y: int, visits: int) -> Box:
    known = workflow.instructions.get(name)
    return Box(
        name=name,
        short=name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…",
        core="" if known is None else known.core.value,
        x=x,
        y=y,
        is_start=name == workflow.start,
        is_end=name in workflow.ends,
        visits=visits,
    )


def _lines(ways: Sequence[tuple[Box, Box]]) -> Sequence[_Line]:
    """Spread the ways along foot and head of each box, with lanes for those that skip rows or lead back."""
    numbers = range(len(ways))
    leaving = {
        at: _spread(
            ways[at][0],
            [other for other in numbers if ways[other][0] == ways[at][0]],
            at,
            key=lambda other: ways[other][1].x,
        )
        for at in numbers
    }
    coming = {
        at: _spread(
            ways[at][1],
            [other for other in numbers if ways[other][1] == ways[at][1]],
            at,
            key=lambda other: ways[other][0].x,
        )
        for at in numbers
    }
    row = _BOX_HEIGHT + _GAP_Y
    around = [at for at in numbers if ways[at][1].y - ways[at][0].y != row]
    # The shortest runs innermost.
    around.sort(key=lambda at: abs(ways[at][1].y - ways[at][0].y))
    lanes = {at: lane for lane, at in enumerate(around)}
    return [
        _Line(
            from_x=leaving[at],
            from_y=begin.y + _BOX_HEIGHT,
            to_x=coming[at],
            to_y=end.y,
            lane=lanes.get(at),
        )
        for at, (begin, end) in enumerate(ways)
    ]


def _spread(box: Box, sharing: Sequence[int], at: int, *, key: Callable[[int], int]) -> int:
    """The point at the foot or the head of a box for one of the ways that share it."""
    order = sorted(sharing, key=lambda other: (key(other), other))
    return box.x + _BOX_WIDTH * (order.index(at) + 1) // (len(order) + 1)


def _way(
    workflow: WorkflowDocument,
    traffic: Traffic,
    way: tuple[str, str, str],
    *,
    line: _Line,
    right: int,
    busiest: int,
) -> Way:
    source, target, router = way
    taken = taken_of(traffic, source, target)
    checkers = [checker.id for checker in checkers_of(workflow, target)]
    path, x, y = _down(line) if line.lane is None else _around(line, line.lane, right=right)
    return Way(
        source=source,
        target=target,
        router=router,
        checkers=checkers,
        taken=taken,
        width=_width(taken, busiest),
        path=path,
        label=_label(taken, checkers),
        label_x=x,
        label_y=y,
    )


def _width(taken: int, busiest: int) -> int:
    if not taken:
        return 0
    return len(_SHARES) - next(at for at, share in enumerate(_SHARES) if taken >= share * busiest)


def _label(taken: int, checkers: Sequence[str]) -> str:
    """What stands on a way: how often it was taken, and how many checkers are asked on it, or which one."""
    parts = [f"{taken:,} taken"] if taken else []
    if len(checkers) == 1:
        parts.append(checkers[0] if len(checkers[0]) <= _LONGEST else f"{checkers[0][: _LONGEST - 1]}…")
    elif checkers:
        parts.append(f"{len(checkers)} checkers")
    return ", ".join(parts)


def _down(line: _Line) -> tuple[str, int, int]:
    """A curve to the next row, and the point where its label stands: just above where it arrives."""
    bend = (line.from_y + line.to_y) // 2
    path = f"M{line.from_x} {line.from_y}C{line.from_x} {bend} {line.to_x} {bend} {line.to_x} {line.to_y}"
    return path, line.to_x, line.to_y - _LABEL_HEIGHT


def _around(line: _Line, lane: int, *, right: int) -> tuple[str, int, int]:
    """A way down to the space below its box, along its lane, and into the space above where it arrives."""
    x, track = right + (lane + 1) * _LANE, (lane % _TRACKS) * _TRACK
    below, above = line.from_y + _GAP_Y // 5 + track, line.to_y - _GAP_Y // 5 - track
    path = f"M{line.from_x} {line.from_y}V{below}H{x}V{above}H{line.to_x}V{line.to_y}"
    # Labels of neighbouring lanes stand one below the other.
    middle = (below + above) // 2 + (lane % _TRACKS - _TRACKS // 2) * _LABEL_HEIGHT
    return path, x, middle
