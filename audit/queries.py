"""Reads of the ledger: entries by their kinds, and texts by their commitments."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from django.db.models import QuerySet

from audit import canonical, cells, chain, statements
from audit.events import Kind
from audit.models import LedgerEntry, Payload


def list_payloads(*, tenant: str, stream: str, kinds: Collection[Kind]) -> list[tuple[Kind, dict[str, Any]]]:
    """Kind and payload of the entries of these kinds in one stream, oldest first.

    For comparisons with rows: an entry that cannot be read proves nothing, so it is left out.
    """
    rows = _OF_STREAM.rows(tenant=tenant, stream=stream, kinds=sorted(kinds))
    return [(kind, body["payload"]) for kind, body in _decoded(rows)]


def last_payload(*, tenant: str, stream: str, kinds: Collection[Kind]) -> dict[str, Any] | None:
    """The payload of the last entry of these kinds in a stream; None without one, or if it cannot be read."""
    rows = _of_stream(tenant, stream, kinds).order_by("-seq").values_list("id", "kind", "body")
    return next((body["payload"] for _, body in _decoded(rows[:1])), None)


def payload_at(*, tenant: str, stream: str, seq: int) -> dict[str, Any] | None:
    """The payload of one entry; None without one, or if it cannot be read."""
    return payloads_at(tenant=tenant, stream=stream, seqs=[seq]).get(seq)


def payloads_at(*, tenant: str, stream: str, seqs: Collection[int]) -> dict[int, dict[str, Any]]:
    """The payloads of entries of one stream by number; those missing or unreadable are left out."""
    rows = LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq__in=set(seqs)).order_by()
    read = _decoded(rows.values_list("id", "kind", "body"))
    return {body["seq"]: body["payload"] for _, body in read}


def list_payloads_of_streams(
    *, tenant: str, streams: Collection[str], kinds: Collection[Kind]
) -> list[tuple[Kind, dict[str, Any]]]:
    """The same for several streams, in one query."""
    if not streams:
        return []
    rows = _OF_STREAMS.rows(tenant=tenant, streams=sorted(streams), kinds=sorted(kinds))
    return [(kind, body["payload"]) for kind, body in _decoded(rows)]


def list_payloads_of_kind(*, tenant: str, kind: Kind) -> list[tuple[Kind, dict[str, Any]]]:
    """The same for the entries of one kind in all streams."""
    return readable(LedgerEntry.objects.filter(tenant=tenant, kind=kind))


def list_payloads_and_of_kind(
    *, tenant: str, stream: str, kinds: Collection[Kind], kind: Kind
) -> list[tuple[Kind, dict[str, Any]]]:
    """`list_payloads` and `list_payloads_of_kind` in one query.

    A union, since each half has its index; one condition of both would read every entry of the tenant.
    """
    rows = _OF_STREAM_AND_KIND.rows(tenant=tenant, stream=stream, kinds=sorted(kinds), kind=kind)
    return [(kind, body["payload"]) for kind, body in _decoded(rows)]


def _of_stream(tenant: str, stream: str, kinds: Collection[str]) -> QuerySet[LedgerEntry]:
    return LedgerEntry.objects.filter(tenant=tenant, stream=stream, kind__in=list(kinds))


def _stored_of_stream(
    *, tenant: str, stream: str, kinds: list[str]
) -> QuerySet[LedgerEntry, tuple[int, str, Any]]:
    return _of_stream(tenant, stream, kinds).order_by().values_list("id", "kind", "body")


def _stored_of_streams(
    *, tenant: str, streams: list[str], kinds: list[str]
) -> QuerySet[LedgerEntry, tuple[int, str, Any]]:
    rows = LedgerEntry.objects.filter(tenant=tenant, stream__in=streams, kind__in=kinds)
    return rows.order_by().values_list("id", "kind", "body")


def _stored_of_stream_and_kind(
    *, tenant: str, stream: str, kinds: list[str], kind: str
) -> QuerySet[LedgerEntry, tuple[int, str, Any]]:
    of_stream = _stored_of_stream(tenant=tenant, stream=stream, kinds=kinds)
    of_kind = LedgerEntry.objects.filter(tenant=tenant, kind=kind).order_by()
    return of_stream.union(of_kind.values_list("id", "kind", "body"), all=True)


_OF_STREAM: Final = statements.Read(_stored_of_stream)
_OF_STREAMS: Final = statements.Read(_stored_of_streams)
_OF_STREAM_AND_KIND: Final = statements.Read(_stored_of_stream_and_kind)


def list_dated(
    *, tenant: str, stream: str, kinds: Collection[Kind]
) -> list[tuple[Kind, datetime, dict[str, Any]]]:
    """`list_payloads`, each with the time of its entry."""
    rows = _OF_STREAM.rows(tenant=tenant, stream=stream, kinds=sorted(kinds))
    return [(kind, at, body["payload"]) for kind, at, body in _dated(_decoded(rows))]


def list_dated_by_stream(
    *, tenant: str, streams: Collection[str], kinds: Collection[Kind]
) -> dict[str, list[tuple[Kind, datetime, dict[str, Any]]]]:
    """`list_dated` for several streams, in one query; a stream without such entries is left out."""
    rows = LedgerEntry.objects.filter(tenant=tenant, stream__in=list(streams), kind__in=list(kinds))
    found: dict[str, list[tuple[Kind, datetime, dict[str, Any]]]] = defaultdict(list)
    for kind, at, body in _dated(_bodies(rows)):
        # By the stream that the bytes name: the column beside them may have been changed.
        if isinstance(stream := body.get("stream"), str):
            found[stream].append((kind, at, body["payload"]))
    return found


def list_acts(*, tenant: str, stream: str, kinds: Collection[Kind]) -> list[tuple[str, dict[str, Any]]]:
    """Who did it and the payload of the entries of these kinds in one stream, oldest first."""
    rows = _bodies(_of_stream(tenant, stream, kinds))
    return [(str(body.get("actor", "")), body["payload"]) for _, body in rows]


def list_acts_of_kind(*, tenant: str, kind: Kind) -> list[tuple[datetime, str, dict[str, Any]]]:
    """When, who and the payload of the entries of one kind in all streams, oldest first."""
    rows = LedgerEntry.objects.filter(tenant=tenant, kind=kind).order_by()
    return [(at, str(body.get("actor", "")), body["payload"]) for _, at, body in _dated(_bodies(rows))]


def readable(rows: QuerySet[LedgerEntry]) -> list[tuple[Kind, dict[str, Any]]]:
    """Kind and payload of the entries whose bytes can be read, oldest first.

    Ordered here: they are few, and a database that was asked for the order may read the whole ledger in it.
    """
    return [(kind, body["payload"]) for kind, body in _bodies(rows)]


def _bodies(rows: QuerySet[LedgerEntry]) -> Iterator[tuple[Kind, dict[str, Any]]]:
    return _decoded(rows.order_by().values_list("id", "kind", "body"))


def _decoded(rows: Iterable[tuple[int, str, Any]]) -> Iterator[tuple[Kind, dict[str, Any]]]:
    for _, kind, stored in sorted(rows):
        try:
            body = canonical.decode(bytes(stored))
            payload = body["payload"]
        except (canonical.CanonicalError, KeyError, TypeError):
            continue
        if isinstance(payload, dict):
            yield Kind(kind), body


def _dated(
    bodies: Iterable[tuple[Kind, dict[str, Any]]],
) -> Iterator[tuple[Kind, datetime, dict[str, Any]]]:
    for kind, body in bodies:
        try:
            at = datetime.fromisoformat(body["at"])
        except (KeyError, TypeError, ValueError):
            continue
        yield kind, at, body


def is_committed(*, tenant: str, commitment: str, body: object) -> bool:
    """Whether a cell holds the bytes behind a commitment; where they were erased, nobody can say: True."""
    row = _SALT.first(tenant=tenant, commitment=commitment)
    held = cells.bytes_of(body)
    if row is None or held is None:
        return False
    (salt,) = row
    return salt is None or chain.commitment(bytes(salt), held) == commitment


def _salt(*, tenant: str, commitment: str) -> QuerySet[Payload, tuple[Any]]:
    rows = Payload.objects.filter(tenant=tenant, commitment=commitment).order_by("pk")
    return rows.values_list("salt")[:1]


_SALT: Final = statements.Read(_salt)


def list_texts(*, tenant: str, commitments: Collection[str]) -> dict[str, str]:
    """The texts behind commitments; one that is unknown here, was erased or is no text is left out."""
    rows = Payload.objects.filter(tenant=tenant, commitment__in=list(commitments), content__isnull=False)
    found: dict[str, str] = {}
    for row in rows:
        try:
            text = canonical.decode(bytes(row.body or b""))
        except ValueError:
            continue
        if isinstance(text, str):
            found[row.commitment] = text
    return found


def list_bodies(*, tenant: str, commitments: Collection[str]) -> dict[str, bytes | None]:
    """The bytes behind commitments; one that is unknown here is left out.

    Empty where they were erased, None where what is stored is not what was committed to.
    """
    rows = Payload.objects.filter(tenant=tenant, commitment__in=list(commitments))
    return {row.commitment: _body_of(row) for row in rows}


def _body_of(row: Payload) -> bytes | None:
    if row.erased_at is not None and row.content is None:
        return b""
    salt, body = cells.bytes_of(row.salt), cells.bytes_of(row.body)
    if salt is None or body is None:
        return None
    return body if chain.commitment(salt, body) == row.commitment else None
