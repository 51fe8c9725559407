"""Both values of a difference: what a changed document was, from the copies that other rows still hold.

A copy is believed only where its bytes have the recorded digest. So nothing is guessed: where no copy is
left, the two digests are all that can be told.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from audit import canonical

Pointer = tuple[str | int, ...]
_MOST_TRIES = 5_000
# The members in which a list of named values keeps the name.
_NAMES = ("path", "fact")


class Copies:
    """Documents of a flow that are whole, with everything that stands inside them."""

    def __init__(self, bodies: Iterable[bytes]) -> None:
        self._bodies = tuple(bodies)
        self._documents = tuple(
            document for body in self._bodies if (document := _decoded(body)) is not _NO_DOCUMENT
        )

    def original(self, found: bytes, *, digest: str, salt: bytes = b"") -> bytes | None:
        """The bytes with this digest, after `salt`: a whole copy, or `found` with one value put back."""
        for body in (*self._bodies, *self._encoded_members()):
            if canonical.digest(salt + body) == digest:
                return body
        document = _decoded(found)
        return None if document is _NO_DOCUMENT else self._mended(document, digest, salt)

    def _encoded_members(self) -> Iterator[bytes]:
        for document in self._documents:
            for _, member in _walk(document):
                yield canonical.encode(member)

    def _mended(self, document: Any, digest: str, salt: bytes) -> bytes | None:
        known, tries = self._by_name(), 0
        for pointer, _ in _walk(document):
            for name in _names_of(document, pointer):
                for candidate in known.get(name, {}).values():
                    mended = canonical.encode(_with(document, pointer, candidate))
                    tries += 1
                    if canonical.digest(salt + mended) == digest:
                        return mended
                    if tries >= _MOST_TRIES:
                        return None
        return None

    def _by_name(self) -> Mapping[str, Mapping[bytes, Any]]:
        """Every value by the names that it has anywhere, each once."""
        known: dict[str, dict[bytes, Any]] = defaultdict(dict)
        for document in self._documents:
            for pointer, value in _walk(document):
                names = list(_names_of(document, pointer))
                encoded = canonical.encode(value) if names else b""
                for name in names:
                    known[name][encoded] = value
        return known


def first_difference(recorded: Any, found: Any) -> tuple[Pointer, Any, Any] | None:
    """The first place, in the order of names, where two documents differ, with both values there.

    A member that one of them does not have is None there.
    """
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in sorted(recorded.keys() | found.keys()):
            inner = first_difference(recorded.get(key), found.get(key))
            if inner is None and (key in recorded) == (key in found):
                continue
            pointer, before, after = inner or ((), None, None)
            return (key, *pointer), before, after
        return None
    if isinstance(recorded, list) and isinstance(found, list):
        for index in range(max(len(recorded), len(found))):
            before, after = (items[index] if index < len(items) else None for items in (recorded, found))
            inner = first_difference(before, after)
            if inner is not None:
                pointer, before, after = inner
                return (index, *pointer), before, after
        return ((), recorded, found) if len(recorded) != len(found) else None
    # True is no 1 in JSON.
    same = type(recorded) is type(found) and recorded == found
    return None if same else ((), recorded, found)


def compare(recorded: bytes, found: bytes) -> tuple[str, Any, Any]:
    """`first_difference` of two encoded documents, as a JSON Pointer; else their digests."""
    before, after = _decoded(recorded), _decoded(found)
    if before is not _NO_DOCUMENT and after is not _NO_DOCUMENT:
        different = first_difference(before, after)
        if different is not None:
            pointer, *values = different
            return json_pointer(pointer), values[0], values[1]
    return "", canonical.digest(recorded), canonical.digest(found)


def json_pointer(parts: Sequence[str | int]) -> str:
    """RFC 6901: each part after a slash."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


_NO_DOCUMENT = object()


def _decoded(body: bytes) -> Any:
    """The document; none where the bytes are not JSON, or say what no JSON of ours can, such as 1e999."""
    try:
        document = canonical.decode(body)
        canonical.encode(document)
    except canonical.CanonicalError:
        return _NO_DOCUMENT
    return document


def _walk(value: Any, pointer: Pointer = ()) -> Iterator[tuple[Pointer, Any]]:
    yield pointer, value
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _walk(member, (*pointer, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, (*pointer, index))


def _names_of(document: Any, pointer: Pointer) -> Iterator[str]:
    """A fact is `price.ABC` in one document, nested in another, and beside its path in a third."""
    if not pointer or isinstance(pointer[-1], int):
        return
    *before, last = pointer
    yield str(last)
    if before:
        yield f"{before[-1]}.{last}"
    parent = document
    for part in before:
        parent = parent[part]
    if isinstance(parent, dict):
        yield from (parent[name] for name in _NAMES if isinstance(parent.get(name), str))


def _with(value: Any, pointer: Pointer, replaced: Any) -> Any:
    """A copy of `value` with another value at `pointer`; only the way there is copied."""
    if not pointer:
        return replaced
    first, *rest = pointer
    copied: Any = list(value) if isinstance(value, list) else dict(value)
    copied[first] = _with(value[first], tuple(rest), replaced)
    return copied
