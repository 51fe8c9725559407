"""The stored forms of the ledger."""

from audit.models.entries import LedgerEntry, StreamHead
from audit.models.feedback import RecordFeedback
from audit.models.payloads import ClassKey, KeyState, Payload
from audit.models.records import DecisionRecord, RecordTerm
from audit.models.tree import Checkpoint, HeadPage, Leaf, Tile, Tree, UnsealedEntry
from audit.models.witnesses import WitnessState

__all__ = [
    "Checkpoint",
    "ClassKey",
    "DecisionRecord",
    "HeadPage",
    "KeyState",
    "Leaf",
    "LedgerEntry",
    "Payload",
    "RecordFeedback",
    "RecordTerm",
    "StreamHead",
    "Tile",
    "Tree",
    "UnsealedEntry",
    "WitnessState",
]
