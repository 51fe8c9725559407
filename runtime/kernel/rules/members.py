"""Which members of a name an expression reads: of a large value only those need be carried to the library."""

from collections.abc import Iterator, Mapping
from typing import assert_never

from runtime.kernel.rules import cel_tokens, tree
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


def read_alone(source: str) -> Mapping[str, frozenset[str]]:
    """By name the members that are read of it, where nothing else is: `limits` in `manifest.limits.most`.

    A name is left out where it is read whole or by a computed key, where a macro binds it too, and where no
    tree can be made of the source: what is not plainly written is read as more, never as less.
    """
    try:
        reads = list(_reads(tree.parse(cel_tokens.tokenize(source))))
    except tree.UnreadableError:
        return {}
    read_whole = {name for name, member in reads if member is None}
    found: dict[str, set[str]] = {}
    for name, member in reads:
        if member is not None and name not in read_whole:
            found.setdefault(name, set()).add(member)
    return {name: frozenset(members) for name, members in found.items()}


def path(source: str) -> tuple[str, ...]:
    """The name and the members that an expression goes through where it does nothing else.

    `manifest.limits.most` goes through all three; an empty tuple for anything else.
    """
    try:
        node = tree.parse(cel_tokens.tokenize(source))
    except tree.UnreadableError:
        return ()
    steps = list[str]()
    while isinstance(node, Select):
        steps.append(node.name)
        node = node.of
    return (node.text, *reversed(steps)) if isinstance(node, Name) else ()


def _reads(node: Node) -> Iterator[tuple[str, str | None]]:
    """Every name in a tree with the member that is read of it; None where it is the whole."""
    match node:
        case Select(of=Name(text=name), name=member):
            yield name, member
        case Name(text=name):
            yield name, None
        case Macro():
            yield node.variable, None
            yield from _reads_of(node.over, *node.parts)
        case Literal():
            return
        case Select() | Sign():
            yield from _reads_of(node.of)
        case Index():
            yield from _reads_of(node.of, node.at)
        case TernaryNode():
            yield from _reads_of(node.condition, node.yes, node.no)
        case Chain():
            yield from _reads_of(node.first, *(part for _, part in node.rest))
        case CallNode() | Items():
            yield from _reads_of(*node.parts)
        case _:
            assert_never(node)


def _reads_of(*nodes: Node) -> Iterator[tuple[str, str | None]]:
    for node in nodes:
        yield from _reads(node)
