"""Steps that people carry out: a task is opened in place of a call, and its answer is the receipt.

Who may answer is asked where the answer comes in (`escalations.services.task_answers`). While a task is open
the intent is AWAITING: no lease, no window, nothing that ends it but the answer or the deadline.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from audit import actors, canonical, events, ledger, statements
from audit.payload_keys import PayloadClass
from runtime.contracts import timestamps
from runtime.contracts.kind_steps import ExecutorKind
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AttemptState, Direction, IntentState, TaskState
from runtime.contracts.verdict import StepRequest, VerdictDocument
from runtime.core import clock, ports, transactions
from runtime.core.ids import new_id
from runtime.execution.models import HumanTask
from runtime.execution.services import intent_transitions, result_rules, saga
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.queries import saga_progress
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.proposals.queries import stored_cases

TASK_TYPE = "dir-console/task/1"
# What is asked of whoever undoes a step.
UNDO_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "undone": {"type": "boolean", "enum": [True], "title": "It is undone"},
        "note": {"type": "string", "maxLength": 2000},
    },
    "required": ["undone"],
    "additionalProperties": False,
}


@dataclass(frozen=True, kw_only=True)
class LockedTask:
    """A task with its flow and intent, all locked for this transaction."""

    flow: Flow
    intent: Intent
    task: HumanTask


@dataclass(frozen=True, kw_only=True)
class SignedAnswer:
    """What a person found, as canonical JSON, and the statement that they signed."""

    receipt: bytes
    statement: bytes
    signature: bytes
    key_id: str


def is_human(step: StepRequest) -> bool:
    """Whether a person carries the step out."""
    return step.executor == ExecutorKind.HUMAN


def open_task(journal: Journal, intent: Intent, step: StepRequest) -> HumanTask:
    """Ask the step's group, in place of a call, and let the intent wait. The caller holds the locks."""
    number, body = intent.attempts + 1, step.body
    deadline_at = journal.at + timedelta(seconds=int(body["deadline_s"]))
    task = HumanTask(
        task_id=new_id(),
        tenant=intent.tenant,
        intent=intent,
        number=number,
        step=step.step,
        direction=intent.direction,
        group=str(body["group"]),
        opened_at=journal.at,
        deadline_at=deadline_at,
    )
    task.body = canonical.encode(_shown(task, intent, instructions=str(body["instructions"])))
    task.task_hash = canonical.digest(bytes(task.body))
    changed = Intent.objects.filter(pk=intent.pk, state=IntentState.PENDING, attempts=intent.attempts).update(
        state=IntentState.AWAITING, attempts=number
    )
    if changed != 1:
        raise transactions.ConcurrentUpdateError
    intent.state, intent.attempts = IntentState.AWAITING, number
    attempt = Attempt(
        intent=intent,
        number=number,
        step=step.step,
        direction=intent.direction,
        purpose=intent.purpose,
        target_key=step.key,
        lease_owner="",
        state=AttemptState.AWAITING,
        started_at=journal.at,
    )
    statements.insert([attempt])
    task.save(force_insert=True)
    ports.announce_task(task=task, at=journal.at)
    journal.add(
        events.AttemptStarted(
            intent_id=str(intent.pk),
            number=number,
            step=step.step,
            target_key=step.key,
            lease_until=deadline_at,
            direction=intent.direction,
            purpose=intent.purpose,
        ),
        events.TaskOpened(
            task_id=str(task.pk),
            intent_id=str(intent.pk),
            number=number,
            step=step.step,
            direction=intent.direction,
            group=task.group,
            task_hash=task.task_hash,
            deadline_at=deadline_at,
        ),
    )
    return task


def lock_task(*, task_id: UUID, tenant: str) -> LockedTask | None:
    """Lock a task for this transaction, after its flow, agent and intent; None where the tenant has none."""
    known = HumanTask.objects.of(tenant).filter(pk=task_id).values_list("intent_id", flat=True).first()
    found = None if known is None else locks.lock_with_agent(intent_id=known)
    if found is None:
        return None
    flow, intent = found
    return LockedTask(flow=flow, intent=intent, task=HumanTask.objects.select_for_update().get(pk=task_id))


def is_open(locked: LockedTask, *, at: datetime) -> bool:
    """Whether the task can still be answered."""
    task, intent = locked.task, locked.intent
    is_waiting = intent.state == IntentState.AWAITING and intent.attempts == task.number
    return is_waiting and task.state == TaskState.OPEN and at <= task.deadline_at


def answer(journal: Journal, locked: LockedTask, signed: SignedAnswer, *, by: str) -> None:
    """Take the answer as the receipt of the step: the next one follows, in a window as long as the first."""
    intent, task = locked.intent, locked.task
    plan = IntentPlan.of(intent)
    commitment = ledger.commit_payload(
        tenant=intent.tenant, data_class=PayloadClass.RECEIPTS, body=signed.receipt
    )
    _end(
        task,
        state=TaskState.ANSWERED,
        at=journal.at,
        answer=signed.receipt,
        statement=signed.statement,
        signature=signed.signature,
        key_id=signed.key_id,
        answered_by=by,
    )
    journal.add(
        events.TaskAnswered(
            task_id=str(task.pk),
            intent_id=str(intent.pk),
            number=task.number,
            task_hash=task.task_hash,
            receipt_commitment=commitment,
            statement_digest=canonical.digest(signed.statement),
            signature=signed.signature.hex(),
            key_id=signed.key_id,
        )
    )
    _finish_attempt(journal, task, state=AttemptState.SUCCEEDED, receipt_commitment=commitment)
    asked = saga.question(journal, intent, plan, receipt=signed.receipt, receipt_commitment=commitment)
    if asked.reason is not None:
        return
    is_forward = intent.direction == Direction.FORWARD
    if is_forward and not asked.are_facts_written:
        result_rules.write_facts(journal, intent, plan, receipt=signed.receipt)
    window = intent.proposal.valid_until - intent.proposal.received_at
    saga.advance(
        journal,
        intent,
        plan,
        receipt=signed.receipt,
        receipt_commitment=commitment,
        recorded_by=by,
        valid_until=journal.at + window if is_forward and intent.steps > 1 else None,
        are_facts_written=True,
    )


def list_overdue(*, at: datetime, limit: int) -> list[UUID]:
    """Open tasks whose deadline has passed, the oldest first."""
    rows = HumanTask.objects.filter(state=TaskState.OPEN, deadline_at__lt=at).order_by("deadline_at")
    return list(rows.values_list("pk", flat=True)[:limit])


def expire(task_id: UUID, *, even_in_time: bool = False) -> bool:
    """Ask a person what becomes of a step that nobody carried out in time, in the caller's transaction.

    False where it was answered meanwhile. `even_in_time` closes one that is not due as well: a restored
    database does not know whether it was answered.
    """
    tenant = HumanTask.objects.filter(pk=task_id).values_list("tenant", flat=True).first()
    locked = None if tenant is None else lock_task(task_id=task_id, tenant=tenant)
    if locked is None or locked.task.state != TaskState.OPEN:
        return False
    intent, task = locked.intent, locked.task
    journal = Journal(flow=locked.flow, actor=actors.SYSTEM, at=clock.now())
    if journal.at <= task.deadline_at and not even_in_time:
        return False
    _end(task, state=TaskState.OVERDUE, at=journal.at)
    journal.add(events.TaskOverdue(task_id=str(task.pk), intent_id=str(intent.pk), number=task.number))
    _finish_attempt(journal, task, state=AttemptState.FAILED, error_category=Reason.TASK_OVERDUE.value)
    plan = IntentPlan.of(intent)
    intent_transitions.ask_person(journal, intent, plan, reason=Reason.TASK_OVERDUE, failures=intent.failures)
    journal.write()
    return True


def expire_of(intent_id: UUID) -> bool:
    """The same of the open task of an intent, whenever it is due."""
    rows = HumanTask.objects.filter(intent=intent_id, state=TaskState.OPEN)
    task_id = rows.values_list("pk", flat=True).first()
    return task_id is not None and expire(task_id, even_in_time=True)


def _shown(task: HumanTask, intent: Intent, *, instructions: str) -> dict[str, Any]:
    """All that the person is shown, and what the answer has to look like."""
    proposal = intent.proposal
    case = stored_cases.get_case(proposal_id=intent.proposal_id)
    verdict = VerdictDocument.from_bytes(bytes(proposal.verdict.body))
    is_undone = task.direction == Direction.COMPENSATE
    schema = next((one.receipt_schema for one in case.kind.steps if one.id == task.step), None)
    return {
        "type": TASK_TYPE,
        "tenant": task.tenant,
        "task_id": str(task.pk),
        "dfid": str(intent.flow_id),
        "intent_id": str(intent.pk),
        "number": task.number,
        "step": task.step,
        "direction": str(task.direction),
        "group": task.group,
        "instructions": instructions,
        "effect": verdict.effect_text,
        "impact": verdict.impact.value,
        "policy_kind": case.kind.kind,
        "policy_version": case.kind.version,
        "agent_id": case.facts.agent.agent_id,
        "params": case.proposal.params,
        "receipts": saga_progress.receipts_of(intent),
        "receipt_schema": dict(UNDO_SCHEMA) if is_undone else schema or {"type": "object"},
        "opened_at": timestamps.iso(task.opened_at),
        "deadline_at": timestamps.iso(task.deadline_at),
        "salt": secrets.token_hex(16),
    }


def _end(task: HumanTask, *, state: TaskState, at: datetime, **columns: Any) -> None:
    changed = HumanTask.objects.filter(pk=task.pk, state=TaskState.OPEN).update(
        state=state, ended_at=at, **columns
    )
    if changed != 1:
        raise transactions.ConcurrentUpdateError


def _finish_attempt(
    journal: Journal,
    task: HumanTask,
    *,
    state: AttemptState,
    error_category: str = "",
    receipt_commitment: str | None = None,
) -> None:
    changed = Attempt.objects.filter(
        intent=task.intent_id, number=task.number, state=AttemptState.AWAITING
    ).update(state=state, finished_at=journal.at, error_category=error_category)
    if changed != 1:
        raise transactions.ConcurrentUpdateError
    journal.add(
        events.AttemptFinished(
            intent_id=str(task.intent_id),
            number=task.number,
            result=state,
            error_category=error_category or None,
            receipt_commitment=receipt_commitment,
        )
    )
