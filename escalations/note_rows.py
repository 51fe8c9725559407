"""The rows of notes against their entries, for `verify_ledger`; their texts are payloads of the ledger."""

from collections import defaultdict
from collections.abc import Callable, Mapping

from audit import actors
from audit.events import Kind
from audit.verification.row_checks import Entry, Found, LastingRows
from escalations import note_list
from escalations.models import Note, NoteMention


class NoteRowCheck(LastingRows):
    """Notes, and the people whom they name."""

    kinds = frozenset(Kind(kind) for kind in note_list.PURPOSES)

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def take(self, entry: Entry) -> None:
        """Keep the entry: people write notes by hand, so they are few."""
        self._entries.append(entry)

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """Both tables."""
        return {"notes": self._notes, "mentions": self._mentions}

    def _notes(self, found: Found) -> None:
        rows = {str(row.pk): row for row in Note.objects.select_related("agent")}
        for entry, row in found.rows_of(
            self._entries, rows, lambda payload: payload["note_id"], "note {note_id}"
        ):
            payload = entry.payload
            to = payload.get("former") or payload.get("receiver")
            found.same(entry, "note.tenant", entry.tenant, row.tenant)
            found.same(entry, "note.purpose", note_list.PURPOSES[entry.kind], row.purpose)
            # Of what it is about: a flow and an agent have their own streams.
            found.same(entry, "note.stream", entry.stream, note_list.stream_of(row))
            found.same(
                entry,
                "note.escalation",
                payload.get("escalation_id"),
                None if row.escalation_id is None else str(row.escalation_id),
            )
            found.same(entry, "note.author", entry.actor, actors.user(row.author_id))
            addressee = None if row.addressee_id is None else actors.user(row.addressee_id)
            found.same(entry, "note.addressee", to, addressee)
            found.same(entry, "note.commitment", payload["text_commitment"], row.commitment)
            found.by_then(entry, entry, "note.written_at", row.written_at)
        for left in rows.values():
            found.without_entry(left.tenant, note_list.stream_of(left), f"note {left.pk}")

    def _mentions(self, found: Found) -> None:
        named: dict[str, set[str]] = defaultdict(set)
        for note, user in NoteMention.objects.values_list("note", "user"):
            named[str(note)].add(actors.user(user))
        for entry in self._entries:
            recorded = sorted(entry.payload.get("mentions", ()))
            stored = sorted(named.pop(entry.payload["note_id"], ()))
            found.same(entry, "note.mentions", recorded, stored)
        for left in named:
            found.without_entry("", actors.SYSTEM, f"a mention in note {left}")
