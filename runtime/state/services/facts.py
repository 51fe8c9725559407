"""State writes: each is a new immutable version; the current row moves by compare-and-swap."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from audit import canonical, ledger
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, idempotency, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.core.mismatches import Mismatch
from runtime.kernel import merge_patch, ontology
from runtime.registry.queries import ontology_versions
from runtime.state.models import Fact
from runtime.state.queries import world
from runtime.state.services.world_writes import WorldWrite

MAX_VALUE_BYTES = 65_536
TAMPERED = (
    "The stored answer to this write is not that of the fact's version, so it is not repeated. Read the "
    "fact, and ask an operator to run manage.py verify_ledger."
)
NO_FACT = 0  # as `expected_version`: the fact must not be there yet


@dataclass(frozen=True, kw_only=True)
class WrittenVersion:
    """A version that was just written, and its write; `world_version` is None until it is numbered."""

    path: str
    version: int
    write_id: str
    world_version: int | None


@dataclass(frozen=True, kw_only=True)
class RepeatableWrite:
    """A write with an Idempotency-Key, by the key of a feed."""

    key_pk: int
    call: IdempotentRequest


def write(
    *,
    tenant: str,
    path: str,
    value: Any,
    writer: str,
    expected_version: int | None,
    repeatable: RepeatableWrite | None = None,
) -> WrittenVersion | Problem:
    """Write the next version of a fact; the same value again is a version too, with its own writer and time.

    `writer` is `feed:<name>`, `agent:<id>`, `user:<pk>` or `system`, and is the ledger stream as well.
    422 for a bad path or a value over MAX_VALUE_BYTES, 412 when `expected_version` is not the current one.
    With `repeatable`, a repeat of the call writes nothing and gets the answer of the first.
    """

    def new(current: Fact | None) -> Any:
        return value

    return _change(new, _Asked(tenant, path, writer, expected_version, repeatable))


def patch(
    *,
    tenant: str,
    path: str,
    change: Any,
    writer: str,
    expected_version: int | None,
    repeatable: RepeatableWrite | None = None,
) -> WrittenVersion | Problem:
    """Write the next version of a fact: its value with a JSON Merge Patch (RFC 7396) in it.

    Refusals are those of `write`, and 404 for a fact that is not there.
    """

    def new(current: Fact | None) -> Any:
        if current is None:
            detail = "There is no fact to change under this path. Write its first version with PUT."
            return Problem(code=ProblemCode.FACT_NOT_FOUND, detail=detail)
        return merge_patch.apply(canonical.decode(bytes(current.value)), change)

    return _change(new, _Asked(tenant, path, writer, expected_version, repeatable))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A write as it is asked for."""

    tenant: str
    path: str
    writer: str
    expected_version: int | None
    repeatable: RepeatableWrite | None


def _change(new: Callable[[Fact | None], Any], asked: _Asked) -> WrittenVersion | Problem:
    refusal = check_path(asked.path)
    if refusal is not None:
        return refusal

    def work() -> WrittenVersion | Problem:
        # The lock queues the writers of one fact up: twenty of them at once do not exhaust their tries.
        current = lock(tenant=asked.tenant, path=asked.path)
        answered = _answer_before(asked)
        if answered is not None:
            return answered
        before = NO_FACT if current is None else current.version
        if asked.expected_version is not None and asked.expected_version != before:
            return Problem(
                code=ProblemCode.VERSION_MISMATCH,
                detail=f"The fact is now at version {before}. Read it again and retry with its ETag.",
            )
        value = new(current)
        if isinstance(value, Problem):
            return value
        body = canonical.encode(value)
        if len(body) > MAX_VALUE_BYTES:
            detail = (
                f"A fact's value is at most {MAX_VALUE_BYTES:,} bytes of JSON. Send less, or a reference."
            )
            return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
        refusal = _why_not_declared(asked, value)
        if refusal is not None:
            return refusal
        return _put(body, asked, current=current)

    return transactions.retry_on_conflict(work)


def _why_not_declared(asked: _Asked, value: Any) -> Problem | None:
    """422 for what does not fit the ontology in force; 409 where that does not match the ledger."""
    declared = ontology_versions.find_in_force(tenant=asked.tenant)
    if declared is None:
        return None
    if isinstance(declared, Mismatch):
        detail = "The ontology in force does not match the ledger, so nothing can be compared with it."
        return Problem(code=ProblemCode.TAMPERED, detail=detail)
    said = ontology.why_foreign(declared, path=asked.path, writer=asked.writer) or ontology.why_unfit(
        declared, path=asked.path, value=value
    )
    return None if said is None else Problem(code=ProblemCode.FACT_NOT_AS_DECLARED, detail=said)


def _put(body: bytes, asked: _Asked, *, current: Fact | None) -> WrittenVersion:
    at = clock.now()
    made = WorldWrite(tenant=asked.tenant, writer=asked.writer, at=at)
    written = made.put(asked.path, body, current=current)
    ledger.append_to(tenant=asked.tenant, stream=asked.writer, actor=asked.writer, at=at, events=[written])
    answer = WrittenVersion(
        path=asked.path,
        version=written.version,
        write_id=made.version.write_id,
        world_version=made.version.version,
    )
    if asked.repeatable is not None:
        kept = canonical.encode({"version": answer.version, "write_id": answer.write_id})
        idempotency.store_response_to_feed(
            key_pk=asked.repeatable.key_pk, call=asked.repeatable.call, body=kept, at=at
        )
    return answer


def _answer_before(asked: _Asked) -> WrittenVersion | Problem | None:
    """What this call was answered before; its write may have got its number since."""
    if asked.repeatable is None:
        return None
    stored = idempotency.find_response_to_feed(
        key_pk=asked.repeatable.key_pk, call=asked.repeatable.call, makes="write"
    )
    if not isinstance(stored, bytes):
        return stored
    kept = canonical.decode(stored)
    made = {"path": asked.path, "version": kept["version"], "write_id": kept["write_id"]}
    if not world.is_of_write(tenant=asked.tenant, **made):
        return Problem(code=ProblemCode.TAMPERED, detail=TAMPERED)
    number = world.number_of_write(write_id=kept["write_id"])
    return WrittenVersion(
        path=asked.path, version=kept["version"], write_id=kept["write_id"], world_version=number
    )


def lock(*, tenant: str, path: str) -> Fact | None:
    """The current version of a fact, locked until the transaction ends."""
    return Fact.objects.select_for_update().filter(tenant=tenant, path=path).first()


def check_path(path: str) -> Problem | None:
    """Whether `path` can name a fact: two segments with a dot between."""
    if len(path) > api_schemas.MAX_FACT_PATH_CHARS or not re.fullmatch(api_schemas.FACT_PATH, path, re.ASCII):
        return Problem(
            code=ProblemCode.INVALID_REQUEST,
            detail="A fact's path has two segments, such as price.AAPL, of at most 200 characters together.",
        )
    return None
