"""Memory behind its firewall: who may write which scope, from which source, for how long.

What comes from a source that the runtime cannot vouch for is kept apart until an admin has looked at it:
text from outside that lands in a later context is the oldest way to steer an agent.
"""

from datetime import datetime, timedelta
from typing import Any

from audit import actors, canonical, events, ledger
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import AGENT_STATUS_CODES, ProblemCode
from runtime.contracts.states import AgentStatus
from runtime.core import clock, transactions
from runtime.registry.models import Agent
from runtime.registry.services import agents
from runtime.state.models import MemoryItem
from runtime.state.queries import memory_layers

# An item lands in contexts whole: it must be small beside a context's token budget.
MAX_VALUE_BYTES = 8192
MAX_KEYS = 500
MAX_QUARANTINED = 100


@transactions.retried
def write(
    *, agent: Agent, scope: str, key: str, value: Any, source: str, ttl_s: int | None
) -> api_schemas.MemoryAnswer | Problem:
    """Write the next version under a key. From an unknown source it waits in quarantine and replaces nothing.

    403 without a WRITE grant or for an agent that is not ACTIVE, 422 for a value over MAX_VALUE_BYTES, 409
    MEMORY_FULL where the scope holds as many keys, or as much quarantine, as it may.
    """
    agent = agents.lock_by_pk(pk=agent.pk)
    body = canonical.encode(value)
    refusal = _refusal(agent, scope, body)
    if refusal is not None:
        return refusal
    at = clock.now()
    rows = MemoryItem.objects.of(agent.tenant).filter(scope=scope)
    quarantined = not memory_layers.is_known(agent=agent, source=source)
    if quarantined and rows.filter(quarantined=True).count() >= MAX_QUARANTINED:
        detail = "Too many values of this scope are in quarantine. Wait until an admin has reviewed them."
        return Problem(code=ProblemCode.MEMORY_FULL, detail=detail)
    held = rows.filter(current=True)
    if not quarantined and not held.filter(key=key).exists() and held.count() >= MAX_KEYS:
        detail = f"A scope can have at most {MAX_KEYS} keys. Overwrite an existing one."
        return Problem(code=ProblemCode.MEMORY_FULL, detail=detail)
    last = rows.filter(key=key).order_by("-version").values_list("version", flat=True).first() or 0
    row = MemoryItem(
        tenant=agent.tenant,
        scope=scope,
        key=key,
        version=last + 1,
        value=body,
        digest=canonical.digest(body),
        source=source,
        writer=agent,
        written_at=at,
        expires_at=None if ttl_s is None else at + timedelta(seconds=ttl_s),
        quarantined=quarantined,
        current=not quarantined,
    )
    if not quarantined:
        _supersede(row)
    row.save(force_insert=True)
    written = events.MemoryWritten(
        scope=row.scope,
        key=row.key,
        version=row.version,
        digest=row.digest,
        source=row.source,
        quarantined=quarantined,
    )
    _append(row, actor=actors.agent(agent.agent_id), at=at, event=written)
    return api_schemas.MemoryAnswer(
        scope=row.scope,
        key=row.key,
        version=row.version,
        digest=row.digest,
        quarantined=quarantined,
        expires_at=row.expires_at,
    )


@transactions.retried
def release(*, tenant: str, pk: int, actor: str) -> MemoryItem | Problem:
    """Release an item from quarantine: it becomes active, unless a later version already is."""
    row = _quarantined(tenant, pk)
    if isinstance(row, Problem):
        return row
    newer = MemoryItem.objects.of(tenant).filter(
        scope=row.scope, key=row.key, current=True, version__gt=row.version
    )
    if newer.exists():
        detail = "A later version is already active. Discard this one."
        return Problem(code=ProblemCode.VERSION_MISMATCH, status=409, detail=detail)
    _supersede(row)
    row.quarantined, row.current, row.released_by = False, True, actor
    row.save(update_fields=["quarantined", "current", "released_by"])
    released = events.MemoryReleased(scope=row.scope, key=row.key, version=row.version)
    _append(row, actor=actor, at=clock.now(), event=released)
    return row


@transactions.retried
def discard(*, tenant: str, pk: int, actor: str) -> MemoryItem | Problem:
    """Keep an item out for good; the row stays as a record."""
    row = _quarantined(tenant, pk)
    if isinstance(row, Problem):
        return row
    row.quarantined = False
    row.save(update_fields=["quarantined"])
    discarded = events.MemoryDiscarded(scope=row.scope, key=row.key, version=row.version)
    _append(row, actor=actor, at=clock.now(), event=discarded)
    return row


def _refusal(agent: Agent, scope: str, body: bytes) -> Problem | None:
    if agent.status != AgentStatus.ACTIVE:
        detail = f"The agent is {agent.status}: only ACTIVE agents can write memory."
        return Problem(code=AGENT_STATUS_CODES[agent.status], detail=detail)
    if scope not in memory_layers.writable(agent):
        detail = "The active manifest does not grant this agent write access to this scope."
        return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
    if len(body) > MAX_VALUE_BYTES:
        detail = f"A memory value is at most {MAX_VALUE_BYTES:,} bytes of JSON. Register an artifact."
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
    return None


def _supersede(row: MemoryItem) -> None:
    held = MemoryItem.objects.filter(tenant=row.tenant, scope=row.scope, key=row.key, current=True)
    held.update(current=False)


def _quarantined(tenant: str, pk: int) -> MemoryItem | Problem:
    rows = MemoryItem.objects.of(tenant).select_for_update(of=("self",)).select_related("writer")
    row = rows.filter(pk=pk, quarantined=True).first()
    if row is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="Nothing with this id is in quarantine.")
    return row


def _append(row: MemoryItem, *, actor: str, at: datetime, event: events.Event) -> None:
    stream = actors.agent(row.writer.agent_id)
    ledger.append_to(tenant=row.tenant, stream=stream, actor=actor, at=at, events=[event])
