"""State writes: each is a new immutable version; the current row moves by compare-and-swap."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from audit import canonical, events, ledger
from audit.live import hints
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.state.models import Fact, FactVersion

MAX_VALUE_BYTES = 65_536
NO_FACT = 0  # as `expected_version`: the fact must not be there yet


@dataclass(frozen=True, kw_only=True)
class WrittenVersion:
    """A version that was just written."""

    path: str
    version: int


def write(
    *, tenant: str, path: str, value: Any, writer: str, expected_version: int | None
) -> WrittenVersion | Problem:
    """Write the next version of a fact; the same value again is a version too, with its own writer and time.

    `writer` is `feed:<name>`, `agent:<id>`, `user:<pk>` or `system`, and is the ledger stream as well.
    422 for a bad path or a value over MAX_VALUE_BYTES, 412 when `expected_version` is not the current one.
    """
    body = canonical.encode(value)
    if len(body) > MAX_VALUE_BYTES:
        detail = f"A fact's value is at most {MAX_VALUE_BYTES:,} bytes of JSON. Send less, or a reference."
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
    refusal = check_path(path)
    if refusal is not None:
        return refusal

    def work() -> WrittenVersion | Problem:
        # The lock queues the writers of one fact up: twenty of them at once do not exhaust their tries.
        current = Fact.objects.select_for_update().filter(tenant=tenant, path=path).first()
        before = NO_FACT if current is None else current.version
        if expected_version is not None and expected_version != before:
            return Problem(
                code=ProblemCode.VERSION_MISMATCH,
                detail=f"The fact is now at version {before}. Read it again and retry with its ETag.",
            )
        at = clock.now()
        written = _store(tenant, path, body, writer, current=current, at=at)
        ledger.append_to(tenant=tenant, stream=writer, actor=writer, at=at, events=[written])
        return WrittenVersion(path=path, version=before + 1)

    return transactions.retry_on_conflict(work)


def write_taken(*, tenant: str, path: str, body: bytes, writer: str, at: datetime) -> events.FactWritten:
    """Write the next version of a fact inside the caller's transaction; the entry, for the caller's stream.

    `body` is canonical JSON within MAX_VALUE_BYTES under a path that `check_path` lets pass.
    """
    current = Fact.objects.select_for_update().filter(tenant=tenant, path=path).first()
    return _store(tenant, path, body, writer, current=current, at=at)


def check_path(path: str) -> Problem | None:
    """Whether `path` can name a fact: two segments with a dot between."""
    if len(path) > api_schemas.MAX_FACT_PATH_CHARS or not re.fullmatch(api_schemas.FACT_PATH, path, re.ASCII):
        return Problem(
            code=ProblemCode.INVALID_REQUEST,
            detail="A fact's path has two segments, such as price.AAPL, of at most 200 characters together.",
        )
    return None


def _store(
    tenant: str, path: str, body: bytes, writer: str, *, current: Fact | None, at: datetime
) -> events.FactWritten:
    before = NO_FACT if current is None else current.version
    row = {
        "version": before + 1,
        "value": body,
        "digest": canonical.digest(body),
        "writer": writer,
        "written_at": at if current is None else max(at, current.written_at),
    }
    if current is None:
        Fact.objects.create(tenant=tenant, path=path, **row)
    elif Fact.objects.filter(pk=current.pk, version=before).update(**row) != 1:
        raise transactions.ConcurrentUpdateError
    FactVersion.objects.create(tenant=tenant, path=path, **row)
    if current is not None and current.writer != writer:
        # Who waits for this fact listens to whoever wrote it last.
        hints.hint_after_commit(tenant=tenant, streams=[current.writer], seq=0)
    return events.FactWritten(path=path, version=before + 1, digest=canonical.digest(body), writer=writer)
