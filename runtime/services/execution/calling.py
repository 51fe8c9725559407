"""The call itself, outside every transaction."""

from dataclasses import replace

from audit import canonical
from runtime.adapters.executors import registry
from runtime.adapters.executors.call import Call
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass
from runtime.contracts.states import Purpose
from runtime.services.execution.claiming import Claimed, Place

DEFAULT_TIMEOUT_S = 10
LONGEST_TIMEOUT_S = 20
LEASE_MARGIN_S = 1.0
NOT_FOUND = 404


def call(claim: Claimed, *, lease_left_s: float) -> CallResult:
    """Make the one call of a claim. No database connection may be in use.

    Nothing is sent once the lease is nearly over: a worker that was held up would otherwise call after the
    sweeper has asked a person, who may have decided by then.
    """
    step = claim.step
    limit_s = timeout_s(step.timeout_s, lease_left_s=lease_left_s)
    if limit_s <= 0:
        return Failure(
            category=FailureCategory.LEASE_ENDED,
            failure_class=FailureClass.TRANSIENT,
            detail="the lease was nearly over before the call; nothing was sent",
        )
    execute = registry.EXECUTORS.get(step.executor)
    if execute is None:
        return _unknown_target(f"no executor is called {step.executor}")
    if step.executor in registry.REMOTE and claim.place is None:
        return _unknown_target(f"no target is called {step.target}")
    place = claim.place or Place(base_url="", secret_env="")
    call = Call(
        base_url=place.base_url,
        secret_env=place.secret_env,
        method=step.method,
        path=step.path,
        body=canonical.encode(step.body),
        key=step.key,
        traceparent=claim.traceparent,
        timeout_s=limit_s,
    )
    if claim.purpose is Purpose.CALL:
        return execute(call)
    # A message of its own: under the call's key a target might answer what it answered then.
    key = f"{step.key}-probe-{claim.number}"
    return _answer_of(execute(replace(call, method="GET", path=step.probe or "/", body=b"", key=key)))


def _answer_of(result: CallResult) -> CallResult:
    """What a probe found: 404 says that the target has done nothing under the key."""
    if isinstance(result, Failure) and result.status_code == NOT_FOUND:
        return Failure(
            category=FailureCategory.NOT_HAPPENED,
            failure_class=FailureClass.TERMINAL,
            detail="the target knows no call under this key; nothing has happened",
            status_code=result.status_code,
        )
    return result


def timeout_s(asked_s: int, *, lease_left_s: float) -> float:
    """Seconds for the whole call: it ends before the lease, or the sweeper would find it in mid-flight."""
    return min(asked_s or DEFAULT_TIMEOUT_S, LONGEST_TIMEOUT_S, lease_left_s - LEASE_MARGIN_S)


def _unknown_target(detail: str) -> Failure:
    return Failure(
        category=FailureCategory.TARGET_UNKNOWN, failure_class=FailureClass.TERMINAL, detail=detail
    )
