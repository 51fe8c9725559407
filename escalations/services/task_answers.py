"""A person's answer to a task: signed, bound to what was shown, and the receipt of the step.

The transaction of a decision: lock, compare with the ledger, ask policy, write, append, commit.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from audit import actors, canonical, events
from audit.sealing import own_key
from escalations import recorded_tasks, task_policy
from escalations.policy import Person
from escalations.services import deciding, policy_context
from escalations.task_policy import TaskContext
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.redaction import RedactedIn
from runtime.contracts.states import Impact
from runtime.core import clock, transactions
from runtime.epochs.services import epochs
from runtime.execution.services import human_steps
from runtime.execution.services.human_steps import LockedTask, SignedAnswer
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import redaction, schemas

STATEMENT_TYPE = "dir-console/task-answer/1"
TAMPERED = (
    "The stored data of this task does not match the ledger, so no answer can be based on it. Have the "
    "database examined."
)


@dataclass(frozen=True, kw_only=True)
class TaskAnswer:
    """What the form sends: the hash of what was shown, and the answer as a JSON object."""

    task_hash: str
    answer: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TaskAnswered:
    """The answer was taken, and the flow goes on."""

    dfid: UUID


@transactions.retried
def answer(*, tenant: str, task_id: UUID, person: Person, request: TaskAnswer) -> TaskAnswered | Problem:
    """Take an answer, or refuse it with a Problem; of two people at once one wins.

    `person` comes from the session. Raises `transactions.BusyError` after three lost races.
    """
    locked = human_steps.lock_task(task_id=task_id, tenant=tenant)
    if locked is None:
        return Problem(code=ProblemCode.TASK_NOT_FOUND, detail="No task has this id.")
    journal = Journal(flow=locked.flow, actor=actors.user(person.user_id), at=clock.now())
    refused = _refuse(locked, journal, person, request)
    if refused is not None:
        journal.add(
            events.TaskRefused(task_id=str(task_id), intent_id=str(locked.intent.pk), code=refused.code)
        )
        journal.write()
        return refused
    signed = _sign(locked, request, person, at=journal.at)
    human_steps.answer(journal, locked, signed, by=journal.actor)
    journal.write()
    return TaskAnswered(dfid=locked.flow.dfid)


def context_of(locked: LockedTask, *, at: datetime) -> TaskContext:
    """What policy may know of a task at `at`, from its rows."""
    agent, shown = locked.flow.agent, recorded_tasks.shown_of(locked.task)
    found = str(shown.get("impact", ""))
    return TaskContext(
        is_open=human_steps.is_open(locked, at=at),
        group=locked.task.group,
        # A word that is none, which only a rewritten row holds, weighs most.
        impact=Impact(found) if found in Impact.values() else Impact.CRITICAL,
        author=locked.intent.proposal.author,
        agent_owner=agent.owner,
        owners_left=policy_context.list_owners_left(agent, at),
    )


def _refuse(locked: LockedTask, journal: Journal, person: Person, request: TaskAnswer) -> Problem | None:
    """What speaks against an answer, the gravest first."""
    waiting = epochs.refuse_while_recovering()
    if waiting is not None:
        return _problem(locked, waiting.code, waiting.detail)
    context = context_of(locked, at=journal.at)
    denied = task_policy.may_answer(person, context, now_ms=timestamps.to_ms(journal.at))
    if denied is not None:
        return _problem(locked, denied.code, denied.why)
    unlike = recorded_tasks.compare(locked.task)
    if unlike:
        journal.add(*(mismatch.event() for mismatch in unlike))
        return _problem(locked, ProblemCode.TAMPERED, TAMPERED)
    if not deciding.is_hash(request.task_hash):
        return _problem(locked, ProblemCode.HASH_UNREADABLE, "task_hash must be the hash shown on the page.")
    if request.task_hash != locked.task.task_hash:
        why = "You were shown something else. Review the task again."
        return _problem(locked, ProblemCode.EVIDENCE_CHANGED, why)
    return _unfit(locked, request)


def _unfit(locked: LockedTask, request: TaskAnswer) -> Problem | None:
    """An answer that the step cannot take: it does not fit the form, or has what is never stored."""
    schema = recorded_tasks.shown_of(locked.task)["receipt_schema"]
    found = schemas.violations(schema, dict(request.answer))
    if found:
        return Problem(
            code=ProblemCode.ANSWER_INVALID,
            detail="The answer does not fit the form. Correct the fields named.",
            dfid=str(locked.flow.dfid),
            violations=tuple(Violation(pointer=item.pointer or "/", message=item.message) for item in found),
        )
    rules = IntentPlan.of(locked.intent).redact
    never = redaction.redact(dict(request.answer), rules, source=RedactedIn.RECEIPT).times
    if never:
        detail = f"The answer has what this policy kind never stores ({', '.join(never)}). Leave it out."
        return _problem(locked, ProblemCode.RECEIPT_NOT_REDACTED, detail)
    return None


def _sign(locked: LockedTask, request: TaskAnswer, person: Person, *, at: datetime) -> SignedAnswer:
    task = locked.task
    receipt = canonical.encode(canonical.normalise(dict(request.answer)))
    statement = canonical.encode(
        {
            "type": STATEMENT_TYPE,
            "tenant": task.tenant,
            "task_id": str(task.pk),
            "task_hash": task.task_hash,
            "dfid": str(locked.flow.dfid),
            "intent_id": str(task.intent_id),
            "number": task.number,
            "step": task.step,
            "direction": str(task.direction),
            "group": task.group,
            "answer": canonical.decode(receipt),
            "approver": actors.user(person.user_id),
            "answered_at": timestamps.iso(at),
            "nonce": secrets.token_hex(16),
        }
    )
    signer = own_key.signer(tenant=task.tenant, at=at)
    return SignedAnswer(
        receipt=receipt, statement=statement, signature=signer.sign(statement), key_id=signer.key_id
    )


def _problem(locked: LockedTask, code: ProblemCode, detail: str) -> Problem:
    return Problem(code=code, detail=detail, dfid=str(locked.flow.dfid))
