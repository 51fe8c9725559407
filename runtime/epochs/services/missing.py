"""What a restored database lacks: the entry that the mark names, checkpoints that witnesses hold, or both."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from audit import canonical
from runtime.epochs.services import marks
from runtime.epochs.services.marks import Mark


@dataclass(frozen=True, kw_only=True)
class MissingCheckpoint:
    """A checkpoint of this ledger that a witness holds, and that the database does not begin with.

    `time` as the checkpoint states it, `root` in hexadecimal; `epoch` is the one in which it was sent.
    """

    witness: str
    epoch: int
    size: int
    root: str
    time: str

    def words(self) -> str:
        """A sentence for people."""
        return (
            f"The witness {self.witness} holds a checkpoint over {self.size} entries, signed {self.time}, "
            "which this database does not begin with."
        )


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Why a database counts as restored. At least one of both is there."""

    mark: Mark | None
    checkpoints: tuple[MissingCheckpoint, ...] = ()

    @classmethod
    def from_bytes(cls, stored: bytes) -> "Missing":
        """Read what an epoch keeps."""
        found: Mapping[str, Any] = canonical.decode(stored)
        kept = {name: found[name] for name in ("database_id", "epoch", "entry_id", "hash") if name in found}
        checkpoints = tuple(MissingCheckpoint(**each) for each in found.get("checkpoints", ()))
        return cls(mark=Mark(**kept) if kept else None, checkpoints=checkpoints)

    def to_json(self) -> dict[str, Any]:
        """The members of the mark, as ever, and `checkpoints` where there are any."""
        found: dict[str, Any] = {} if self.mark is None else asdict(self.mark)
        return found | (
            {"checkpoints": [asdict(each) for each in self.checkpoints]} if self.checkpoints else {}
        )

    def to_bytes(self) -> bytes:
        """Canonical JSON: what an epoch keeps."""
        return canonical.encode(self.to_json())

    @property
    def epoch(self) -> int:
        """The latest epoch that the lost time is known to have reached."""
        return max([0 if self.mark is None else self.mark.epoch, *(each.epoch for each in self.checkpoints)])

    @property
    def entry_id(self) -> int:
        """The entry that the mark names; 0 without a mark."""
        return 0 if self.mark is None else self.mark.entry_id

    @property
    def hash(self) -> str:
        """The hash of that entry in hexadecimal; empty without a mark, or where it cannot be read."""
        return "" if self.mark is None else self.mark.hash

    def is_answered(self, *, epoch: int) -> bool:
        """Whether an admin began the current epoch, `epoch`, knowing all of it."""
        is_mark_answered = self.mark is None or marks.is_answered(self.mark)
        return is_mark_answered and all(each.epoch < epoch for each in self.checkpoints)

    def words(self) -> str:
        """Sentences for people."""
        found = [each.words() for each in self.checkpoints]
        if self.mark is not None:
            found.insert(
                0,
                f"The mark names entry {self.mark.entry_id} with the hash "
                f"{self.mark.hash or '(unreadable)'}, which is missing from this database.",
            )
        return " ".join(found)
