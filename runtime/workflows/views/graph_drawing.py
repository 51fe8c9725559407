"""A workflow as a drawing: its instructions in rows from the start, and the ways between them. Pure.

All lengths are in the units of the SVG.
"""

from collections.abc import Sequence
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

_BOX_WIDTH: Final = 168
_BOX_HEIGHT: Final = 44
_GAP_X: Final = 56
_GAP_Y: Final = 84
_EDGE: Final = 8
# Room at the right for the ways that lead back, and how far each of them stands from the one before.
_LANE: Final = 14
_LONGEST: Final = 19
# Where on its way each label stands, in turn, so that labels of neighbours do not meet.
_PLACES: Final = (0.5, 0.34, 0.66)
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
    def middle(self) -> int:
        """The centre from left to right."""
        return self.x + _BOX_WIDTH // 2


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


def draw(workflow: WorkflowDocument, traffic: Traffic) -> Drawing:
    """Draw each instruction in the row of its shortest way from the start, and every way once."""
    rows = _rows(workflow)
    widest = max(len(row) for row in rows)
    width = widest * (_BOX_WIDTH + _GAP_X) - _GAP_X
    boxes: dict[str, Box] = {}
    for level, row in enumerate(rows):
        left = _EDGE + (width - len(row) * (_BOX_WIDTH + _GAP_X) + _GAP_X) // 2
        for place, name in enumerate(row):
            boxes[name] = _box(
                workflow,
                name,
                x=left + place * (_BOX_WIDTH + _GAP_X),
                y=_EDGE + level * (_BOX_HEIGHT + _GAP_Y),
                visits=sum(traffic.interrupts.values()) if name == INTERRUPT else traffic.visits[name],
            )
    right = _EDGE + width
    ways, lanes = [], 0
    asked = ways_of(workflow)
    busiest = max((taken_of(traffic, source, target) for source, target, _ in asked), default=0)
    for number, (source, target, router) in enumerate(asked):
        begin, end = boxes[source], boxes[target]
        is_back = end.y <= begin.y
        lanes += is_back
        ways.append(
            _way(
                workflow,
                traffic,
                (begin, end, router),
                busiest=busiest,
                lane=right + lanes * _LANE if is_back else None,
                place=_PLACES[number % len(_PLACES)],
            )
        )
    return Drawing(
        width=right + (lanes + 1) * _LANE + _EDGE,
        height=len(rows) * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _EDGE,
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


def _way(
    workflow: WorkflowDocument,
    traffic: Traffic,
    between: tuple[Box, Box, str],
    *,
    busiest: int,
    lane: int | None,
    place: float,
) -> Way:
    begin, end, router = between
    taken = taken_of(traffic, begin.name, end.name)
    checkers = [checker.id for checker in checkers_of(workflow, end.name)]
    if lane is None:
        path, x, y = _down(begin, end, place)
    else:
        path, x, y = _back(begin, end, lane)
    return Way(
        source=begin.name,
        target=end.name,
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
    return " · ".join(parts)


def _down(begin: Box, end: Box, place: float) -> tuple[str, int, int]:
    """A curve from the foot of one box to the head of another, and a point on it."""
    top, foot = begin.y + _BOX_HEIGHT, end.y
    bend = (top + foot) // 2
    path = f"M{begin.middle} {top}C{begin.middle} {bend} {end.middle} {bend} {end.middle} {foot}"
    # The point of the cubic curve at `place`: both of its handles stand at the same height.
    rest = 1 - place
    near, far = rest**3 + 3 * rest**2 * place, place**3 + 3 * rest * place**2
    middle = 3 * rest**2 * place + 3 * rest * place**2
    x = round(near * begin.middle + far * end.middle)
    y = round(rest**3 * top + middle * bend + place**3 * foot)
    return path, x, y


def _back(begin: Box, end: Box, lane: int) -> tuple[str, int, int]:
    """A way along a lane at the right, and a point beside where it arrives."""
    side, from_y, to_y = _BOX_WIDTH, begin.y + 2 * _BOX_HEIGHT // 3, end.y + _BOX_HEIGHT // 3
    path = (
        f"M{begin.x + side} {from_y}C{lane} {from_y} {lane} {from_y} {lane} {(from_y + to_y) // 2}"
        f"C{lane} {to_y} {lane} {to_y} {end.x + side} {to_y}"
    )
    return path, end.x + side + _GAP_X // 2, to_y - _LANE // 2
