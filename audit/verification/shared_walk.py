"""The walk of `verify_ledger` in several processes: each over its own streams, all in one snapshot.

The processes are forks of this one, which has closed its connections before; each opens its own and reads
only. PostgreSQL lends them the snapshot of this process. SQLite has no such thing: nobody writes for the
moment in which each of them begins to read.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final

from django.db import connection, connections

from audit.chain import ChainVerifier
from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification import entry_walk, verify
from audit.verification.entry_walk import Noted, Span, StreamCheck
from audit.verification.row_checks import Entry, NotProved, RowCheck

WalkAll = Callable[[Sequence[RowCheck], Noted], ChainVerifier]
AllChecks = Callable[[], Sequence[RowCheck]]
_READY: Final = "ready"


class ProcessFailedError(RuntimeError):
    """A process of the walk has ended without its part; what is known of it is in the words."""


@dataclass(slots=True)
class _Part:
    """What a process brings back: checks of streams, by their place among all, and entries for the others."""

    walk: ChainVerifier
    noted: Noted
    checks: dict[int, Any]
    entries: list[Entry]


@dataclass(slots=True)
class _Kept:
    """Stands for the checks that need the entries of all streams: keeps those of their kinds, each once."""

    kinds: frozenset[Kind]
    not_proved: Sequence[NotProved] = ()
    not_verified: Sequence[str] = ()
    entries: list[Entry] = field(default_factory=list)

    def see(self, entry: Entry) -> Sequence[Any]:
        """Keep it."""
        self.entries.append(entry)
        return ()

    def finish(self) -> Sequence[Any]:
        """Nothing is compared here."""
        return ()


@contextmanager
def opened(processes: int, all_checks: AllChecks, *, most: int) -> Iterator[WalkAll]:
    """The processes, ready to walk, and the snapshot that they share with the caller.

    Raises ValueError inside a transaction, which no other process could see.
    """
    if connection.in_atomic_block:
        raise ValueError("several processes see nothing of a transaction that is not committed")
    _close()
    forks = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        pipes = []
        for _ in range(processes):
            ours, theirs = forks.Pipe()
            stack.enter_context(closing(ours))
            process = forks.Process(target=_serve, args=(theirs, all_checks, most), daemon=True)
            process.start()
            theirs.close()
            stack.callback(_end, process)
            pipes.append(ours)
        for pipe in pipes:
            _receive(pipe)
        with _nobody_writes():
            stack.enter_context(verify.snapshot())
            lent, spans = _lend(), _spans(processes)
            for pipe, span in zip(pipes, spans, strict=True):
                pipe.send((lent, span))
            for pipe in pipes:
                _receive(pipe)

        def walk_all(checks: Sequence[RowCheck], noted: Noted) -> ChainVerifier:
            return _put_together([_receive(pipe) for pipe in pipes], checks, noted)

        yield walk_all


def _put_together(parts: Sequence[_Part], checks: Sequence[RowCheck], noted: Noted) -> ChainVerifier:
    walk = ChainVerifier()
    by_kind: dict[str, list[tuple[int, RowCheck]]] = {}
    for rank, check in enumerate(checks, start=entry_walk.CHECKS):
        if not isinstance(check, StreamCheck):
            for kind in check.kinds:
                by_kind.setdefault(kind, []).append((rank, check))
    for part in parts:
        walk.heads |= part.walk.heads
        walk.entries += part.walk.entries
        noted.absorb(part.noted)
        for number, other in part.checks.items():
            check = checks[number]
            if isinstance(check, StreamCheck):
                check.absorb(other)
        for entry in part.entries:
            for rank, check in by_kind.get(entry.kind, ()):
                noted.note(rank, entry_walk.guarded(check, partial(check.see, entry)))
    return walk


def _serve(pipe: Connection, all_checks: AllChecks, most: int) -> None:
    """What a process does: open a connection, begin to read, walk, send what it has, end."""
    try:
        connection.ensure_connection()
        pipe.send(_READY)
        lent, span = pipe.recv()
        with verify.snapshot(lent=lent):
            LedgerEntry.objects.order_by("id").values_list("id").first()
            pipe.send(_READY)
            pipe.send(_walk(span, all_checks(), Noted(most)))
    except Exception as error:
        pipe.send(ProcessFailedError(f"{type(error).__name__}: {error}"))
    finally:
        connections.close_all()
        pipe.close()


def _walk(span: Span, checks: Sequence[RowCheck], noted: Noted) -> _Part:
    others = [check for check in checks if not isinstance(check, StreamCheck)]
    kept = _Kept(frozenset(kind for check in others for kind in check.kinds))
    # At the places that they have among all: findings are told by what found them.
    standing = [check if isinstance(check, StreamCheck) else _Kept(frozenset()) for check in checks]
    walk = entry_walk.walk_over(span, [*standing, kept], noted)
    walk.body = None
    own = {number: check for number, check in enumerate(checks) if isinstance(check, StreamCheck)}
    return _Part(walk, noted, own, kept.entries)


def _receive(pipe: Connection) -> Any:
    try:
        answer = pipe.recv()
    except EOFError as error:
        raise ProcessFailedError("a process of the verification has ended before its time") from error
    if isinstance(answer, ProcessFailedError):
        raise answer
    return answer


def _end(process: Any) -> None:
    process.join(timeout=1)
    process.kill()
    process.join()


def _close() -> None:
    connections.close_all()
    close_pool = getattr(connection, "close_pool", None)  # PostgreSQL only
    if close_pool is not None:
        close_pool()


@contextmanager
def _nobody_writes() -> Iterator[None]:
    """On SQLite: the lock of a writer, by a connection of its own; readers are not kept from anything."""
    if connection.vendor != "sqlite":
        yield
        return
    with closing(connection.get_new_connection(connection.get_connection_params())) as lock:
        lock.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            lock.execute("ROLLBACK")


def _lend() -> str:
    """The name of this process's snapshot; empty on SQLite, where a read has to begin it."""
    if connection.vendor == "sqlite":
        LedgerEntry.objects.order_by("id").values_list("id").first()
        return ""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_export_snapshot()")
        return str(cursor.fetchone()[0])


def _spans(processes: int) -> list[Span]:
    """Streams one after the other, with about as many entries for each process."""
    count = LedgerEntry.objects.count()
    bounds: list[tuple[Any, Any] | None] = [None]
    with connection.cursor() as cursor:
        for number in range(1, processes):
            cursor.execute(
                "SELECT tenant, stream FROM audit_ledgerentry ORDER BY tenant, stream, seq LIMIT 1 OFFSET %s",
                [count * number // processes],
            )
            bounds.append(cursor.fetchone())
    return [Span(first, end) for first, end in zip(bounds, [*bounds[1:], None], strict=True)]
