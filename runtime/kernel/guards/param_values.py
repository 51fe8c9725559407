"""The plain values of a proposal's parameters, by the name they stand under."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

MAX_LEAVES = 200
MAX_DEPTH = 8
MAX_VALUE_CHARS = 64


@dataclass(frozen=True, slots=True)
class Leaf:
    """A text or a number; of a list, each item under the list's name."""

    name: str
    value: str | Decimal


def of(params: Mapping[str, Any]) -> tuple[Leaf, ...]:
    """The first MAX_LEAVES texts and numbers, MAX_DEPTH deep. Long texts are prose and left out."""
    found: list[Leaf] = []
    for leaf in _walk(params, "", MAX_DEPTH):
        if len(found) == MAX_LEAVES:
            break
        found.append(leaf)
    return tuple(found)


def _walk(value: Any, name: str, depth: int) -> Iterator[Leaf]:
    if depth == 0 or isinstance(value, bool):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, str(key), depth - 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _walk(item, name, depth - 1)
    elif isinstance(value, str):
        if 0 < len(value) <= MAX_VALUE_CHARS:
            yield Leaf(name, value)
    elif isinstance(value, int | float):
        # By its shortest text: the decimal that somebody wrote, not the binary one beside it.
        yield Leaf(name, Decimal(str(value)))
