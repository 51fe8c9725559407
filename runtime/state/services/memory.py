"""Memory behind its firewall: who may write which scope, from which source, for how long.

What a source does not prove, and what looks like poison, is kept apart until an admin has looked at it: text
from outside that lands in a later context is the oldest way to steer an agent.
"""

from datetime import datetime, timedelta
from typing import Any, Final

from audit import actors, canonical, events, ledger
from runtime.contracts import api_schemas
from runtime.contracts.memory import DEFAULT_WRITES_PER_MINUTE, SourceCheck
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import AGENT_STATUS_CODES, ProblemCode
from runtime.contracts.states import AgentStatus
from runtime.core import clock, given_reasons, transactions
from runtime.kernel import memory_checks, memory_sources
from runtime.kernel.memory_checks import Finding
from runtime.registry.models import Agent
from runtime.registry.services import agent_labels, agents, separate_owners
from runtime.state.models import MemoryItem
from runtime.state.queries import memory_entries, memory_layers
from runtime.state.queries import memory_sources as sources

# An item lands in contexts whole: it must be small beside a context's token budget.
MAX_VALUE_BYTES = 8192
MAX_KEYS = 500
MAX_QUARANTINED = 100
RELEASE: Final = "release what it wrote"
# Of an agent in a loop, the first denied writes of a minute tell the story.
REFUSALS_PER_MINUTE = 10
_MINUTE: Final = timedelta(minutes=1)


@transactions.retried
def write(
    *, agent: Agent, scope: str, key: str, value: Any, source: str, ttl_s: int | None
) -> api_schemas.MemoryAnswer | Problem:
    """Write the next version under a key. With findings it waits in quarantine and replaces nothing.

    403 without a WRITE grant or for an agent that is not ACTIVE, 422 for a value over MAX_VALUE_BYTES, 409
    MEMORY_FULL where the scope holds as many keys, or as much quarantine, as it may. The entry of a write,
    and of one that is denied, says by which rule.
    """
    agent = agents.lock_by_pk(pk=agent.pk)
    at = clock.now()
    body = canonical.encode(value)
    refusal = _refusal(agent, scope, body)
    if refusal is not None:
        return _denied(agent, scope, key, refusal, at)
    looked = sources.look(agent=agent, source=source, value=value)
    row = MemoryItem(
        tenant=agent.tenant,
        scope=scope,
        key=key,
        value=body,
        digest=canonical.digest(body),
        source=source,
        source_check=looked.check,
        source_place=looked.place or "",
        writer=agent,
        written_at=at,
        expires_at=None if ttl_s is None else at + timedelta(seconds=ttl_s),
    )
    findings = _examine(row, value)
    row.reasons = canonical.encode([str(finding) for finding in findings])
    labels = agent_labels.held_by(agent, at=at)
    row.labels = canonical.encode(list(labels))
    row.quarantined, row.current = bool(findings), not findings
    refusal = _full(row)
    if refusal is not None:
        return _denied(agent, scope, key, refusal, at)
    rows = MemoryItem.objects.of(agent.tenant).filter(scope=scope, key=key)
    row.version = (rows.order_by("-version").values_list("version", flat=True).first() or 0) + 1
    if row.current:
        _supersede(row)
    row.save(force_insert=True)
    written = events.MemoryWritten(
        scope=row.scope,
        key=row.key,
        version=row.version,
        digest=row.digest,
        source=row.source,
        quarantined=row.quarantined,
        rule=memory_layers.rule_of(agent),
        source_check=row.source_check,
        source_place=row.source_place or None,
        reasons=tuple(str(finding) for finding in findings),
        labels=labels,
        expires_at=row.expires_at,
    )
    _append(row, actor=actors.agent(agent.agent_id), at=at, event=written)
    return api_schemas.MemoryAnswer(
        scope=row.scope,
        key=row.key,
        version=row.version,
        digest=row.digest,
        quarantined=row.quarantined,
        reasons=tuple(dict.fromkeys(finding.reason.value for finding in findings)),
        expires_at=row.expires_at,
    )


@transactions.retried
def release(*, tenant: str, pk: int, digest: str, reason: str, actor: str) -> MemoryItem | Problem:
    """Release an item from quarantine: it becomes active, unless a later version already is.

    `digest` is that of the value that the person was shown. 403 for an owner of its writer, 409 TAMPERED for
    a value that is not the one that was written.
    """
    row = _quarantined(tenant, pk, digest, reason)
    if isinstance(row, Problem):
        return row
    at = clock.now()
    allowed = separate_owners.allow(agent=row.writer, actor=actor, at=at, task=RELEASE)
    if isinstance(allowed, Problem):
        return allowed
    if memory_entries.compare_written(row) is not None:
        detail = "The value does not match the ledger, so it cannot be released. Run manage.py verify_ledger."
        return Problem(code=ProblemCode.TAMPERED, detail=detail)
    newer = MemoryItem.objects.of(tenant).filter(
        scope=row.scope, key=row.key, current=True, version__gt=row.version
    )
    if newer.exists():
        detail = "A later version is already active. Discard this one."
        return Problem(code=ProblemCode.VERSION_MISMATCH, status=409, detail=detail)
    _supersede(row)
    row.quarantined, row.current, row.released_by = False, True, actor
    row.decided_at, row.decision_reason = at, reason
    row.save(update_fields=["quarantined", "current", "released_by", "decided_at", "decision_reason"])
    released = events.MemoryReleased(
        scope=row.scope,
        key=row.key,
        version=row.version,
        digest=row.digest,
        reason=reason,
        solo=allowed.solo,
    )
    _append(row, actor=actor, at=at, event=released)
    return row


@transactions.retried
def discard(*, tenant: str, pk: int, digest: str, reason: str, actor: str) -> MemoryItem | Problem:
    """Keep an item out for good; the row stays as a record."""
    row = _quarantined(tenant, pk, digest, reason)
    if isinstance(row, Problem):
        return row
    at = clock.now()
    row.quarantined, row.discarded_by = False, actor
    row.decided_at, row.decision_reason = at, reason
    row.save(update_fields=["quarantined", "discarded_by", "decided_at", "decision_reason"])
    discarded = events.MemoryDiscarded(
        scope=row.scope, key=row.key, version=row.version, digest=row.digest, reason=reason
    )
    _append(row, actor=actor, at=at, event=discarded)
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


def _full(row: MemoryItem) -> Problem | None:
    rows = MemoryItem.objects.of(row.tenant).filter(scope=row.scope)
    if row.quarantined and rows.filter(quarantined=True).count() >= MAX_QUARANTINED:
        detail = "Too many values of this scope are in quarantine. Wait until an admin has reviewed them."
        return Problem(code=ProblemCode.MEMORY_FULL, detail=detail)
    held = rows.filter(current=True)
    if row.current and not held.filter(key=row.key).exists() and held.count() >= MAX_KEYS:
        detail = f"A scope can have at most {MAX_KEYS} keys. Overwrite an existing one."
        return Problem(code=ProblemCode.MEMORY_FULL, detail=detail)
    return None


def _examine(row: MemoryItem, value: Any) -> list[Finding]:
    """Why the item must wait, in the order of the checks. The agent is locked, so its count is exact."""
    agent, at = row.writer, row.written_at
    unproved = memory_sources.REASONS.get(SourceCheck(row.source_check))
    grant = memory_layers.grant_of(agent, row.scope)
    at_most = (grant and grant.writes_per_minute) or DEFAULT_WRITES_PER_MINUTE
    return [
        *([] if unproved is None else [Finding(unproved)]),
        *memory_checks.examine_text(value),
        *memory_checks.examine_rate(
            written=memory_layers.count_written(agent=agent, scope=row.scope, since=at - _MINUTE),
            at_most=at_most,
        ),
        *memory_checks.examine_contradiction(
            digest=row.digest,
            source=row.source,
            writer=agent.agent_id,
            active=memory_layers.get_active(tenant=row.tenant, scope=row.scope, key=row.key, at=at),
        ),
    ]


def _denied(agent: Agent, scope: str, key: str, refusal: Problem, at: datetime) -> Problem:
    """Record a denied write, unless the agent's share of the minute is used up: the ledger is no target."""
    if memory_entries.is_told_enough(agent=agent, since=at - _MINUTE, at_most=REFUSALS_PER_MINUTE):
        return refusal
    by_grant = refusal.code is ProblemCode.UNAUTHORIZED
    refused = events.MemoryRefused(
        agent_id=agent.agent_id,
        scope=scope,
        key=key,
        rule=memory_layers.rule_of(agent) if by_grant else "memory",
        code=refusal.code,
    )
    stream = actors.agent(agent.agent_id)
    ledger.append_to(tenant=agent.tenant, stream=stream, actor=stream, at=at, events=[refused])
    return refusal


def _supersede(row: MemoryItem) -> None:
    """Only what is older: where a later version became active meanwhile, the constraint ends the race."""
    held = MemoryItem.objects.filter(
        tenant=row.tenant, scope=row.scope, key=row.key, current=True, version__lt=row.version
    )
    held.update(current=False)


def _quarantined(tenant: str, pk: int, digest: str, reason: str) -> MemoryItem | Problem:
    refusal = given_reasons.refuse(reason)
    if refusal is not None:
        return refusal
    rows = MemoryItem.objects.of(tenant).select_for_update(of=("self",)).select_related("writer")
    row = rows.filter(pk=pk, quarantined=True).first()
    if row is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="Nothing with this id is in quarantine.")
    if digest != row.digest:
        detail = "This is not the value that was shown. Review it again before you decide."
        return Problem(code=ProblemCode.VERSION_MISMATCH, status=409, detail=detail)
    return row


def _append(row: MemoryItem, *, actor: str, at: datetime, event: events.Event) -> None:
    stream = actors.agent(row.writer.agent_id)
    ledger.append_to(tenant=row.tenant, stream=stream, actor=actor, at=at, events=[event])
