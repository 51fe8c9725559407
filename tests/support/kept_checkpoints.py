"""Checkpoints that people kept, and what somebody with the signing key may have shown to one of them.

A house signs a chain of checkpoints over a log that grows. `SHOWN` has the files of each case: what one
person was shown and, where it differs, another; `kept_checkpoints.txt` says what the verifier says of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from audit.sealing import merkle, notes
from audit.sealing.merkle import Frontier
from audit.sealing.notes import Checkpoint
from audit.signing import LocalSigner, Signer

TABLE: Final = Path(__file__).with_name("kept_checkpoints.txt")
ORIGIN: Final = "dir-console/trial"
HOUSE, STRANGER = LocalSigner(b"h" * 32), LocalSigner(b"s" * 32)
BEGAN: Final = datetime(2026, 11, 27, 9, tzinfo=UTC)
SIZES: Final = (0, 3, 3, 7, 12, 20)
Files = Mapping[str, str]


def leaves(count: int, *, changed: int | None = None) -> list[bytes]:
    """The hashes of entries; of the one that was changed another."""
    return [merkle.hash_leaf(b"entry %d%s" % (n, b"!" * (n == changed))) for n in range(count)]


def root(count: int, *, changed: int | None = None) -> bytes:
    """The root over the first entries."""
    frontier = Frontier()
    for leaf in leaves(count, changed=changed):
        frontier.push(leaf)
    return frontier.root()


def chain(
    sizes: Sequence[int] = SIZES,
    *,
    before: Checkpoint | None = None,
    began: datetime = BEGAN,
    changed: int | None = None,
    origin: str = ORIGIN,
) -> list[Checkpoint]:
    """A checkpoint a minute over logs of these sizes, each naming the one before it."""
    made: list[Checkpoint] = []
    for minute, size in enumerate(sizes):
        last = made[-1] if made else before
        made.append(
            Checkpoint(
                origin,
                size,
                root(size, changed=changed),
                began + timedelta(minutes=minute),
                previous=bytes(32) if last is None else last.digest(),
            )
        )
    return made


def signed(checkpoint: Checkpoint, by: Signer = HOUSE) -> str:
    """The note of a checkpoint."""
    return notes.sign(checkpoint, public_key=by.public_key, sign=by.sign)


def files(checkpoints: Sequence[Checkpoint], *, by: Signer = HOUSE, name: str = "kept") -> Files:
    """Notes by their file names, in order."""
    return {f"{name}-{place}.txt": signed(each, by) for place, each in enumerate(checkpoints)}


def proof(smaller: int, larger: int) -> dict[str, object]:
    """What the API answers for the proof between two sizes."""
    held = leaves(larger)

    def read(level: int, index: int) -> bytes:
        frontier = Frontier()
        for leaf in held[index << level : (index + 1) << level]:
            frontier.push(leaf)
        return frontier.root()

    hashes = merkle.consistency_proof(smaller, larger, read)
    return {"from": smaller, "to": larger, "hashes": [each.hex() for each in hashes]}


@dataclass(frozen=True)
class Case:
    """A line of the table: what was done, the code of the first finding (`-` without one), the exit code."""

    what: str
    code: str
    exit: int


def read() -> list[Case]:
    """The lines of the table, in order."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    cells = (line.split(" | ") for line in lines if not line.startswith("#"))
    return [Case(what, code, int(number)) for what, code, number in cells]


def _split_view() -> Files:
    """Somebody else was shown another successor, over a log in which an entry was changed."""
    mine = chain()
    theirs = chain(SIZES[4:], before=mine[3], began=mine[4].time, changed=9)
    return {**files(mine), **files(theirs, name="theirs")}


def _split_view_later() -> Files:
    """Of the two branches only later checkpoints were kept: nobody has the one at which they part."""
    mine = chain((0, 3, 7, 12, 20, 30))
    theirs = chain((8, 14, 21), before=mine[1], began=mine[2].time, changed=7)
    return {**files(mine[3:]), **files(theirs[1:], name="theirs")}


def _same_size() -> Files:
    """Two checkpoints that have nothing else in common, over as many entries."""
    mine, theirs = chain(), chain((1, 12), changed=4)
    return {**files(mine[4:5]), **files(theirs[1:], name="theirs")}


def _begun_anew() -> Files:
    """The log was made anew from its first entry, and says that it begins there."""
    mine, theirs = chain(), chain((25, 30), began=BEGAN + timedelta(hours=1), changed=0)
    return {**files(mine[1:]), **files(theirs, name="theirs")}


def _two_firsts() -> Files:
    mine, theirs = chain(), chain((5, 25), began=BEGAN + timedelta(hours=1), changed=0)
    return {**files(mine), **files(theirs, name="theirs")}


def _shrunk() -> Files:
    """The end of the log was cut off, and the chain goes on from there."""
    mine = chain()
    later = chain((7, 8), before=mine[-1], began=BEGAN + timedelta(hours=1))
    return files([*mine, *later])


def _back_in_time() -> Files:
    mine = chain()
    return files([*mine, *chain((21,), before=mine[-1], began=BEGAN - timedelta(hours=1))])


def _unlinked() -> Files:
    """A later checkpoint without the line that names the one before: as older versions made them."""
    mine = chain()
    return files([*mine[:-1], replace(mine[-1], previous=None)])


def _by_a_stranger() -> Files:
    mine = chain()
    return {**files(mine[:-1]), **files(mine[-1:], by=STRANGER, name="last")}


def _one_gone() -> Files:
    mine = chain()
    return files([*mine[:3], *mine[4:]])


def _unreadable() -> Files:
    return {**files(chain()), "kept-9.txt": signed(chain()[-1]).replace("time ", "tide ")}


SHOWN: Final[Mapping[str, Callable[[], Files]]] = {
    "another successor shown to somebody else": _split_view,
    "two branches, of which only later ones were kept": _split_view_later,
    "another root over as many entries": _same_size,
    "a log made anew, which says that it begins there": _begun_anew,
    "two that both say that they are the first": _two_firsts,
    "a smaller log after a larger one": _shrunk,
    "an earlier time than the one before": _back_in_time,
    "one that names none before it, among those that do": _unlinked,
    "one that another key has signed": _by_a_stranger,
    "one that cannot be read": _unreadable,
    "one that is gone": _one_gone,
}
