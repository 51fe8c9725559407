"""Soft guards as data: configured by packs, switched by an admin, asked about each proposal with a claim."""

from datetime import datetime

from django.db import transaction
from pydantic import ValidationError

from audit import actors, events, ledger
from runtime.contracts.guard import GuardDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, ports, transactions
from runtime.flows.models import Proposal
from runtime.guards.models import Guard, GuardRun
from runtime.guards.queries import recorded_guards


def configure(*, tenant: str, given: GuardDocument, at: datetime) -> list[events.Event]:
    """Store a guard of a pack, inside the caller's transaction; the entry, or none where it is recorded so.

    A person's switch stays as it is: a repeated load must not turn on what a person turned off.
    """
    body, digest = given.to_bytes(), given.digest
    row = Guard.objects.of(tenant).select_for_update().filter(guard_id=given.id).first()
    if row is not None and row.digest == digest and recorded_guards.compare_guard(row) is None:
        return []
    values = {"kind": given.guard.value, "body": body, "digest": digest, "configured_at": at}
    Guard.objects.update_or_create(tenant=tenant, guard_id=given.id, defaults=values)
    return [
        events.GuardConfigured(
            guard_id=given.id,
            guard=given.guard,
            digest=digest,
            policy_kinds=given.policy_kinds,
            emergency_stop=given.emergency_stop,
        )
    ]


@transactions.retried
def switch(*, tenant: str, guard_id: str, enabled: bool, reason: str, actor: str) -> Guard | Problem:
    """Turn a guard on or off; the same state again changes nothing. 404 for an unknown id."""
    row = Guard.objects.of(tenant).select_for_update().filter(guard_id=guard_id).first()
    if row is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No guard has this id.")
    if row.enabled is enabled:
        return row
    row.enabled, row.switched_at, row.switched_by = enabled, clock.now(), actor
    row.switch_reason = reason[:500]
    row.save(update_fields=["enabled", "switched_at", "switched_by", "switch_reason"])
    switched = events.GuardSwitched(guard_id=guard_id, enabled=enabled, reason=row.switch_reason)
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=row.switched_at, events=[switched])
    return row


def queue_guards(*, proposal: Proposal, at: datetime) -> None:
    """Queue every guard that reviews the proposal's kind, inside the transaction of its verdict.

    Without an explanation there is nothing to compare; where no guard is on, this is one read.
    """
    if not proposal.explain:
        return
    tenant = proposal.flow.tenant
    wanted = [
        guard
        for guard in Guard.objects.of(tenant).filter(enabled=True)
        if proposal.policy_kind in _kinds(guard) or not _kinds(guard)
    ]
    if not wanted:
        return
    runs = GuardRun.objects.bulk_create(
        GuardRun(tenant=tenant, proposal=proposal, guard=guard, next_at=at, created_at=at) for guard in wanted
    )
    run_ids = [run.pk for run in runs]
    transaction.on_commit(lambda: ports.ring_guards(run_ids))


def _kinds(guard: Guard) -> tuple[str, ...]:
    """The kinds that it reviews; all where its row was rewritten, since its run reports only that."""
    try:
        return GuardDocument.from_bytes(bytes(guard.body)).policy_kinds
    except (ValidationError, TypeError):
        return ()
