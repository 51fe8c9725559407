"""The reasoning graph as a drawing: where each node stands, in the units of the SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from audit.reasoning.graph import Graph, Node, Sort
from runtime.core.views.labels import Badge
from runtime.kernel import effects

SORTS: Final[Mapping[Sort, Badge]] = {
    Sort.CONTEXT: Badge("info", "layers", "Context"),
    Sort.RULE: Badge("ok", "shield", "Rule"),
    Sort.CONSULTATION: Badge("warn", "ask", "Consultation"),
    Sort.CONFIDENCE: Badge("violet", "thought", "Confidence"),
    Sort.SYNTHESIS: Badge("accent", "check", "Synthesis"),
}
_WIDTH, _NODE_WIDTH, _NODE_HEIGHT, _GAP, _EDGE = 720, 300, 46, 10, 2
_RIGHT: Final = _WIDTH - _NODE_WIDTH - _EDGE
_LONGEST: Final = 38


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A node as it is drawn: its corner, the words on it; `doubt` says what is a claim."""

    node: Node
    badge: Badge
    x: int
    y: int
    name: str
    doubt: str

    @property
    def middle(self) -> int:
        """Where edges meet it."""
        return self.y + _NODE_HEIGHT // 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """The whole picture; `edges` are paths."""

    width: int
    height: int
    node_width: int
    node_height: int
    boxes: Sequence[Box]
    edges: Sequence[str]


def draw(graph: Graph) -> Drawing:
    """What a verdict is made of on the left, in the order of the sorts, and the verdict on the right."""
    sources = [node for node in graph.nodes if node.sort is not Sort.SYNTHESIS]
    targets = [node for node in graph.nodes if node.sort is Sort.SYNTHESIS]
    rows = max(len(sources), len(targets), 1)
    height = rows * (_NODE_HEIGHT + _GAP) - _GAP + 2 * _EDGE
    boxes = [
        _box(node, x=_EDGE, y=_EDGE + place * (_NODE_HEIGHT + _GAP)) for place, node in enumerate(sources)
    ]
    first = (height - len(targets) * (_NODE_HEIGHT + _GAP) + _GAP) // 2
    boxes += [
        _box(node, x=_RIGHT, y=first + place * (_NODE_HEIGHT + _GAP)) for place, node in enumerate(targets)
    ]
    by_address = {box.node.address: box for box in boxes}
    return Drawing(
        width=_WIDTH,
        height=height,
        node_width=_NODE_WIDTH,
        node_height=_NODE_HEIGHT,
        boxes=boxes,
        edges=[_path(by_address[source], by_address[target]) for source, target in graph.edges],
    )


def _box(node: Node, *, x: int, y: int) -> Box:
    name = effects.visible(node.name)
    # Of the confidence all is a claim, of the synthesis a part.
    claims = [claim for claim in node.claims if claim != node.sort]
    doubt = f", {' and '.join(claims)} unverified" if claims else ", unverified" if node.claims else ""
    short = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return Box(node=node, badge=SORTS[node.sort], x=x, y=y, name=short, doubt=doubt)


def _path(source: Box, target: Box) -> str:
    """A curve from the right side of one node to the left side of another."""
    start, end = source.x + _NODE_WIDTH, target.x
    bend = (start + end) // 2
    return f"M{start} {source.middle}C{bend} {source.middle} {bend} {target.middle} {end} {target.middle}"
