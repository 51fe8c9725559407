"""What a target reports of a call that it has taken on: its progress, and once the result.

Believed only with the token of the address and a signature by the target's secret, or as the answer of the
target itself, asked where it lives (`result_asking`). The result is what the call itself would have answered,
so all that follows from an answer follows from it.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from audit import actors, canonical, events, ledger, queries
from audit.events import Kind
from audit.payload_keys import PayloadClass
from runtime.contracts.callbacks import CallbackReport, Failed, Progress, Succeeded
from runtime.contracts.kind_steps import ResultAsked
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.redaction import RedactedIn
from runtime.contracts.states import AttemptState, CallbackState, Direction, IntentState
from runtime.contracts.verdict import StepRequest
from runtime.core import clock, mismatches, transactions
from runtime.core.mismatches import Mismatch
from runtime.epochs.services import epochs
from runtime.execution.adapters import signing
from runtime.execution.models import TargetCallback
from runtime.execution.services import callbacks, circuit, doubts, recording
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.queries import recorded_flow
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services import locks, redacting
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import redaction
from runtime.registry.queries import target_endpoints

_UNDER_WAY = (IntentState.CLAIMED, IntentState.AWAITING)
_TAKING = (CallbackState.OPEN, CallbackState.OVERDUE)
UNKNOWN = Problem(code=ProblemCode.CALLBACK_NOT_FOUND, detail="No callback has this address.")
UNSIGNED = Problem(
    code=ProblemCode.SIGNATURE_INVALID,
    detail="The report is not signed with the target's secret (Standard Webhooks), or its timestamp is more "
    "than five minutes off.",
)
TAMPERED = "What is stored of this call does not match the ledger, so no report about it is taken."


class Taken(StrEnum):
    """What became of a report. KNOWN: it was there before. NOTED: nothing waits for it any more."""

    TAKEN = "taken"
    KNOWN = "known"
    NOTED = "noted"


@dataclass(frozen=True, kw_only=True)
class _Locked:
    flow: Flow
    intent: Intent
    attempt: Attempt
    callback: TargetCallback
    plan: IntentPlan


def refuse_sender(token: str, headers: Mapping[str, str], body: bytes) -> Problem | None:
    """Why nobody looks at what a sender has sent: no such address, or no signature by the target's secret."""
    row = TargetCallback.objects.filter(token_hash=callbacks.hash_of(token)).first()
    if row is None:
        return UNKNOWN
    place = target_endpoints.get_place(tenant=row.tenant, name=row.target)
    is_signed = place is not None and signing.is_signed(
        secret_env=place.secret_env, headers=headers, body=body
    )
    return None if is_signed else UNSIGNED


@transactions.retried
def take(token: str, report: CallbackReport) -> Taken | Problem:
    """Take a report of a sender that was not refused, or refuse it with a Problem.

    Raises `transactions.BusyError` after three lost races.
    """
    waiting = epochs.refuse_while_recovering()
    if waiting is not None:
        return waiting
    pk = (
        TargetCallback.objects.filter(token_hash=callbacks.hash_of(token))
        .values_list("pk", flat=True)
        .first()
    )
    return UNKNOWN if pk is None else _take(pk, report.root)


@transactions.retried
def take_found(pk: int, said: Succeeded | Failed) -> Taken | Problem:
    """Take the result that a target gave where it was asked for it, or refuse it with a Problem.

    Raises `transactions.BusyError` after three lost races.
    """
    return epochs.refuse_while_recovering() or _take(pk, said)


def open_for_asking(pk: int) -> tuple[Flow, StepRequest, ResultAsked] | None:
    """Flow, step and its `follow` of a callback whose target may be asked now; None where it may not.

    In the caller's transaction. One that is not as the ledger has it is noted there, and is not asked again.
    """
    locked = _lock(pk)
    if locked is None or locked.callback.state != CallbackState.OPEN:
        return None
    unlike, current = _compare(locked), locked.plan.current(locked.intent)
    is_awaited = _is_current(locked) and locked.intent.state == IntentState.AWAITING
    if not unlike and is_awaited and current is not None and current.step.follow is not None:
        return locked.flow, current.step, current.step.follow
    _change(locked.callback, next_ask_at=None)
    if unlike:
        _note(locked, unlike)
    return None


def _take(pk: int, said: Progress | Succeeded | Failed) -> Taken | Problem:
    locked = _lock(pk)
    if locked is None:
        return UNKNOWN
    unlike = _compare(locked)
    if unlike:
        _note(locked, unlike)
        return Problem(code=ProblemCode.TAMPERED, detail=TAMPERED)
    if locked.callback.state not in _TAKING:
        detail = "The result of this call is known. Nothing more is taken at this address."
        return Problem(code=ProblemCode.CALLBACK_CLOSED, detail=detail)
    journal = Journal(flow=locked.flow, actor=actors.SYSTEM, at=clock.now())
    if isinstance(said, Progress):
        return _progress(journal, locked, said)
    return _result(journal, locked, said)


def _note(locked: _Locked, unlike: Sequence[Mismatch]) -> None:
    journal = Journal(flow=locked.flow, actor=actors.SYSTEM, at=clock.now())
    journal.add(*(mismatch.event() for mismatch in unlike))
    journal.write()


def expire(pk: int, *, even_in_time: bool = False) -> bool:
    """Nothing was reported in time: nobody knows what the call did. In the caller's transaction.

    False where it was reported meanwhile. `even_in_time` ends one that is not due as well: a restored
    database does not know whether it was reported.
    """
    locked = _lock(pk)
    if locked is None or locked.callback.state != CallbackState.OPEN:
        return False
    journal = Journal(flow=locked.flow, actor=actors.SYSTEM, at=clock.now())
    if journal.at <= locked.callback.deadline_at and not even_in_time:
        return False
    _end(locked.callback, state=CallbackState.OVERDUE, at=journal.at)
    journal.add(events.CallbackOverdue(intent_id=str(locked.intent.pk), number=locked.callback.number))
    if locked.intent.state == IntentState.AWAITING and _is_current(locked):
        overdue = Failure(
            category=FailureCategory.CALLBACK_OVERDUE,
            failure_class=FailureClass.UNKNOWN,
            detail="the target took the call on and gave no result in time; it may have taken effect",
            status_code=callbacks.ACCEPTED,
        )
        _follow(journal, locked, overdue)
    journal.write()
    return True


def expire_of(intent_id: UUID) -> bool:
    """The same of the open callback of an intent, whenever it is due."""
    pk = callbacks.get_open(intent_id)
    return pk is not None and expire(pk, even_in_time=True)


def _lock(pk: int) -> _Locked | None:
    """Lock a callback for this transaction, after its flow, agent and intent."""
    known = TargetCallback.objects.filter(pk=pk).values_list("intent_id", flat=True).first()
    found = None if known is None else locks.lock_with_agent(intent_id=known)
    if found is None:
        return None
    flow, intent = found
    row = TargetCallback.objects.select_for_update().get(pk=pk)
    attempt = Attempt.objects.get(intent=intent, number=row.number)
    return _Locked(flow=flow, intent=intent, attempt=attempt, callback=row, plan=IntentPlan.of(intent))


def _is_current(locked: _Locked) -> bool:
    return locked.intent.attempts == locked.callback.number


def _compare(locked: _Locked) -> list[Mismatch]:
    """What of the callback, of its intent or of who may sign for its target is not as the ledger has it."""
    row = locked.callback
    told = queries.list_payloads(
        tenant=row.tenant, stream=str(locked.flow.pk), kinds=(Kind.CALLBACK_OPENED, Kind.CALLBACK_AWAITED)
    )
    opened = (said for kind, said in told if kind == Kind.CALLBACK_OPENED)
    awaited = (said for kind, said in told if kind == Kind.CALLBACK_AWAITED)
    own = (str(row.intent_id), row.number)
    place = next((said for said in awaited if (said["intent_id"], said["number"]) == own), {})
    recorded = {
        **next((said for said in opened if said["token_hash"] == row.token_hash), {}),
        "location": place.get("location_hash") or "",
    }
    held = {
        "intent_id": str(row.intent_id),
        "number": row.number,
        "target": row.target,
        "location": callbacks.hash_of(row.location) if row.location else "",
    }
    found: list[Mismatch | None] = [
        mismatches.of_values(f"targetcallback.{name}", str(row.pk), recorded.get(name, ""), value)
        for name, value in held.items()
        if recorded.get(name) != value
    ]
    known = recorded_flow.of_flow(tenant=row.tenant, dfid=locked.flow.pk)
    found.append(known.compare_intent(locked.intent))
    target = target_endpoints.get_target(tenant=row.tenant, name=row.target)
    found.append(None if target is None else known.compare_target(target))
    return [mismatch for mismatch in found if mismatch is not None]


def _progress(journal: Journal, locked: _Locked, said: Progress) -> Taken:
    row = locked.callback
    if said.number <= row.report:
        return Taken.KNOWN
    _change(row, report=said.number, percent=said.percent, reported_at=journal.at)
    journal.add(
        events.CallbackProgressed(
            intent_id=str(locked.intent.pk),
            number=row.number,
            report=said.number,
            percent=said.percent,
            note_commitment=_keep_note(journal, locked, said.note),
        )
    )
    journal.write()
    return Taken.TAKEN if row.state == CallbackState.OPEN else Taken.NOTED


def _result(journal: Journal, locked: _Locked, said: Succeeded | Failed) -> Taken:
    row = locked.callback
    is_awaited = (
        _is_current(locked)
        and locked.intent.state in _UNDER_WAY
        and locked.attempt.state in (AttemptState.STARTED, AttemptState.AWAITING)
    )
    _change(row, reported_at=journal.at)
    _end(row, state=CallbackState.REPORTED, at=journal.at)
    journal.add(
        events.CallbackReported(
            intent_id=str(locked.intent.pk),
            number=row.number,
            status=said.status,
            note_commitment=_keep_note(journal, locked, said.note if isinstance(said, Failed) else None),
            is_late=not is_awaited,
        )
    )
    result = redacting.take_receipt(
        journal, _as_answer(said), locked.plan.redact, intent_id=str(locked.intent.pk), number=row.number
    )
    if is_awaited:
        _follow(journal, locked, result)
    else:
        recording.note_late(journal, locked.intent, locked.attempt, result)
    journal.write()
    return Taken.TAKEN if is_awaited else Taken.NOTED


def _as_answer(said: Succeeded | Failed) -> CallResult:
    """What the call itself would have answered."""
    if isinstance(said, Succeeded):
        return Receipt(
            status_code=callbacks.ACCEPTED, body=canonical.encode(canonical.normalise(said.receipt))
        )
    return Failure(
        category=FailureCategory.TARGET_REFUSED,
        failure_class=FailureClass.TERMINAL,
        detail="the target took the call on and reported that it was not done",
        status_code=callbacks.ACCEPTED,
    )


def _follow(journal: Journal, locked: _Locked, result: CallResult) -> None:
    """What follows from an answer; the steps after it have a window as long as the proposal's own."""
    intent, plan = locked.intent, locked.plan
    current = plan.current(intent)
    place = None
    if current is not None:
        place = target_endpoints.get_place(tenant=intent.tenant, name=current.step.target)
        if intent.state == IntentState.CLAIMED:
            # The worker that called comes too late to say so.
            circuit.report_result(
                journal, intent, step=current.step, number=locked.attempt.number, result=result
            )
    window = intent.proposal.valid_until - intent.proposal.received_at
    is_followed = intent.direction == Direction.FORWARD and intent.steps > 1 and isinstance(result, Receipt)
    recording.follow_result(
        journal,
        intent,
        plan,
        locked.attempt,
        result,
        on_unknown=OnUnknown.PERSON if current is None else doubts.on_unknown(current, place),
        jitter=random.random(),  # noqa: S311  # spreads retries, guards nothing
        valid_until=journal.at + window if is_followed else None,
    )


def _keep_note(journal: Journal, locked: _Locked, words: str | None) -> str | None:
    """The commitment of the target's words, as the kind lets them into the store; None where it has none."""
    if words is None:
        return None
    taken = redaction.redact(words, locked.plan.redact, source=RedactedIn.RECEIPT)
    about, number = str(locked.intent.pk), locked.callback.number
    redacting.note(journal, taken.times, source=RedactedIn.RECEIPT, about=about, number=number)
    return ledger.commit_payload(
        tenant=locked.flow.tenant, data_class=PayloadClass.RECEIPTS, body=canonical.encode(taken.value)
    )


def _change(row: TargetCallback, **columns: Any) -> None:
    changed = TargetCallback.objects.filter(pk=row.pk, state=row.state, report=row.report).update(**columns)
    if changed != 1:
        raise transactions.ConcurrentUpdateError
    for name, value in columns.items():
        setattr(row, name, value)


def _end(row: TargetCallback, *, state: CallbackState, at: datetime) -> None:
    ended = {"state": state, "ended_at": at, "next_ask_at": None}
    changed = TargetCallback.objects.filter(pk=row.pk, state=row.state).update(**ended)
    if changed != 1:
        raise transactions.ConcurrentUpdateError
    row.state, row.ended_at = state, at
