"""The last entry about each subject, held while the ledger is walked and compared with its row at the end."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from audit import actors
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found

Name = tuple[str, ...]
# By kind of entry: under which word it is kept, and which fields name its subject.
Subjects = Mapping[Kind, Sequence[tuple[str, Name]]]


class LastEntryRows(row_checks.LastingRows):
    """The base of checks on rows of which the last entry records the current state."""

    kept_by: ClassVar[Subjects]

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, Name], Entry] = {}

    def take(self, entry: Entry) -> None:
        """Keep the last entry about each subject."""
        for word, fields in self.kept_by[Kind(entry.kind)]:
            name = tuple(str(entry.payload[field]) for field in fields)
            self.keep(word, name, entry)

    def keep(self, word: str, name: Name, entry: Entry) -> None:
        """Keep an entry under a word and a name, where no later one is held."""
        place = (entry.tenant, word, name)
        held = self._last.get(place)
        if held is None or _is_later(entry, held):
            self._last[place] = entry

    def of(self, word: str) -> dict[tuple[str, Name], Entry]:
        """The entries kept under a word, by tenant and name."""
        return {(tenant, name): entry for (tenant, held, name), entry in self._last.items() if held == word}

    def rows(
        self, found: Found, word: str, rows: Iterable[tuple[str, Name, Any]], *, stream: str = actors.SYSTEM
    ) -> Iterator[tuple[Entry, Any]]:
        """Each row with the entry about it; a row or an entry alone is a finding."""
        entries = self.of(word)
        for tenant, name, row in rows:
            entry = entries.pop((tenant, name), None)
            if entry is None:
                found.without_entry(tenant, stream, f"the {word} {' '.join(name)}")
            else:
                yield entry, row
        for (_, name), entry in entries.items():
            found.missing(entry, f"the {word} {' '.join(name)}")


def _is_later(entry: Entry, held: Entry) -> bool:
    if entry.stream == held.stream:
        return entry.seq >= held.seq
    return (entry.at, entry.stream) >= (held.at, held.stream)
