"""The Merkle tree of RFC 9162, section 2.1, over hashes of any storage. Pure.

A node is named by its level and number: node (level, n) is the root of the 2**level leaves that begin at leaf
n * 2**level. Only complete nodes are read; those of an incomplete right edge are computed from them.
"""

import hashlib
from collections.abc import Callable, Sequence

EMPTY_ROOT = hashlib.sha256(b"").digest()

# The hash of a complete node, by its level and its number.
Reader = Callable[[int, int], bytes]


def hash_leaf(data: bytes) -> bytes:
    """The hash of a leaf: SHA-256(0x00 || data), 32 bytes."""
    return hashlib.sha256(b"\x00" + data).digest()


def hash_children(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node: SHA-256(0x01 || left || right), 32 bytes."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """The right edge of a growing tree, some 20 hashes for a million leaves: enough for its root."""

    def __init__(self) -> None:
        self.size = 0
        self._complete: list[bytes] = []

    def push(self, leaf_hash: bytes) -> None:
        """Add a leaf."""
        added, size = leaf_hash, self.size
        while size & 1:
            added, size = hash_children(self._complete.pop(), added), size >> 1
        self._complete.append(added)
        self.size += 1

    def root(self) -> bytes:
        """The root over all leaves so far."""
        if not self._complete:
            return EMPTY_ROOT
        *rest, found = self._complete
        for left in reversed(rest):
            found = hash_children(left, found)
        return found


def root(size: int, read: Reader) -> bytes:
    """The root over the first `size` leaves."""
    return _range_hash(0, size, read) if size else EMPTY_ROOT


def inclusion_proof(index: int, size: int, read: Reader) -> list[bytes]:
    """The hashes that lead from leaf `index` to the root over `size` leaves, from the leaf upwards.

    Raises ValueError for an index outside the tree.
    """
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size}")
    path, start, end = [], 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(_range_hash(middle, end, read))
            end = middle
        else:
            path.append(_range_hash(start, middle, read))
            start = middle
    return path[::-1]


def consistency_proof(from_size: int, to_size: int, read: Reader) -> list[bytes]:
    """The hashes that show that the tree of `to_size` begins with that of `from_size`.

    Empty for an empty first tree and for equal sizes. Raises ValueError where the first is the larger one.
    """
    if not 0 <= from_size <= to_size:
        raise ValueError(f"a tree of {to_size} does not begin with one of {from_size}")
    if from_size in (0, to_size):
        return []
    path, start, end = [], 0, to_size
    while end != from_size:
        middle = start + _split(end - start)
        if from_size <= middle:
            path.append(_range_hash(middle, end, read))
            end = middle
        else:
            path.append(_range_hash(start, middle, read))
            start = middle
    # The verifier holds the root of the first tree already, where that is the node reached here.
    return [*([] if start == 0 else [_range_hash(start, end, read)]), *path[::-1]]


def verify_inclusion(*, leaf_hash: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the proof leads from the leaf to the root (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    position, last, found = index, size - 1, leaf_hash
    for sibling in proof:
        if last == 0:
            return False
        if position & 1 or position == last:
            found = hash_children(sibling, found)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            found = hash_children(found, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and found == root


def verify_consistency(
    *, from_size: int, to_size: int, from_root: bytes, to_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether the proof shows that the second tree begins with the first (RFC 9162, 2.1.4.2)."""
    if not 0 <= from_size <= to_size:
        return False
    if from_size == to_size:
        return not proof and from_root == to_root
    if from_size == 0:
        return not proof and from_root == EMPTY_ROOT
    # A complete first tree is a node of the second, whose hash the verifier holds.
    hashes = [from_root, *proof] if from_size & (from_size - 1) == 0 else list(proof)
    if not hashes:
        return False
    position, last = from_size - 1, to_size - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    first = second = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            first, second = hash_children(sibling, first), hash_children(sibling, second)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            second = hash_children(second, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and first == from_root and second == to_root


def _split(size: int) -> int:
    """The largest power of two below `size`: where RFC 9162 divides a tree."""
    return 1 << (size - 1).bit_length() - 1


def _range_hash(start: int, end: int, read: Reader) -> bytes:
    """The root over the leaves from `start` to `end`, which begin where a node of their size does."""
    complete: list[bytes] = []
    while start < end:
        level = (end - start).bit_length() - 1
        complete.append(read(level, start >> level))
        start += 1 << level
    found = complete.pop()
    while complete:
        found = hash_children(complete.pop(), found)
    return found
