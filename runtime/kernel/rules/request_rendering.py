"""The requests of a kind's steps, rendered once at ACCEPT: CEL map order is not stable."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit import canonical
from runtime.contracts.policy_kind import KindDocument, Request, Step
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


def render_step(
    kind: KindDocument, step: Step, names: Mapping[str, Any], *, dfid: str, intent_id: str
) -> Rendered:
    """The call of one step. `names` are those of `scope.JUDGED`; `intent` is added here.

    A simulated step without a request has method and path of its own.

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


def render_compensation(
    kind: KindDocument, step: Step, names: Mapping[str, Any], *, dfid: str, intent_id: str, key: str
) -> Rendered | None:
    """The call that undoes a step, made at ACCEPT with it: no receipt is known. None where nothing undoes it.

    `key` is the target key of the step that is undone; the standard body names it.

    Raises:
        ExpressionError: when the path or body cannot be made.
    """
    if step.compensate is None:
        return None
    known = {**names, "intent": {"intent_id": intent_id, "step": step.id}, "key": key}
    standard = {
        "dfid": dfid,
        "intent_id": intent_id,
        "policy_kind": kind.kind,
        "step": step.id,
        "params": names.get("params"),
        "compensates": key,
    }
    body = step.compensate.body
    return Rendered(
        step=step.id,
        executor=step.executor.value,
        target=step.target or "",
        method=step.compensate.method.value,
        path=templates.request_path(step.compensate.path, known),
        body=standard if body is None else _body(body, known),
        timeout_s=step.timeout_s,
    )


def render_probe(step: Step, names: Mapping[str, Any], *, intent_id: str, key: str) -> str | None:
    """The path that tells what became of the call under `key`; None for a step without a probe.

    Raises:
        ExpressionError: when the path cannot be made.
    """
    if step.probe is None:
        return None
    known = {**names, "intent": {"intent_id": intent_id, "step": step.id}, "key": key}
    return templates.request_path(step.probe.path, known)


def _body(source: str, names: Mapping[str, Any]) -> dict[str, Any]:
    value = canonical.normalise(language.compile_expression(source).evaluate(names))
    if not isinstance(value, dict):
        raise ExpressionError(ErrorCode.UNSAFE_VALUE)
    return value
