"""The call itself, outside every transaction."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from audit import canonical
from runtime.contracts.kind_steps import OnToolError
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.states import Purpose
from runtime.contracts.verdict import StepRequest
from runtime.execution.adapters import locations
from runtime.execution.adapters.executors import registry
from runtime.execution.adapters.executors.call import Executor, RawAnswer, TargetCall
from runtime.execution.services import callbacks
from runtime.execution.services.claiming import Claimed
from runtime.registry.queries.target_endpoints import NOWHERE, TargetEndpoint
from runtime.stops.services import call_gate

DEFAULT_TIMEOUT_S = 10
LONGEST_TIMEOUT_S = 20
LEASE_MARGIN_S = 1.0
NOT_FOUND = 404
HEALTH_TIMEOUT_S = 3
# A person waits for the answer.
ASKED_TIMEOUT_S = 8
SUCCESS = 2


def call(claim: Claimed, *, lease_left_s: float) -> CallResult:
    """Make the one call of a claim. No database connection may be in use.

    Nothing is sent once the lease is nearly over: a worker that was held up would otherwise call after the
    sweeper has asked a person, who may have decided by then.

    Raises:
        call_gate.ClosedError: a stop was pressed since the claim, or the claim is no longer ours. Nothing
            was sent.
    """
    step = claim.step
    limit_s = timeout_s(step.timeout_s, lease_left_s=lease_left_s)
    if limit_s <= 0:
        return Failure(
            category=FailureCategory.LEASE_ENDED,
            failure_class=FailureClass.TRANSIENT,
            detail="the lease was about to expire before the call; nothing was sent",
        )
    execute = registry.EXECUTORS.get(step.executor)
    if execute is None:
        return _unknown_target(f"there is no executor named {step.executor}")
    if step.executor in registry.REMOTE and claim.place is None:
        return _unknown_target(f"there is no target named {step.target}")
    if callbacks.is_asked(step, claim.direction) and claim.purpose is Purpose.CALL and claim.later is None:
        return Failure(
            category=FailureCategory.CALLBACK_UNAVAILABLE,
            failure_class=FailureClass.TERMINAL,
            detail="nothing was sent: a callback needs DIR_PUBLIC_URL here, and secret_env at the target",
        )
    place, answered = claim.place or NOWHERE, list[RawAnswer]()
    is_asked_for = claim.later is not None and claim.later.is_asked_for
    call = TargetCall(
        base_url=place.base_url,
        secret_env=place.secret_env,
        method=step.method,
        path=step.path,
        body=_body(claim),
        key=step.key,
        traceparent=claim.traceparent,
        timeout_s=limit_s,
        gate=lambda: gate(claim),
        refuses=place.refuses,
        observe=answered.append if is_asked_for else None,
        may_take_on=claim.later is not None,
        reuses_connection=claim.purpose is Purpose.PROBE or claim.on_unknown is not OnUnknown.PERSON,
        pin=claim.pin,
        note_tool=claim.other_tools.append,
        on_tool_error=step.on_tool_error or OnToolError.UNKNOWN,
    )
    if claim.purpose is Purpose.CALL:
        return _note_location(claim, place, answered, execute(call))
    # A message of its own: under the call's key a target might answer what it answered then.
    return _probe(execute, replace(call, path=step.probe or "/", key=f"{step.key}-probe-{claim.number}"))


def ask(
    *,
    step: StepRequest,
    place: TargetEndpoint,
    message: str,
    traceparent: str,
    gate: Callable[[], AbstractContextManager[None]],
    observe: Callable[[RawAnswer], None],
) -> CallResult:
    """Send the probe of a step for a person. No database connection may be in use.

    `message` names the request, which has no effect; `observe` is given the answer as it came.

    Raises:
        call_gate.ClosedError: a stop was pressed meanwhile. Nothing was sent.
    """
    question = TargetCall(
        base_url=place.base_url,
        secret_env=place.secret_env,
        method="GET",
        path=step.probe or "/",
        body=b"",
        key=message,
        traceparent=traceparent,
        timeout_s=min(step.timeout_s or DEFAULT_TIMEOUT_S, ASKED_TIMEOUT_S),
        gate=gate,
        refuses=place.refuses,
        observe=observe,
    )
    return _probe(registry.EXECUTORS[step.executor], question)


def ask_result(
    *,
    tenant: str,
    agent_pk: int,
    step: StepRequest,
    place: TargetEndpoint,
    location: str,
    message: str,
    traceparent: str,
) -> RawAnswer | None:
    """Ask a target for the result of a call that it has taken on; None where no whole answer came.

    No database connection may be in use. `message` names the request, which has no effect.

    Raises:
        call_gate.ClosedError: a stop holds it back. Nothing was sent.
    """
    answered = list[RawAnswer]()
    registry.EXECUTORS[step.executor](
        TargetCall(
            base_url=locations.origin_of(place.base_url),
            secret_env=place.secret_env,
            method="GET",
            path=location,
            body=b"",
            key=message,
            traceparent=traceparent,
            timeout_s=min(step.timeout_s or DEFAULT_TIMEOUT_S, ASKED_TIMEOUT_S),
            gate=lambda: call_gate.querying(tenant=tenant, agent_pk=agent_pk),
            observe=answered.append,
        )
    )
    return next((answer for answer in answered if not answer.is_cut), None)


def is_unavailable(claim: Claimed, *, lease_left_s: float) -> bool:
    """Whether the target reports at its `health` path that it is unavailable; asked before a trial call."""
    limit_s = timeout_s(HEALTH_TIMEOUT_S, lease_left_s=lease_left_s)
    if claim.place is None or not claim.place.health or limit_s <= 0:
        return False
    found = registry.EXECUTORS[claim.step.executor](
        TargetCall(
            base_url=claim.place.base_url,
            secret_env=claim.place.secret_env,
            method="GET",
            path=claim.place.health,
            body=b"",
            key=f"{claim.step.key}-health-{claim.number}",
            traceparent=claim.traceparent,
            timeout_s=limit_s,
            gate=lambda: gate(claim),
        )
    )
    return found.status_code is None or found.status_code // 100 != SUCCESS


def gate(claim: Claimed) -> AbstractContextManager[None]:
    """What the first bytes of the claim's call are sent inside."""
    return call_gate.passing(
        tenant=claim.tenant,
        agent_pk=claim.where.agent_pk,
        intent_id=claim.intent_id,
        number=claim.number,
        only_stops=not claim.has_window,
    )


def timeout_s(asked_s: int, *, lease_left_s: float) -> float:
    """Seconds for the whole call: it ends before the lease, or the sweeper would find it in mid-flight."""
    return min(asked_s or DEFAULT_TIMEOUT_S, LONGEST_TIMEOUT_S, lease_left_s - LEASE_MARGIN_S)


def _probe(execute: Executor, question: TargetCall) -> CallResult:
    result = execute(replace(question, method="GET", body=b""))
    # 404 means that the target has done nothing under the key.
    is_settled = isinstance(result, Failure) and result.failure_class is FailureClass.TERMINAL
    if is_settled and result.status_code == NOT_FOUND:
        return Failure(
            category=FailureCategory.NOT_HAPPENED,
            failure_class=FailureClass.TERMINAL,
            detail="the target has no call with this key; it did not take effect",
            status_code=result.status_code,
        )
    return result


def _note_location(
    claim: Claimed, place: TargetEndpoint, answered: Sequence[RawAnswer], result: CallResult
) -> CallResult:
    """The result of a call, whose target has named the place of its result where it has taken the call on."""
    took_on = isinstance(result, Receipt) and result.status_code == callbacks.ACCEPTED
    if claim.later is None or not claim.later.is_asked_for or not took_on:
        return result
    headers = answered[-1].headers if answered else ()
    location = locations.location_of(headers, base_url=place.base_url, path=claim.step.path)
    if location is None:
        return Failure(
            category=FailureCategory.ANSWER_UNREADABLE,
            failure_class=FailureClass.UNKNOWN,
            detail="the target took the call on and named no Location of its own to ask; it may take effect",
            status_code=callbacks.ACCEPTED,
        )
    claim.later.locations.append(location)
    return result


def _body(claim: Claimed) -> bytes:
    """The bytes that were rendered at ACCEPT, and where the result may be reported."""
    body = claim.step.body
    if claim.later is not None and claim.later.url:
        body = {**body, callbacks.MEMBER: claim.later.url}
    return canonical.encode(body)


def _unknown_target(detail: str) -> Failure:
    return Failure(
        category=FailureCategory.TARGET_UNKNOWN, failure_class=FailureClass.TERMINAL, detail=detail
    )
