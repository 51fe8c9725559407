"""Asks targets for the results of calls that they have taken on, where they named with `Location`.

A question has no effect and no entry: only the result has. It is asked outside every transaction, under the
gate of the stops; what comes is taken by the same function as a report. A target that does not answer is
asked again, until the deadline.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from django.conf import settings

from audit import canonical
from runtime.contracts.callbacks import Failed, Succeeded
from runtime.contracts.kind_steps import ResultAsked
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.states import CallbackState
from runtime.contracts.verdict import StepRequest
from runtime.core import clock, transactions
from runtime.execution.adapters import retry_after
from runtime.execution.adapters.executors.call import RawAnswer
from runtime.execution.models import TargetCallback
from runtime.execution.services import callback_reports, callbacks, calling
from runtime.flows.models import Flow
from runtime.kernel import following, ijson
from runtime.kernel.following import Found
from runtime.registry.queries import target_endpoints
from runtime.registry.queries.target_endpoints import TargetEndpoint
from runtime.stops.services import call_gate

BATCH = 100
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Question:
    pk: int
    flow: Flow
    step: StepRequest
    follow: ResultAsked
    place: TargetEndpoint
    location: str
    message: str


def ask_due(*, is_stopping: Callable[[], bool] = lambda: False) -> int:
    """Ask the targets whose turn it is; how many were asked. Any number may run at once.

    A target that gave no answer is not asked about its other calls in this round: each would cost as long.
    """
    asked, silent = 0, set[str]()
    for row in callbacks.list_askable(tenant=settings.DIR_TENANT, at=clock.now(), limit=BATCH):
        if is_stopping():
            break
        if row.target in silent:
            continue
        try:
            answered = _ask(row)
        except call_gate.ClosedError:
            continue  # a stop: it is asked again at its next turn
        except Exception:
            _log.exception("the target %s could not be asked for a result", row.target)
            continue
        if answered is False:
            silent.add(row.target)
        asked += answered is not None
    return asked


def _ask(row: TargetCallback) -> bool | None:
    """Ask for one result and take it. None where it was not to be asked now, False where no answer came."""
    question = transactions.retry_on_conflict(partial(_begin, row.pk))
    if question is None:
        return None
    transactions.give_back_connection()
    answer = calling.ask_result(
        tenant=question.flow.tenant,
        agent_pk=question.flow.agent_id,
        step=question.step,
        place=question.place,
        location=question.location,
        message=question.message,
        traceparent=question.flow.traceparent,
    )
    if answer is None:
        return False
    body = _object_of(answer)
    found = following.judge(question.follow, status_code=answer.status_code, body=body)
    match found:
        case Found.OPEN:
            _put_off(question, answer)
            return True
        case Found.DONE:
            taken = callback_reports.take_found(row.pk, Succeeded(status="succeeded", receipt=body or {}))
        case Found.FAILED:
            taken = callback_reports.take_found(row.pk, Failed(status="failed"))
    if isinstance(taken, Problem):
        _log.info("the result of attempt %s at %s is not taken: %s", row.number, row.target, taken.code)
    return True


def _begin(pk: int) -> _Question | None:
    """Take the turn of one callback, in the caller's transaction: nobody else asks before its next."""
    at = clock.now()
    row = TargetCallback.objects.filter(pk=pk, state=CallbackState.OPEN, next_ask_at__lte=at).first()
    found = None if row is None else callback_reports.open_for_asking(pk)
    if row is None or found is None:
        return None
    flow, step, follow = found
    next_at = at + timedelta(seconds=follow.every_s)
    if not TargetCallback.objects.filter(pk=pk, next_ask_at=row.next_ask_at).update(next_ask_at=next_at):
        return None
    place = target_endpoints.get_place(tenant=row.tenant, name=row.target)
    if place is None:
        return None
    return _Question(
        pk=pk,
        flow=flow,
        step=step,
        follow=follow,
        place=place,
        location=row.location,
        message=f"{step.key}-result-{row.number}-{int(at.timestamp() * 1000)}",
    )


def _put_off(question: _Question, answer: RawAnswer) -> None:
    """A target that says how long it still needs is not asked before."""
    headers = (value for name, value in answer.headers if name.lower() == "retry-after")
    told_s = retry_after.seconds(next(headers, ""))
    if told_s is None:
        return
    next_at = clock.now() + timedelta(seconds=following.wait_s(question.follow, told_s=told_s))
    TargetCallback.objects.filter(pk=question.pk, next_ask_at__isnull=False).update(next_ask_at=next_at)


def _object_of(answer: RawAnswer) -> dict[str, object] | None:
    """The JSON object of an answer; None where it is none."""
    try:
        value = ijson.parse(answer.body).value
    except ProblemError:
        return None
    return canonical.normalise(value) if isinstance(value, dict) else None
