"""One guard run on one proposal, after the verdict and off the request (DIR paper, 6.3).

A run is taken by moving its `next_at` past the longest call, answered outside every transaction, and recorded
once. It never touches the verdict; a guard that fails or talks nonsense has simply not looked.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, assert_never

from audit import actors, canonical, events
from runtime.contracts.guard import (
    DEFAULT_TIMEOUT_S,
    GuardDocument,
    GuardFinding,
    GuardKind,
    GuardResult,
    GuardRunState,
)
from runtime.contracts.guard import FindingCode as Code
from runtime.core import clock, transactions
from runtime.core.mismatches import Mismatch
from runtime.execution.services import guard_webhook
from runtime.execution.services.guard_webhook import Held, Unanswered
from runtime.flows.models import Proposal
from runtime.flows.queries import due_intents
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.guards.models import GuardRun
from runtime.guards.queries import recorded_guards
from runtime.guards.services import reviews
from runtime.kernel.guards import explanation_check
from runtime.registry.models import PolicyKind
from runtime.registry.queries import recorded_targets, target_endpoints

MAX_TRIES = 3
_PAUSE_S = 5
_LEASE_MARGIN_S = 15
_NO_REPORT = "the worker that called it did not report"
_TAMPERED = "its row, or that of its target, does not match the ledger"
_SWITCHED_OFF = "it was switched off before it ran"


@dataclass(frozen=True, kw_only=True)
class TakenRun:
    """A run that this worker holds, and all that the guard receives."""

    run_id: int
    guard: GuardDocument
    guard_digest: str
    tries: int
    proposal: Proposal
    body: dict[str, Any]


def run(run_id: int) -> GuardRunState | None:
    """Run the guard, and record its answer. Safe at any time, from any number of workers.

    None where the run is not due, or was ended by another worker; PENDING where it is to be tried again.

    Raises:
        transactions.BusyError: when the rows were too contended; the run becomes due again by itself.
    """
    taken = _take(run_id)
    if not isinstance(taken, TakenRun):
        return taken
    answer = _look(taken)
    if isinstance(answer, Held):
        return _give_back(taken, answer)
    if isinstance(answer, Unanswered):
        return _put_off(taken, answer)
    return _record(taken, answer)


@transactions.retried
def _take(run_id: int) -> TakenRun | GuardRunState | None:
    row = _pending(run_id)
    at = clock.now()
    if row is None or row.next_at > at:
        return None
    if not row.guard.enabled:
        return _fail(row, at=at, why=_SWITCHED_OFF)
    if row.tries >= MAX_TRIES:
        return _fail(row, at=at, why=_NO_REPORT)
    if (wrong := recorded_guards.compare_guard(row.guard)) is not None:
        return _fail(row, at=at, why=_TAMPERED, mismatch=wrong)
    guard = GuardDocument.from_bytes(bytes(row.guard.body))
    target = target_endpoints.get_target(tenant=row.tenant, name=guard.target) if guard.target else None
    if target is not None and (wrong := recorded_targets.compare_configured(target)) is not None:
        return _fail(row, at=at, why=_TAMPERED, mismatch=wrong)
    if guard.guard is GuardKind.WEBHOOK and due_intents.get_stop(tenant=row.tenant) is not None:
        return None  # nothing is called while everything is stopped
    lease_s = (guard.timeout_s or DEFAULT_TIMEOUT_S) + _LEASE_MARGIN_S
    changed = GuardRun.objects.filter(pk=run_id, state=GuardRunState.PENDING, tries=row.tries).update(
        tries=row.tries + 1, next_at=at + timedelta(seconds=lease_s)
    )
    if changed != 1:
        raise transactions.ConcurrentUpdateError
    return TakenRun(
        run_id=run_id,
        guard=guard,
        guard_digest=row.guard.digest,
        tries=row.tries + 1,
        proposal=row.proposal,
        body=canonical.decode(bytes(row.proposal.body)),
    )


def _look(taken: TakenRun) -> GuardResult | Unanswered | Held:
    match taken.guard.guard:
        case GuardKind.LEXICAL:
            return explanation_check.examine(
                explain=taken.proposal.explain, params=taken.body["params"], choices=_choices(taken.proposal)
            )
        case GuardKind.WEBHOOK:
            return _consult(taken)
        case _:
            assert_never(taken.guard.guard)


def _choices(proposal: Proposal) -> dict[str, list[str]]:
    """The values that each parameter may hold, where the kind's schema lists them."""
    row = PolicyKind.objects.of(proposal.flow.tenant).filter(
        kind=proposal.policy_kind, version=proposal.policy_version
    )
    body = row.values_list("body", flat=True).first()
    properties = canonical.decode(bytes(body))["params_schema"].get("properties", {}) if body else {}
    return {
        name: [item for item in schema["enum"] if isinstance(item, str)]
        for name, schema in properties.items()
        if isinstance(schema, dict) and isinstance(schema.get("enum"), list)
    }


def _consult(taken: TakenRun) -> GuardResult | Unanswered | Held:
    proposal = taken.proposal
    question = {
        "dfid": str(proposal.flow_id),
        "proposal_id": str(proposal.pk),
        "policy_kind": proposal.policy_kind,
        "params": taken.body["params"],
        "explain": proposal.explain,
        "verdict": proposal.verdict.decision,
    }
    answer = guard_webhook.consult(
        tenant=proposal.flow.tenant,
        target=taken.guard.target or "",
        path=taken.guard.path or "/",
        body=canonical.encode(question),
        key=canonical.digest(f"guard {taken.guard.id} {proposal.pk}".encode()),
        timeout_s=taken.guard.timeout_s or DEFAULT_TIMEOUT_S,
    )
    if isinstance(answer, Unanswered | Held):
        return answer
    if not answer.flag:
        return GuardResult(findings=(), confidence=answer.confidence)
    finding = GuardFinding(code=Code.TARGET_SAYS, message=answer.message, confidence=answer.confidence)
    return GuardResult(findings=(finding,), confidence=answer.confidence)


@transactions.retried
def _record(taken: TakenRun, result: GuardResult) -> GuardRunState | None:
    """Once: whoever ends the run first is recorded, and anybody later changes nothing."""
    state = GuardRunState.FLAGGED if result.findings else GuardRunState.CLEAR
    # The flow first, in the order of locks: a flag is written into it.
    flow = locks.lock_one(dfid=taken.proposal.flow_id) if result.findings else None
    at = clock.now()
    if not _end(taken.run_id, state=state, at=at, digest=taken.guard_digest, result=result.to_bytes()):
        return None
    if flow is not None:
        reviews.flag(flow=flow, run_id=taken.run_id, guard=taken.guard, result=result, at=at)
    return state


@transactions.retried
def _give_back(taken: TakenRun, answer: Held) -> GuardRunState | None:
    """A stop came between the take and the question: that was no try."""
    row = _pending(taken.run_id)
    if row is None or row.tries != taken.tries:
        return None
    row.tries, row.detail = taken.tries - 1, answer.why[:300]
    row.next_at = clock.now() + timedelta(seconds=_PAUSE_S)
    row.save(update_fields=["tries", "next_at", "detail"])
    return GuardRunState.PENDING


@transactions.retried
def _put_off(taken: TakenRun, answer: Unanswered) -> GuardRunState | None:
    row = _pending(taken.run_id)
    at = clock.now()
    if row is None:
        return None
    if taken.tries >= MAX_TRIES:
        return _fail(row, at=at, why=answer.why)
    row.next_at, row.detail = at + timedelta(seconds=_PAUSE_S * taken.tries), answer.why[:300]
    row.save(update_fields=["next_at", "detail"])
    return GuardRunState.PENDING


def _fail(row: GuardRun, *, at: datetime, why: str, mismatch: Mismatch | None = None) -> GuardRunState | None:
    """End a run that got no answer, with an entry: the flow's history shows that it was not checked."""
    flow = locks.lock_one(dfid=row.proposal.flow_id)
    if flow is None or not _end(
        row.pk, state=GuardRunState.FAILED, at=at, digest=row.guard.digest, detail=why[:300]
    ):
        return None
    journal = Journal(flow=flow, actor=actors.guard(row.guard.guard_id), at=at)
    if mismatch is not None:
        journal.add(mismatch.event())
    journal.add(
        events.GuardFailed(
            guard_id=row.guard.guard_id, proposal_id=str(row.proposal_id), tries=row.tries, why=why[:300]
        )
    )
    journal.write()
    return GuardRunState.FAILED


def _pending(run_id: int) -> GuardRun | None:
    rows = GuardRun.objects.select_related("guard", "proposal__flow", "proposal__verdict")
    return rows.filter(pk=run_id, state=GuardRunState.PENDING).first()


def _end(
    run_id: int,
    *,
    state: GuardRunState,
    at: datetime,
    digest: str,
    result: bytes | None = None,
    detail: str = "",
) -> bool:
    rows = GuardRun.objects.filter(pk=run_id, state=GuardRunState.PENDING)
    ended = {"state": state, "finished_at": at, "guard_digest": digest, "result": result, "detail": detail}
    return rows.update(**ended) == 1
