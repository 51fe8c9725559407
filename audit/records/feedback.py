"""Reads of feedback on decision records: by its entries, each compared with its row."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from audit import canonical, cells, chain
from audit.assessments import Assessment
from audit.events import Kind
from audit.models import LedgerEntry, Payload, RecordFeedback
from audit.records.queries import Record
from audit.verification.verify import UNREADABLE


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackShown:
    """One piece of feedback as it was recorded.

    `reason` is None where it was erased, or cannot be shown; `counts` is whether nothing newer of its author
    takes its place; `is_untrusted`: its row, or its reason, is not what the ledger recorded.
    """

    feedback_id: str
    author: str
    at: datetime
    assessment: str
    correction: str
    reason: str | None
    has_decided: bool
    counts: bool
    is_untrusted: bool
    entry: int

    def plain(self) -> dict[str, Any]:
        """The same as the audit API answers it."""
        return {
            "feedback_id": self.feedback_id,
            "author": self.author,
            "at": chain.time_text(self.at),
            "assessment": self.assessment,
            "correction": self.correction,
            "reason": self.reason,
            "has_decided": self.has_decided,
            "counts": self.counts,
            "entry": self.entry,
            "mismatch": self.is_untrusted,
        }


def list_of_record(*, tenant: str, record: Record) -> list[FeedbackShown]:
    """What people said of a record, the newest first: three queries for any number."""
    entries = LedgerEntry.objects.filter(
        tenant=tenant, stream=record.dfid, kind=Kind.RECORD_FEEDBACK_GIVEN
    ).order_by("-seq")
    said = [(entry, payload) for entry in entries if (payload := _payload(entry, record.record_id))]
    if not said:
        return []
    rows = {str(row.feedback_id): row for row in RecordFeedback.objects.filter(record=record.pk)}
    commitments = {payload["reason_commitment"] for _, payload in said} - {None}
    texts = {row.commitment: row for row in Payload.objects.filter(commitment__in=commitments)}
    seen = set[str]()
    shown = []
    for entry, payload in said:
        shown.append(_shown(entry, payload, rows.get(payload["feedback_id"]), texts, entry.actor not in seen))
        seen.add(entry.actor)
    return shown


def list_against(*, tenant: str, flows: Collection[str]) -> Mapping[str, Sequence[Assessment]]:
    """What people's newest feedback says of the records of these flows, by flow; from the entries alone."""
    newest: dict[tuple[str, str, str], Assessment] = {}
    entries = LedgerEntry.objects.filter(
        tenant=tenant, stream__in=list(flows), kind=Kind.RECORD_FEEDBACK_GIVEN
    ).order_by("stream", "seq")
    for entry in entries:
        payload = _payload(entry, "")
        if payload is not None:
            newest[entry.stream, payload["record_id"], entry.actor] = Assessment(payload["assessment"])
    found: dict[str, list[Assessment]] = {}
    for (stream, _, _), assessment in newest.items():
        found.setdefault(stream, []).append(assessment)
    return found


def _payload(entry: LedgerEntry, record_id: str) -> dict[str, Any] | None:
    """What an entry says, if it is about the record ("" for any); None for one that cannot be read."""
    try:
        payload: dict[str, Any] = entry.payload
        Assessment(payload["assessment"])
        return payload if record_id in ("", payload["record_id"]) else None
    except UNREADABLE:
        return None


def _shown(
    entry: LedgerEntry,
    payload: Mapping[str, Any],
    row: RecordFeedback | None,
    texts: Mapping[str, Payload],
    counts: bool,
) -> FeedbackShown:
    commitment = payload["reason_commitment"] or ""
    stored = texts.get(commitment)
    is_erased = stored is not None and stored.content is None and stored.salt is None
    reason = "" if not commitment else _text(commitment, stored)
    return FeedbackShown(
        feedback_id=payload["feedback_id"],
        author=entry.actor,
        at=entry.at,
        assessment=payload["assessment"],
        correction=payload["correction"],
        reason=reason,
        has_decided=payload["has_decided"],
        counts=counts,
        is_untrusted=not _is_same(entry, payload, row) or (reason is None and not is_erased),
        entry=entry.seq,
    )


def _is_same(entry: LedgerEntry, payload: Mapping[str, Any], row: RecordFeedback | None) -> bool:
    return row is not None and columns_of(payload, actor=entry.actor, dfid=UUID(entry.stream)) == {
        name: getattr(row, name) for name in COLUMNS
    }


COLUMNS = (
    "feedback_id",
    "record_id",
    "dfid",
    "author",
    "number",
    "assessment",
    "correction",
    "commitment",
    "has_decided",
)


def columns_of(payload: Mapping[str, Any], *, actor: str, dfid: UUID) -> dict[str, Any]:
    """What the row of an entry has in `COLUMNS`."""
    return {
        "feedback_id": UUID(payload["feedback_id"]),
        "record_id": payload["record_id"],
        "dfid": dfid,
        "author": actor,
        "number": payload["number"],
        "assessment": payload["assessment"],
        "correction": payload["correction"],
        "commitment": payload["reason_commitment"] or "",
        "has_decided": payload["has_decided"],
    }


def _text(commitment: str, stored: Payload | None) -> str | None:
    """The words behind a commitment; None where they were erased or are not those."""
    salt, body = (
        (None, None) if stored is None else (cells.bytes_of(stored.salt), cells.bytes_of(stored.body))
    )
    if salt is None or body is None or chain.commitment(salt, body) != commitment:
        return None
    try:
        text = canonical.decode(body)
    except UNREADABLE:
        return None
    return text if isinstance(text, str) else None
