"""Reads of notes: only those whose row, words and people are what the ledger recorded are shown."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from audit import actors, canonical, cells, chain, events, statements
from audit.events import Kind
from audit.models import LedgerEntry, Payload
from audit.verification.verify import UNREADABLE
from escalations import note_text
from escalations.contracts import NotePurpose, State
from escalations.models import Note, NoteMention
from escalations.note_text import Piece
from runtime.core.views import labels, query_params
from runtime.registry.queries import people

MOST = 50
PURPOSES: Mapping[str, NotePurpose] = {
    Kind.NOTE_WRITTEN: NotePurpose.NOTE,
    Kind.ESCALATION_TAKEN_OVER: NotePurpose.TAKEOVER,
    Kind.ESCALATION_HANDED_OVER: NotePurpose.HANDOVER,
    Kind.SHIFT_HANDED_OVER: NotePurpose.SHIFT,
}
MOVES = frozenset({Kind.ESCALATION_TAKEN_OVER, Kind.ESCALATION_HANDED_OVER})


@dataclass(frozen=True, slots=True)
class NoteShown:
    """A note as it was recorded. Without `words` it was erased, or `is_untrusted`: not what was recorded."""

    note_id: str
    purpose: NotePurpose
    author: str
    author_pk: int | None
    addressee: str
    addressee_pk: int | None
    at: datetime
    words: Sequence[Piece]
    is_untrusted: bool
    dfid: UUID | None
    escalation_id: UUID | None
    agent_id: str


@dataclass(frozen=True, slots=True)
class NoteList:
    """The newest notes of one stream, the newest first, and whether there are older ones."""

    notes: Sequence[NoteShown]
    more: bool


def list_of_stream(
    *, tenant: str, stream: str, kinds: Iterable[Kind] | None = None, most: int = MOST
) -> NoteList:
    """The newest notes that a stream records."""
    asked = sorted(kinds or PURPOSES)
    entries = _NEWEST.rows(most + 1, tenant=tenant, stream=stream, kinds=asked)
    return NoteList(_shown(tenant, entries[:most]), more=len(entries) > most)


def _newest(size: int, *, tenant: str, stream: str, kinds: list[str]) -> QuerySet[LedgerEntry]:
    rows = LedgerEntry.objects.filter(tenant=tenant, stream=stream, kind__in=kinds)
    return rows.order_by("-seq")[:size]


_NEWEST: Final = statements.Read(_newest)


def get_last_move(*, tenant: str, dfid: UUID, escalation_id: UUID) -> NoteShown | None:
    """The newest takeover or handover of an escalation's claim."""
    found = list_of_stream(tenant=tenant, stream=str(dfid), kinds=MOVES, most=5).notes
    return next((note for note in found if note.escalation_id == escalation_id), None)


def list_mentions(*, tenant: str, user_pk: int, since: datetime, most: int) -> list[NoteShown]:
    """The newest notes that name a person."""
    rows = Note.objects.of(tenant).filter(mentions__user=user_pk, written_at__gte=since)
    return _of_rows(tenant, rows.order_by("-written_at", "-note_id")[:most])


def list_handed_to(*, tenant: str, user_pk: int, most: int) -> list[NoteShown]:
    """What was handed to a person and is still open, the newest first, each escalation once."""
    rows = Note.objects.of(tenant).filter(
        addressee=user_pk, purpose=NotePurpose.HANDOVER, escalation__state=State.OPEN
    )
    found = _of_rows(tenant, rows.order_by("-note_id")[:most])
    newest = {note.escalation_id: note for note in reversed(found)}
    return [note for note in found if newest[note.escalation_id] is note]


def _of_rows(tenant: str, rows: QuerySet[Note]) -> list[NoteShown]:
    """Rows with their entries; a row that no entry records is left out."""
    wanted = {str(row.pk): row for row in rows.select_related("agent")}
    if not wanted:
        return []
    entries = LedgerEntry.objects.filter(
        tenant=tenant,
        stream__in={stream_of(row) for row in wanted.values()},
        kind__in=list(PURPOSES),
        at__gte=min(row.written_at for row in wanted.values()),
    )
    shown = {note.note_id: note for note in _shown(tenant, list(entries))}
    return [shown[pk] for pk in wanted if pk in shown]


def stream_of(row: Note) -> str:
    """The stream whose entry records a note."""
    if row.flow_id is not None:
        return str(row.flow_id)
    return actors.SYSTEM if row.agent is None else actors.agent(row.agent.agent_id)


def _shown(tenant: str, entries: Sequence[LedgerEntry]) -> list[NoteShown]:
    """Entries beside their rows and texts: four queries for any number of them."""
    payloads = [(entry, payload) for entry in entries if (payload := _payload(entry)) is not None]
    if not payloads:
        return []
    ids = [payload["note_id"] for _, payload in payloads]
    rows = {str(row.pk): row for row in Note.objects.of(tenant).filter(pk__in=ids).select_related("agent")}
    mentioned: dict[str, set[str]] = defaultdict(set)
    for note, user in NoteMention.objects.filter(note__in=ids).values_list("note", "user"):
        mentioned[str(note)].add(actors.user(user))
    stored = Payload.objects.filter(commitment__in=[payload["text_commitment"] for _, payload in payloads])
    texts = {row.commitment: row for row in stored}
    who = {entry.actor for entry, _ in payloads}
    for _, payload in payloads:
        who |= {*payload["mentions"], _to(payload)}
    names = people.names_of(who)
    return [
        _read(
            entry,
            payload,
            is_same=_is_same(entry, payload, rows.get(payload["note_id"]), mentioned[payload["note_id"]]),
            stored=texts.get(payload["text_commitment"]),
            names=names,
        )
        for entry, payload in payloads
    ]


def _payload(entry: LedgerEntry) -> dict[str, Any] | None:
    """The payload of an entry of a note; None for one that cannot be read, which proves nothing."""
    try:
        return events.read(entry.kind, entry.payload).payload()
    except UNREADABLE:
        return None


def _to(payload: Mapping[str, Any]) -> str:
    return str(payload.get("former") or payload.get("receiver") or "")


def _is_same(entry: LedgerEntry, payload: Mapping[str, Any], row: Note | None, mentioned: set[str]) -> bool:
    """Whether a note's row is the one that its entry records."""
    return row is not None and (
        row.purpose,
        actors.user(row.author_id),
        "" if row.addressee_id is None else actors.user(row.addressee_id),
        row.commitment,
        stream_of(row),
        None if row.escalation_id is None else str(row.escalation_id),
        mentioned,
    ) == (
        PURPOSES[entry.kind],
        entry.actor,
        _to(payload),
        payload["text_commitment"],
        entry.stream,
        payload.get("escalation_id"),
        set(payload["mentions"]),
    )


def _read(
    entry: LedgerEntry,
    payload: Mapping[str, Any],
    *,
    is_same: bool,
    stored: Payload | None,
    names: Mapping[str, str],
) -> NoteShown:
    to = _to(payload)
    is_erased = stored is not None and stored.salt is None and stored.content is None
    text = _text(payload["text_commitment"], stored) if is_same and stored is not None else None
    linked = {names[actor] for actor in payload["mentions"] if actor in names}
    return NoteShown(
        note_id=payload["note_id"],
        purpose=PURPOSES[entry.kind],
        author=labels.actor_words(entry.actor, names),
        author_pk=_pk(entry.actor),
        addressee=labels.actor_words(to, names) if to else "",
        addressee_pk=_pk(to),
        at=entry.at,
        words=[] if text is None else list(note_text.pieces(labels.visible_lines(text), linked)),
        is_untrusted=not is_same or (text is None and not is_erased),
        dfid=query_params.uuid(entry.stream),
        escalation_id=query_params.uuid(payload.get("escalation_id") or ""),
        agent_id=entry.stream.removeprefix(actors.AGENT) if entry.stream.startswith(actors.AGENT) else "",
    )


def _pk(actor: str) -> int | None:
    return query_params.whole(actor.removeprefix(actors.USER))


def _text(commitment: str, stored: Payload) -> str | None:
    salted, held = cells.bytes_of(stored.salt), cells.bytes_of(stored.body)
    if salted is None or held is None or chain.commitment(salted, held) != commitment:
        return None
    try:
        text = canonical.decode(held)
    except UNREADABLE:
        return None
    return text if isinstance(text, str) else None
