"""The call itself, outside every transaction."""

from django.conf import settings

from audit import canonical
from runtime.adapters.executors import registry
from runtime.adapters.executors.call import Call
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass
from runtime.services.execution.claiming import Claimed, Place

DEFAULT_TIMEOUT_S = 10
LONGEST_TIMEOUT_S = 20


def call(claim: Claimed) -> CallResult:
    """Make the one call of a claim. No database connection may be in use."""
    step = claim.step
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
            timeout_s=timeout_s(step.timeout_s),
        )
    )


def timeout_s(asked_s: int) -> int:
    """Seconds for the whole call: shorter than the lease, or the sweeper would find it in mid-flight."""
    wanted_s = min(asked_s or DEFAULT_TIMEOUT_S, LONGEST_TIMEOUT_S)
    return max(1, min(wanted_s, settings.DIR_LEASE_S - 1))


def _unknown_target(detail: str) -> Failure:
    return Failure(
        category=FailureCategory.TARGET_UNKNOWN, failure_class=FailureClass.TERMINAL, detail=detail
    )
