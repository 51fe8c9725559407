"""Rows that hold signed statements: what all checks of them say of keys that are not held here."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Self

from audit.verification import row_checks
from audit.verification.row_checks import Found


class SignedRows(row_checks.FlowRows):
    """A check of rows with signatures; `one` and `several` name what is signed."""

    one, several = "signed statement", "signed statements"

    def __init__(self) -> None:
        super().__init__()
        self._unknown: dict[str, set[tuple[str, int]]] = defaultdict(set)

    @property
    def not_verified(self) -> Sequence[str]:
        """Signatures by keys that are not held here: one before the last change of DIR_SIGNING_KEY."""
        return tuple(
            f"{len(entries)} {self.one if len(entries) == 1 else self.several}, key {key_id} unknown here"
            for key_id, entries in sorted(self._unknown.items())
        )

    def absorb(self, other: Self) -> None:
        """Take over the statements whose key is unknown."""
        for key_id, entries in other._unknown.items():
            self._unknown[key_id] |= entries

    def note_unknown_keys(self, found: Found) -> None:
        """Keep the statements of some flows whose key is unknown."""
        for key_id, entries in found.unknown_keys.items():
            self._unknown[key_id] |= entries
