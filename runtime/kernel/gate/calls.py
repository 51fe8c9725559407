"""The calls of an intent, rendered when the gate judges: these bytes are sent at every attempt."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from audit import canonical
from runtime.contracts.kind_steps import HumanWork, Request, Step, ToolCall, ToolUse
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.states import Direction
from runtime.contracts.verdict import StepRequest
from runtime.kernel import effects
from runtime.kernel.rules import language, templates
from runtime.kernel.rules.language import ErrorCode, ExpressionError

DEFAULT_TIMEOUT_S = 10
# The method of the Model Context Protocol that calls a tool.
TOOL_METHOD = "tools/call"


def render(
    kind: KindDocument, proposal: ProposalDocument, names: Mapping[str, Any]
) -> tuple[StepRequest, ...]:
    """Every call of the intent, each with the one that undoes it. `names` are those of `scope.JUDGED`.

    What undoes a step is made only where a later one can fail after it, and without its receipt.

    Raises:
        ExpressionError: when a path or body cannot be made, or holds a number that JSON would not keep.
    """
    found = []
    for step in kind.steps:
        if step.tool is not None:
            found.append(_tool_calls(kind, proposal, names, step, step.tool))
            continue
        # A simulated step without a request has method and path of its own.
        call = _call(
            kind, proposal, names, step, step.request or Request(path=f"/{step.id}"), Direction.FORWARD
        )
        if len(kind.steps) > 1 and step.is_undone:
            back = step.compensate or Request(path=f"/{step.id}")
            undoing = _call(kind, proposal, names, step, back, Direction.COMPENSATE, undoes=call.key)
            call = call.model_copy(update={"compensation": undoing})
        found.append(call)
    return tuple(found)


def _tool_calls(
    kind: KindDocument, proposal: ProposalDocument, names: Mapping[str, Any], step: Step, tool: ToolUse
) -> StepRequest:
    """The call of a tool, with the one that undoes it."""
    call = _tool_call(proposal, names, step, tool, Direction.FORWARD)
    undoing = None
    if len(kind.steps) > 1 and tool.undo is not None:
        undoing = _tool_call(proposal, names, step, tool.undo, Direction.COMPENSATE, undoes=call.key)
    return call.model_copy(
        update={
            "fallback": step.id in kind.fallbacks,
            "compensation": None
            if undoing is None
            else undoing.model_copy(update={"on_tool_error": tool.on_error}),
            "on_tool_error": tool.on_error,
        }
    )


def _tool_call(
    proposal: ProposalDocument,
    names: Mapping[str, Any],
    step: Step,
    tool: ToolCall,
    direction: Direction,
    *,
    undoes: str | None = None,
) -> StepRequest:
    """One call of a tool: its own key is ours alone, since no MCP server knows any."""
    arguments: Any = proposal.params
    if tool.arguments is not None:
        arguments = _map(tool.arguments, _known(proposal, names, step, key=undoes))
    return _rendered(proposal, step, direction, method=TOOL_METHOD, path=tool.name, body=arguments)


def _known(
    proposal: ProposalDocument, names: Mapping[str, Any], step: Step, *, key: str | None
) -> language.Names:
    """What expressions of a call may read; `key` is that of the call which it undoes, or asks about."""
    intent = {"intent_id": proposal.intent_id, "step": step.id}
    return language.Names({**names, "intent": intent, **({} if key is None else {"key": key})})


def _map(source: str, known: language.Names) -> dict[str, Any]:
    """What is sent, where an expression makes it."""
    made = canonical.normalise(language.compile_expression(source).evaluate(known))
    if not isinstance(made, dict):
        raise ExpressionError(ErrorCode.UNSAFE_VALUE)
    return made


def _rendered(
    proposal: ProposalDocument, step: Step, direction: Direction, *, method: str, path: str, body: Any
) -> StepRequest:
    """A call of a step under its key; its bytes are those that JSON keeps."""
    if not language.is_exact(body):
        raise ExpressionError(ErrorCode.OVERFLOW)
    return StepRequest(
        step=step.id,
        executor=step.executor.value,
        target=step.target or "",
        method=method,
        path=path,
        body=body,
        key=target_key(
            tenant=proposal.tenant,
            dfid=proposal.dfid,
            intent_id=proposal.intent_id,
            step=step.id,
            direction=direction,
        ),
        timeout_s=step.timeout_s or DEFAULT_TIMEOUT_S,
    )


def target_key(
    *,
    tenant: str,
    dfid: UUID | str,
    intent_id: UUID | str,
    step: str,
    direction: Direction = Direction.FORWARD,
) -> str:
    """64 lower-case hexadecimal digits, the same for every attempt of a step and for no other call.

    It makes a repeated call one effect at the target. A compensation has a key of its own.
    A MODIFY is a new intent, hence a new key. Hashed as canonical JSON: joined text could be split two ways.
    """
    parts = [tenant, str(dfid), str(intent_id), step, direction.value]
    return canonical.digest(canonical.encode(parts))


def _task(work: HumanWork, params: Mapping[str, Any], direction: Direction) -> dict[str, Any]:
    """What the people of a group are asked: to do the step, or to undo it."""
    asked = work.undo if direction is Direction.COMPENSATE and work.undo is not None else work.instructions
    return {
        "group": work.group,
        "instructions": effects.plain(effects.render(asked, params)),
        "deadline_s": work.deadline_s,
    }


def _call(
    kind: KindDocument,
    proposal: ProposalDocument,
    names: Mapping[str, Any],
    step: Step,
    request: Request,
    direction: Direction,
    *,
    undoes: str | None = None,
) -> StepRequest:
    """One call of a step; `undoes` is the target key of the call that it undoes."""
    known = _known(proposal, names, step, key=undoes)
    path = templates.request_path(request.path, known)
    if step.human is not None:
        body: Any = _task(step.human, proposal.params, direction)
    elif request.body is None:
        body = {
            "dfid": proposal.dfid,
            "intent_id": proposal.intent_id,
            "policy_kind": kind.kind,
            "step": step.id,
            "params": proposal.params,
            **({} if undoes is None else {"compensates": undoes}),
        }
    else:
        body = _map(request.body, known)
    call = _rendered(proposal, step, direction, method=request.method.value, path=path, body=body)
    probe = None
    if step.probe is not None:
        known.put("key", call.key)
        probe = templates.request_path(step.probe.path, known)
    return call.model_copy(
        update={
            "probe": probe,
            "fallback": step.id in kind.fallbacks,
            "callback_s": step.callback.deadline_s if step.callback is not None and undoes is None else None,
            "follow": step.follow if undoes is None else None,
            "meter": step.meter if undoes is None else None,
        }
    )
