"""What an expression costs at most, in nanoseconds: from its tree and from how large its values can be.

Nobody can stop an evaluation once it runs: the library holds the interpreter's lock. So the bound is worked
out before. Figures are measured and rounded up; tests/properties/test_rule_costs.py searches for expressions
that take longer than stated here. A name is read by reference, a field of it by copying that field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from runtime.kernel import patterns
from runtime.kernel.rules import shapes
from runtime.kernel.rules.language import Expression
from runtime.kernel.rules.shapes import Shape
from runtime.kernel.rules.tree import (
    CallNode,
    Chain,
    Index,
    Items,
    Literal,
    Macro,
    Name,
    Node,
    Select,
    Sign,
    TernaryNode,
)

_STEP = 120
_CALL = 1_500
_ENTRY = 600
_ROUND = 400
_MOST_NAMED = 3
# Growing a list by one copies what is there three times; comparing two values costs as much as three copies.
_BUILDING = 3
_COMPARING = 3
_EQUALS = frozenset({"==", "!="})
MATCH = "matches"
# What cannot be computed counts as more than the maximum.
TOO_MUCH = 10**12


@dataclass(frozen=True, slots=True)
class Costs:
    """Nanoseconds at most, and the shape of the value."""

    work: int
    shape: Shape


@dataclass(slots=True)
class Reading:
    """One walk through a tree: what names are, what has been found, how many macros are open."""

    names: Mapping[str, Shape]
    # By place as it is written (`params.note`): what the schema lacks for a bound of its own.
    unbounded: dict[str, str] = field(default_factory=dict)
    # Patterns that take too long to compile, or cannot be estimated; and those inside a macro.
    too_slow: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    bound: dict[str, tuple[str, Shape]] = field(default_factory=dict)
    read: dict[str, Shape] = field(default_factory=dict)

    def large(self) -> list[tuple[str, str]]:
        """The places that were read without a bound of their own, and what each lacks; the largest first."""
        found = sorted(self.read.items(), key=lambda item: (-item[1].copy, item[0]))
        return [(place, shape.lacks) for place, shape in found][:_MOST_NAMED]


def of(node: Node, names: Mapping[str, Shape]) -> tuple[int, Reading]:
    """The work of a whole expression, its result carried back into Python, and what was found on the way."""
    reading = Reading(names=names)
    whole = _of(reading, node)
    return whole.work + 4 * whole.shape.copy + _CALL, reading


def _of(reading: Reading, node: Node) -> Costs:
    match node:
        case Literal(text=text, is_text=is_text):
            found = Costs(_STEP, shapes.text(len(text)) if is_text else shapes.SMALL)
        case Name(text=name):
            bound = reading.bound.get(name)
            found = Costs(_STEP, bound[1] if bound else reading.names.get(name, shapes.ANYTHING))
        case Select():
            of_what = _of(reading, node.of)
            found = _read(reading, node, of_what.work, of_what.shape.below(node.name))
        case Index():
            of_what, at = _of(reading, node.of), _of(reading, node.at)
            found = _read(reading, node, of_what.work + at.work, of_what.shape.below(_text(node.at)))
        case TernaryNode():
            parts = [_of(reading, part) for part in (node.condition, node.yes, node.no)]
            shape = shapes.joined(parts[1].shape, parts[2].shape)
            found = Costs(sum(part.work for part in parts) + _STEP, shape)
        case Sign():
            found = Costs(_of(reading, node.of).work + _STEP, shapes.SMALL)
        case Items():
            parts = [_of(reading, part) for part in node.parts]
            made = tuple(part.shape for part in parts)
            shape = shapes.mapped(made) if node.is_map else shapes.listed(made)
            each = _ENTRY * len(parts) if node.is_map else 0
            found = Costs(_STEP + each + sum(part.work for part in parts) + shape.copy, shape)
        case Chain():
            found = _chain(reading, node)
        case CallNode():
            found = _call(reading, node)
        case Macro():
            found = _macro(reading, node)
        case _:
            assert_never(node)
    return found


def _read(reading: Reading, node: Select | Index, work: int, shape: Shape) -> Costs:
    place = _written(reading, node)
    if shape.lacks and place:
        reading.read[place] = shape
        if reading.bound:
            reading.unbounded[place] = shape.lacks
    return Costs(work + _STEP + shape.copy, shape)


def _chain(reading: Reading, node: Chain) -> Costs:
    so_far = _of(reading, node.first)
    for sign, part in node.rest:
        after = _of(reading, part)
        first, last, shape = so_far.shape, after.shape, shapes.SMALL
        if sign == "+":
            shape = Shape(
                copy=first.copy + last.copy,
                text=first.text + last.text,
                count=first.count + last.count,
                item=shapes.items_of(first, last),
            )
            work = 2 * shape.copy
        elif sign == "in":
            work = _COMPARING * last.copy + shapes.SCALAR * last.count
        elif sign in _EQUALS:
            work = _COMPARING * min(first.copy, last.copy)
        else:
            # Only numbers and texts have an order.
            work = min(first.text, last.text)
        so_far = Costs(so_far.work + after.work + work + _STEP, shape)
    return so_far


def _call(reading: Reading, node: CallNode) -> Costs:
    parts = [_of(reading, part) for part in node.parts]
    # Values are copied once more on their way into a function; a text is looked through once.
    work = sum(part.work + 2 * part.shape.copy + part.shape.text // 4 for part in parts) + _CALL
    if node.name in ("string", "dyn"):
        return Costs(work, shapes.joined(shapes.SMALL, *(part.shape for part in parts)))
    if node.name != MATCH:
        return Costs(work, shapes.SMALL)
    # A pattern is compiled at every call, and then matched against the text.
    pattern = _text(node.parts[-1])
    found = None if pattern is None else patterns.cost(pattern)
    if found is None or found.compiling > patterns.MAX_COMPILE:
        reading.too_slow.append("" if pattern is None else pattern)
        return Costs(work + TOO_MUCH, shapes.SMALL)
    if reading.bound:
        reading.repeated.append(str(pattern))
    return Costs(work + found.compiling + found.matching(parts[0].shape.text), shapes.SMALL)


def _macro(reading: Reading, node: Macro) -> Costs:
    over = _of(reading, node.over)
    item, count = over.shape.each(), over.shape.count
    before = reading.bound
    reading.bound = {**before, node.variable: (f"{_written(reading, node.over)}[*]", item)}
    parts = [_of(reading, part) for part in node.parts]
    reading.bound = before
    work = over.work + over.shape.copy + count * (_ROUND + item.copy + sum(part.work for part in parts))
    if node.name not in ("map", "filter"):
        return Costs(work, shapes.SMALL)
    one = parts[-1].shape if node.name == "map" else item
    built = Shape(copy=shapes.SCALAR + count * one.copy, text=one.text, count=count, item=one)
    return Costs(work + _BUILDING * count * count * (one.copy + shapes.SCALAR) // 2, built)


def _text(node: Node) -> str | None:
    """The text of a literal; None for anything else, and for bytes."""
    if not isinstance(node, Literal) or not node.is_text:
        return None
    value = Expression(node.text).evaluate({}) if node.text[0] not in "bB" else None
    return value if isinstance(value, str) else None


def _written(reading: Reading, node: Node) -> str:
    """A place as people write it, from its root in a schema; empty for what is computed."""
    match node:
        case Name(text=name):
            return reading.bound[name][0] if name in reading.bound else name
        case Select(of=inner, name=name):
            place = _written(reading, inner)
            return place and f"{place}.{name}"
        case Index(of=inner, at=at):
            place, text = _written(reading, inner), _text(at)
            return place and (f"{place}[*]" if text is None else f"{place}.{text}")
        case _:
            return ""
