"""A question to a target that changes nothing there: what a webhook guard thinks of a proposal."""

from dataclasses import dataclass

from django.db import InterfaceError, OperationalError
from pydantic import ValidationError

from runtime.contracts.guard import TargetAnswer
from runtime.contracts.receipt import Failure
from runtime.core import transactions
from runtime.execution.adapters.executors import http
from runtime.execution.adapters.executors.call import TargetCall
from runtime.registry.queries import target_endpoints
from runtime.stops.services import call_gate


@dataclass(frozen=True, kw_only=True)
class Unanswered:
    """No answer that could be used; `why` never quotes what the target sent."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Held:
    """Nothing was asked, since nothing may be called now; `why` is a code."""

    why: str


def consult(
    *, tenant: str, target: str, path: str, body: bytes, key: str, timeout_s: float
) -> TargetAnswer | Unanswered | Held:
    """POST canonical JSON to a configured target and read its answer strictly. Everything is a value.

    The call goes the same way as every other: vetted addresses, signed where the target names a secret, the
    gate of the stops, one deadline, a capped answer, the same key at each try. It is outside the circuit of
    the target, so that a guard which is down cannot hold back what executes there.
    """
    place = target_endpoints.get_place(tenant=tenant, name=target)
    if place is None:
        return Unanswered(why=f"there is no target named {target}")
    transactions.give_back_connection()
    question = TargetCall(
        base_url=place.base_url,
        secret_env=place.secret_env,
        method="POST",
        path=path,
        body=body,
        key=key,
        traceparent="",
        timeout_s=timeout_s,
        gate=lambda: call_gate.asking(tenant=tenant),
    )
    try:
        result = http.execute(question)
    except call_gate.ClosedError as error:
        return Held(why=error.why)
    except (OperationalError, InterfaceError):
        return Unanswered(why="the database failed during the guard call")
    if isinstance(result, Failure):
        return Unanswered(why=f"{result.category.value}: {result.detail}")
    try:
        return TargetAnswer.from_bytes(result.body)
    except ValidationError:
        return Unanswered(
            why="the answer is not the object {flag, confidence, message} expected from a guard"
        )
