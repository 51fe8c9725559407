"""What a source of memory names, and whether recorded bytes hold the value that was taken from it. Pure.

A value matches a recorded document if it is the whole document, or one member or element of it at any depth:
equal as canonical JSON, so `1.0` is `1` and the order of members says nothing. A summary, a value put
together from several places, and part of a text match nothing. `null`, `true`, `false` and values of fewer
than `MIN_PART_BYTES` bytes stand in almost every document, so they match only a whole one.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from audit import canonical
from runtime.contracts.memory import QuarantineReason, SourceCheck, SourceKind

MIN_PART_BYTES: Final = 3
# Whom or what an item can name that lies outside the runtime: `web:...`, `agent:other`.
OUTSIDE_LABELS: Final = frozenset(
    {"agent", "database", "document", "email", "file", "message", "tool", "user", "web"}
)
_NAMED: Final = {"fact": SourceKind.FACT, "flow": SourceKind.FLOW}
_STRENGTH: Final = {
    SourceKind.FACT: 3,
    SourceKind.FLOW: 2,
    SourceKind.AGENT: 1,
    SourceKind.OUTSIDE: 0,
    SourceKind.UNLABELLED: 0,
}
# What keeps an item out, of what was found at its source.
REASONS: Final = {
    SourceCheck.MISMATCHED: QuarantineReason.SOURCE_MISMATCH,
    SourceCheck.NOT_PROVED: QuarantineReason.SOURCE_NOT_PROVED,
    SourceCheck.NOT_FOUND: QuarantineReason.SOURCE_NOT_FOUND,
    SourceCheck.OUTSIDE: QuarantineReason.OUTSIDE_SOURCE,
    SourceCheck.UNLABELLED: QuarantineReason.UNLABELLED_SOURCE,
}


def kind_of(source: str) -> SourceKind:
    """What a source names: `agent`, `flow:<dfid>`, `fact:<path>@<version>`, something outside, or nothing."""
    label, _, name = source.partition(":")
    if not name:
        return SourceKind.AGENT if source == "agent" else SourceKind.UNLABELLED
    if label in _NAMED:
        return _NAMED[label]
    return SourceKind.OUTSIDE if label in OUTSIDE_LABELS else SourceKind.UNLABELLED


def strength(source: str) -> int:
    """How much a source weighs against another one: a fact most, then a flow, then an agent's own words."""
    return _STRENGTH[kind_of(source)]


def matches(recorded: Any, value: Any) -> bool:
    """Whether a recorded document is `value`, or holds it as one member or element at any depth."""
    wanted = canonical.encode(value)
    if canonical.encode(recorded) == wanted:
        return True
    if value is None or isinstance(value, bool) or len(wanted) < MIN_PART_BYTES:
        return False
    return any(type(part) is type(value) and canonical.encode(part) == wanted for part in _parts(recorded))


def _parts(document: Any) -> Iterator[Any]:
    waiting: list[Iterable[Any]] = [_below(document)]
    while waiting:
        for part in waiting.pop():
            yield part
            waiting.append(_below(part))


def _below(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
