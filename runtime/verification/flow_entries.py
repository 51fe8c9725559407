"""The entries of some flows at once, as the checks of their rows read them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from audit import cells, chain
from audit.events import Kind
from audit.models import Payload
from audit.verification.row_checks import Entry, Found

Entries = Sequence[Entry]


class Payloads:
    """The salts behind the commitments of some flows: a cell is compared through them."""

    def __init__(self, flows: Mapping[UUID, Entries]) -> None:
        wanted = {
            value
            for entries in flows.values()
            for entry in entries
            for name, value in entry.payload.items()
            if name.endswith("_commitment") and value
        }
        rows = Payload.objects.filter(commitment__in=wanted).values_list("commitment", "salt")
        self._salts = dict(rows)

    def compare(self, found: Found, entry: Entry, what: str, name: str, cell: object) -> None:
        """Compare a cell with a commitment of an entry; an erased one can no longer be compared."""
        if not entry.payload.get(name):
            found.same(entry, what, None, cell)
        elif self.is_other(entry, name, cell):
            found.same(entry, what, "the committed content", "other content")

    def is_other(self, entry: Entry, name: str, cell: object) -> bool:
        """Whether a cell is not what an entry commits to; of what was erased nobody can say so."""
        commitment = entry.payload[name]
        salt, body = cells.bytes_of(self._salts.get(commitment)), cells.bytes_of(cell)
        return salt is not None and (body is None or chain.commitment(salt, body) != commitment)


def of_kind(flows: Mapping[UUID, Entries], *kinds: Kind) -> Iterable[tuple[UUID, Entry]]:
    for dfid, entries in flows.items():
        for entry in entries:
            if entry.kind in kinds:
                yield dfid, entry


def entries_of(flows: Mapping[UUID, Entries], *kinds: Kind) -> Iterator[Entry]:
    return (entry for _, entry in of_kind(flows, *kinds))


def note_extra(
    found: Found, flows: Mapping[UUID, Entries], rows: Iterable[tuple[UUID, object]], what: str
) -> None:
    """Rows of these flows that no entry was about."""
    for dfid, name in rows:
        tenant = flows[dfid][0].tenant if flows[dfid] else ""
        found.without_entry(tenant, str(dfid), f"the {what} {name}")
