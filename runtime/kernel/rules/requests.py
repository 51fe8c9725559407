"""The requests of a kind's steps, rendered once at ACCEPT: CEL map order is not stable."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit import canonical
from runtime.contracts.policy_kind import PolicyKind, Request, Step
from runtime.kernel.rules import language, templates
from runtime.kernel.rules.language import ErrorCode, ExpressionError


@dataclass(frozen=True, slots=True)
class Rendered:
    """One call as it will be sent: `body` is a JSON object, integral numbers as integers."""

    step: str
    executor: str
    target: str
    method: str
    path: str
    body: dict[str, Any]
    timeout_s: int | None


def render_steps(
    kind: PolicyKind, names: Mapping[str, Any], *, dfid: str, intent_id: str
) -> tuple[Rendered, ...]:
    """The calls of all steps, in order. `names` are those of `names.JUDGED`; `intent` is added here.

    Raises:
        ExpressionError: when a path or body cannot be made; nothing may then be called.
    """
    return tuple(render_step(kind, step, names, dfid=dfid, intent_id=intent_id) for step in kind.steps)


def render_step(
    kind: PolicyKind, step: Step, names: Mapping[str, Any], *, dfid: str, intent_id: str
) -> Rendered:
    """The call of one step. A simulated step without a request has method and path of its own.

    Raises:
        ExpressionError: when the path or body cannot be made.
    """
    request = step.request or Request(path=f"/{step.id}")
    known = {**names, "intent": {"intent_id": intent_id, "step": step.id}}
    standard = {
        "dfid": dfid,
        "intent_id": intent_id,
        "policy_kind": kind.kind,
        "step": step.id,
        "params": names.get("params"),
    }
    return Rendered(
        step=step.id,
        executor=step.executor.value,
        target=step.target or "",
        method=request.method.value,
        path=templates.request_path(request.path, known),
        body=standard if request.body is None else _body(request.body, known),
        timeout_s=step.timeout_s,
    )


def _body(source: str, names: Mapping[str, Any]) -> dict[str, Any]:
    value = canonical.normalise(language.compile_expression(source).evaluate(names))
    if not isinstance(value, dict):
        raise ExpressionError(ErrorCode.UNSAFE_VALUE)
    return value
