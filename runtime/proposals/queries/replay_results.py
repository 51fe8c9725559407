"""What a replay answers: equal, the first difference with both values, or why it cannot be told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID


class Change(StrEnum):
    """What was changed since it was recorded."""

    EVIDENCE = "changed_evidence"
    POLICY = "changed_policy"
    TRANSCRIPT = "changed_transcript"
    CONTEXT = "changed_context"
    SCORECARD = "changed_scorecard"
    TAMPERED = "tamper_detected"


@dataclass(frozen=True, kw_only=True)
class ReplayEqual:
    """Every verdict comes out as it was stored, and every row is what its entries recorded.

    `not_verified` is what could not be checked here, such as a signature by a key that is not held.
    """

    dfid: UUID
    verdicts: int
    checked: Mapping[str, int]
    not_verified: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """The answer as it is sent."""
        told = {"not_verified": list(self.not_verified)} if self.not_verified else {}
        return {
            "result": "replay_equal",
            "dfid": str(self.dfid),
            "verdicts": self.verdicts,
            "checked": dict(self.checked),
            **told,
        }


@dataclass(frozen=True, kw_only=True)
class ReplayDifference:
    """The first difference: the place, and the value there as it was recorded and as it is found.

    `row` is table and column, `row_id` names the row; `seq` is the entry that recorded it, 0 without one.
    """

    dfid: UUID
    change: Change
    path: str
    recorded: Any
    found: Any
    seq: int
    row: str
    row_id: str = ""
    proposal_id: str | None = None

    def plain(self) -> dict[str, Any]:
        """The answer as it is sent."""
        return {
            "result": "difference",
            "class": self.change.value,
            "path": self.path,
            "recorded": self.recorded,
            "found": self.found,
            "dfid": str(self.dfid),
            "stream": str(self.dfid),
            "seq": self.seq,
            "row": self.row,
            "row_id": self.row_id,
            "proposal_id": self.proposal_id,
        }


@dataclass(frozen=True, kw_only=True)
class NotReplayable:
    """Nothing differs, but words were erased, so that not everything can be compared any more.

    `erased` are the fields that committed to them, each with the number of its entry.
    """

    dfid: UUID
    erased: tuple[tuple[int, str], ...] = field(default=())

    def plain(self) -> dict[str, Any]:
        """The answer as it is sent."""
        return {
            "result": "not_replayable",
            "why": "erased",
            "dfid": str(self.dfid),
            "erased": [{"seq": seq, "field": name} for seq, name in self.erased],
        }


ReplayResult = ReplayEqual | ReplayDifference | NotReplayable
