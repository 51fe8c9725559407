"""The call itself, outside every transaction."""

from audit import canonical
from runtime.adapters.executors import registry
from runtime.adapters.executors.call import Call
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass
from runtime.services.execution.claiming import Claimed, Place

DEFAULT_TIMEOUT_S = 10
LONGEST_TIMEOUT_S = 20
LEASE_MARGIN_S = 1.0


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
    return execute(
        Call(
            base_url=place.base_url,
            secret_env=place.secret_env,
            method=step.method,
            path=step.path,
            body=canonical.encode(step.body),
            key=step.key,
            traceparent=claim.traceparent,
            timeout_s=limit_s,
        )
    )


def timeout_s(asked_s: int, *, lease_left_s: float) -> float:
    """Seconds for the whole call: it ends before the lease, or the sweeper would find it in mid-flight."""
    return min(asked_s or DEFAULT_TIMEOUT_S, LONGEST_TIMEOUT_S, lease_left_s - LEASE_MARGIN_S)


def _unknown_target(detail: str) -> Failure:
    return Failure(
        category=FailureCategory.TARGET_UNKNOWN, failure_class=FailureClass.TERMINAL, detail=detail
    )
