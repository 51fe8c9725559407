"""The check of the whole ledger: stored bytes, chains, the ends of the chains, and payloads.

What it shows: no entry was changed, moved, inserted or removed, and no stream was cut, unless its stored
head was cut with it. What it cannot show: a rewrite of everything by the owner of the database.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TextIO

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils.module_loading import import_string

from audit import actors, cells, chain
from audit.chain import BreakKind, ChainBreak, ChainVerifier, LedgerRow
from audit.models import LedgerEntry, Payload, StreamHead
from audit.payload_cipher import State

FLOW_HEADS_SETTING = "DIR_HEADS"
# What reading and comparing cells raises where one holds what no service writes there.
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError)
_CHUNK = 2000

# Number and hash may be of any type: SQLite takes every value in every column.
StoredHeads = Iterable[tuple[str, str, Any, Any]]


@dataclass(frozen=True, slots=True)
class Whole:
    """Nothing bad was found; how much was looked at."""

    entries: int
    streams: int
    heads: int
    payloads: int


class ExportError(ValueError):
    """A line of an export cannot be read."""


def verify_database() -> Whole | ChainBreak:
    """Check the ledger of this database, beside a running server; the first Break, or Whole."""
    with reading():
        walked = chain.verify(rows(LedgerEntry.objects.order_by("tenant", "stream", "seq")))
    if isinstance(walked, ChainBreak):
        return walked
    # Heads are read after the entries: an honest one can only be ahead, never behind.
    providers = [import_string(path) for path in getattr(settings, FLOW_HEADS_SETTING, ())]
    heads = _check_heads(walked, _all_heads(providers), complete=bool(providers), catch_up=_entries_since)
    if isinstance(heads, ChainBreak):
        return heads
    payloads = _check_payloads()
    if isinstance(payloads, ChainBreak):
        return payloads
    return Whole(entries=walked.entries, streams=len(walked.heads), heads=heads, payloads=payloads)


def verify_export(lines: TextIO) -> Whole | ChainBreak:
    """Check an export made by `export_lines`; raises ExportError for a line that is none."""
    heads: list[tuple[str, str, int, bytes]] = []
    walked = chain.verify(_exported_rows(lines, heads))
    if isinstance(walked, ChainBreak):
        return walked
    checked = _check_heads(walked, heads, complete=True, catch_up=None)
    if isinstance(checked, ChainBreak):
        return checked
    return Whole(entries=walked.entries, streams=len(walked.heads), heads=checked, payloads=0)


def export_lines(*, stream: str | None = None) -> Iterator[str]:
    """The ledger, or one stream of it, as JSON Lines: entries in order, then the head of each stream.

    `body` is base64 of the stored bytes, hashes are hexadecimal. Payloads are not part of an export.
    """
    entries = LedgerEntry.objects.order_by("tenant", "stream", "seq")
    if stream is not None:
        entries = entries.filter(stream=stream)
    last: LedgerRow | None = None
    with reading():
        ends: list[LedgerRow] = []
        for row in rows(entries):
            if last is not None and (last.tenant, last.stream) != (row.tenant, row.stream):
                ends.append(last)
            last = row
            entry = {
                "type": "entry",
                **row.columns(),
                "body": base64.b64encode(row.body).decode(),
                "prev_hash": row.prev_hash.hex(),
                "hash": row.hash.hex(),
            }
            yield json.dumps(entry, ensure_ascii=False)
    for end in [*ends, *([] if last is None else [last])]:
        yield json.dumps(
            {
                "type": "head",
                "tenant": end.tenant,
                "stream": end.stream,
                "seq": end.seq,
                "hash": end.hash.hex(),
            },
            ensure_ascii=False,
        )


@dataclass(frozen=True, slots=True)
class Heads:
    """How many stored ends of streams were compared, and every one that is wrong."""

    count: int
    breaks: tuple[ChainBreak, ...]


def check_all_heads(walk: ChainVerifier) -> Heads:
    """Compare every stored head with the end of its stream; each stream must have one."""
    providers = [import_string(path) for path in getattr(settings, FLOW_HEADS_SETTING, ())]
    breaks: list[ChainBreak] = []
    seen: set[tuple[str, str]] = set()
    try:
        for tenant, stream, seq, head_hash in _all_heads(providers):
            seen.add((tenant, stream))
            found = _check_head(walk, tenant, stream, seq, head_hash, catch_up=_entries_since)
            breaks += [] if found is None else [found]
    except UNREADABLE as error:
        # The heads after this one were not checked, so none of them is reported as missing.
        detail = f"a stored head cannot be read ({type(error).__name__})"
        return Heads(len(seen), (*breaks, ChainBreak("", actors.SYSTEM, 0, BreakKind.UNREADABLE, detail)))
    for tenant, stream in sorted(walk.heads.keys() - seen if providers else ()):
        breaks.append(_head_missing(walk, tenant, stream))
    return Heads(len(seen), tuple(breaks))


def stored_heads() -> Iterator[tuple[str, str, int, bytes]]:
    """The stored ends of all streams: tenant, stream, number, hash; one that cannot be read is left out."""
    providers = [import_string(path) for path in getattr(settings, FLOW_HEADS_SETTING, ())]
    with reading():
        for tenant, stream, seq, head_hash in _all_heads(providers):
            held = cells.bytes_of(head_hash)
            if isinstance(seq, int) and held is not None:
                yield tenant, stream, seq, held


def reading() -> AbstractContextManager[Any]:
    """What a long read needs: a transaction on PostgreSQL, none on SQLite."""
    # PostgreSQL streams a cursor inside a transaction only; on SQLite one would stop every writer.
    return transaction.atomic() if connection.vendor == "postgresql" else nullcontext()


@contextmanager
def snapshot(*, lent: str = "") -> Iterator[None]:
    """Every read inside sees one state of the database, while others write; inside, nothing can be written.

    A row and its entry are written in one transaction, so in one state they agree: whatever differs was not
    written by this product. Texts that are no UTF-8 are read too. A caller's own transaction stays as it is.
    `lent` is the name of a snapshot of another connection (PostgreSQL): the same state.
    """
    with _odd_texts():
        if connection.in_atomic_block:
            yield
        elif connection.vendor == "postgresql":
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                # It holds up nobody, and reads for as long as there is something to read.
                cursor.execute("SET LOCAL statement_timeout = 0")
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                if lent:
                    cursor.execute("SET TRANSACTION SNAPSHOT %s", [lent])
                yield
        else:
            # Not `atomic`, which is IMMEDIATE here and would keep every writer waiting.
            with connection.cursor() as cursor:
                cursor.execute("BEGIN DEFERRED")
                try:
                    yield
                finally:
                    cursor.execute("ROLLBACK")


@contextmanager
def _odd_texts() -> Iterator[None]:
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    raw = connection.connection
    before, raw.text_factory = raw.text_factory, lambda cell: cell.decode(errors="replace")
    try:
        yield
    finally:
        raw.text_factory = before


def rows(entries: QuerySet[LedgerEntry]) -> Iterator[LedgerRow]:
    """Entries as rows of the chain, read in chunks."""
    columns = entries.values_list(
        "tenant", "stream", "seq", "kind", "at", "actor", "body", "prev_hash", "hash"
    )
    for tenant, stream, seq, kind, at, actor, body, prev_hash, entry_hash in columns.iterator(
        chunk_size=_CHUNK
    ):
        yield LedgerRow(
            tenant, stream, seq, kind, at, actor, bytes(body), bytes(prev_hash), bytes(entry_hash)
        )


def _entries_since(tenant: str, stream: str, after_seq: int, up_to_seq: int) -> Iterator[LedgerRow]:
    entries = LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq__gt=after_seq, seq__lte=up_to_seq)
    return rows(entries.order_by("seq"))


def _all_heads(providers: Iterable[Callable[[], StoredHeads]]) -> Iterator[tuple[str, str, Any, Any]]:
    heads = StreamHead.objects.order_by("pk").values_list("tenant", "stream", "seq", "hash")
    yield from heads.iterator(chunk_size=_CHUNK)
    for provider in providers:
        yield from provider()


def _check_heads(
    walk: ChainVerifier,
    heads: StoredHeads,
    *,
    complete: bool,
    catch_up: Callable[[str, str, int, int], Iterable[LedgerRow]] | None,
) -> int | ChainBreak:
    """Compare every head with its stream's end; with `complete`, each stream must have one."""
    seen: set[tuple[str, str]] = set()
    for tenant, stream, seq, head_hash in heads:
        seen.add((tenant, stream))
        found = _check_head(walk, tenant, stream, seq, head_hash, catch_up=catch_up)
        if found is not None:
            return found
    if complete and (orphans := walk.heads.keys() - seen):
        return _head_missing(walk, *min(orphans))
    return len(seen)


def _check_head(
    walk: ChainVerifier,
    tenant: str,
    stream: str,
    seq: Any,
    head_hash: Any,
    *,
    catch_up: Callable[[str, str, int, int], Iterable[LedgerRow]] | None,
) -> ChainBreak | None:
    held = cells.bytes_of(head_hash)
    if not isinstance(seq, int) or held is None:
        detail = "the stored head has a value of the wrong type"
        return ChainBreak(str(tenant), str(stream), 0, BreakKind.UNREADABLE, detail)
    last_seq = walk.heads.get((tenant, stream), (0, b""))[0]
    if seq > last_seq and catch_up is not None:
        # The server may have written since the entries were read.
        for row in catch_up(tenant, stream, last_seq, seq):
            if (found := walk.step(row)) is not None:
                return found
    return chain.compare_head(walk, tenant=tenant, stream=stream, seq=seq, head_hash=held)


def _head_missing(walk: ChainVerifier, tenant: str, stream: str) -> ChainBreak:
    seq = walk.heads[tenant, stream][0]
    return ChainBreak(
        tenant, stream, seq, BreakKind.HEAD_MISSING, "the stream has entries, but no stored head"
    )


def _check_payloads() -> int | ChainBreak:
    count = 0
    with reading():
        kept = Payload.objects.filter(erased_at=None).order_by("pk")
        for row in kept.iterator(chunk_size=_CHUNK):
            opened = row.open()
            if opened.state is State.SEALED:
                continue
            if chain.commitment(bytes(row.salt or b""), bytes(opened.body or b"")) != row.commitment:
                detail = "the stored payload does not match its commitment"
                place = f"payload {row.commitment}"
                return ChainBreak(row.tenant, place, 0, BreakKind.PAYLOAD_MISMATCH, detail)
            count += 1
    return count


def _exported_rows(lines: TextIO, heads: list[tuple[str, str, int, bytes]]) -> Iterator[LedgerRow]:
    """The entries of an export; its heads are added to `heads` on the way."""
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            if record["type"] == "head":
                heads.append(
                    (record["tenant"], record["stream"], int(record["seq"]), bytes.fromhex(record["hash"]))
                )
            elif record["type"] == "entry":
                yield LedgerRow(
                    tenant=record["tenant"],
                    stream=record["stream"],
                    seq=int(record["seq"]),
                    kind=record["kind"],
                    at=datetime.fromisoformat(record["at"]),
                    actor=record["actor"],
                    body=base64.b64decode(record["body"], validate=True),
                    prev_hash=bytes.fromhex(record["prev_hash"]),
                    hash=bytes.fromhex(record["hash"]),
                )
            else:
                raise ValueError(record["type"])
        except (ValueError, KeyError, TypeError) as error:
            raise ExportError(f"line {number} is not a valid export line") from error
