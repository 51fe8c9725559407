"""Tools of the OpenAI Agents SDK that act through the console. Needs `dir-console-client[openai-agents]`.

A tool made here proposes. What the gate accepts is done and its receipt is the tool's answer; what it
rejects comes back with the reasons, so that the model can mend its call; what needs a person interrupts the
run. The run goes on by `resume_when_decided`, or once your own code approves the interruption: the approval
counts for nothing, since the tool asks the console what was decided. An interruption that your code rejects
tells only the model: `AsyncClient.cancel` withdraws what waits for a person.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

from agents import Agent, FunctionTool, RunContextWrapper, Runner, RunResult
from agents.items import ToolApprovalItem
from agents.tool_context import ToolContext

from dir_console_client import tool_answers
from dir_console_client.client import AsyncClient
from dir_console_client.conversation import ProposalFields
from dir_console_client.models import Status, Verdict

NameOfRun = Callable[[Any], str]


@dataclass
class GovernedTool(FunctionTool):
    """A tool that proposes a policy kind; `governed_tool` makes it."""

    action: "Action" = field(kw_only=True)


async def governed_tool(
    console: AsyncClient,
    kind: str,
    *,
    description: str = "",
    timeout_s: float = 60.0,
    run_of: NameOfRun | None = None,
    **more: Unpack[ProposalFields],
) -> GovernedTool:
    """A tool that proposes the policy kind; its arguments are the kind's parameters, as the console has them.

    `timeout_s` is how long to wait for what was accepted to be done. A call acts once by the id that the
    model gave it. Ids of OpenAI's models are unique everywhere; where those of your model are so within a run
    only, `run_of` names the run from its `context`, the same after it was interrupted. Takes the further
    arguments of `AsyncClient.propose`, such as `valid_for_s`.
    """
    document = await console.schema(kind)
    action = Action(console, kind, timeout_s, run_of, more)
    return GovernedTool(
        name=kind.lower(),
        description=description or f"Propose {kind}; a person may have to agree.",
        params_json_schema=dict(document["params_schema"]),
        on_invoke_tool=action.carry_out,
        # The gate validates; OpenAI's strict mode allows only some of JSON Schema.
        strict_json_schema=False,
        needs_approval=action.is_held,
        action=action,
    )


@dataclass(frozen=True)
class Action:
    """A policy kind as a tool of one client."""

    console: AsyncClient
    kind: str
    timeout_s: float
    run_of: NameOfRun | None
    more: ProposalFields

    async def is_held(self, run: RunContextWrapper[Any], params: dict[str, Any], call_id: str) -> bool:
        """Whether a person must decide on the call."""
        return (await self.propose(run, params, call_id)).is_held

    async def carry_out(self, call: ToolContext[Any], arguments: str) -> str:
        """Tell the model what became of its call."""
        params = params_of(arguments)
        if params is None:
            return tool_answers.rejected("The arguments are no JSON object.")
        verdict = await self.propose(call, params, call.tool_call_id)
        if verdict.is_rejected:
            return tool_answers.rejected(verdict.words())
        result = await self.console.wait(verdict.dfid, timeout_s=self.timeout_s, verdict=verdict)
        return tool_answers.ended(result)

    async def propose(self, run: RunContextWrapper[Any], params: Mapping[str, Any], call_id: str) -> Verdict:
        """The verdict on a call; asked again, also after the run was interrupted, it is the same verdict."""
        named = self.run_of(run.context) if self.run_of is not None else ""
        fields: ProposalFields = {
            **self.more,
            "trigger": {"run": named, "tool_call": call_id},
            "key": f"{named}:{call_id}",
        }
        return await self.console.propose(self.kind, params, **fields)

    def page_of(self, verdict: Verdict) -> str:
        """Where a person decides what the verdict holds."""
        return self.console.escalation_url(str(verdict.escalation_id))


async def held_actions(result: RunResult) -> list[dict[str, Any]]:
    """What interrupted the run and waits for a person: `dfid`, `page`, `kind`, `params` and `reasons`."""
    held = []
    for item in result.interruptions:
        action, params = _action_of(item), params_of(item.arguments or "")
        if action is None or params is None:
            continue
        verdict = await action.propose(result.context_wrapper, params, str(item.call_id))
        if verdict.is_held:
            held.append(tool_answers.held(verdict, action.kind, params, page=action.page_of(verdict)))
    return held


async def resume_when_decided(
    agent: Agent[Any], result: RunResult, *, timeout_s: float = 3600.0, **more: Any
) -> RunResult:
    """Wait for people to decide what interrupted the run, and let it go on; what `Runner.run` returns.

    Interruptions by other tools are left to you. Takes the further arguments of `Runner.run`.

    Raises:
        TimeoutError: when something still waits for a person after `timeout_s` seconds; nothing is lost,
        call again.
    """
    state = result.to_state()
    for item in result.interruptions:
        action, params = _action_of(item), params_of(item.arguments or "")
        if action is None:
            continue
        if params is not None:
            verdict = await action.propose(result.context_wrapper, params, str(item.call_id))
            ended = await action.console.wait(verdict.dfid, timeout_s=timeout_s)
            if ended.status is Status.HELD:
                raise TimeoutError(f"{action.page_of(verdict)} still waits for a person")
        state.approve(item)
    return await Runner.run(agent, state, **more)


def params_of(arguments: str) -> dict[str, Any] | None:
    """The parameters that a model gave, if any; None where they are no JSON object."""
    try:
        params = json.loads(arguments or "{}", parse_constant=_refuse)
    except ValueError:
        return None
    return params if isinstance(params, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"JSON has no {constant}")


def _action_of(item: ToolApprovalItem) -> Action | None:
    """What a call of a governed tool does; None for a call of another tool."""
    return next(
        (
            tool.action
            for tool in item.agent.tools
            if isinstance(tool, GovernedTool) and tool.name == item.tool_name
        ),
        None,
    )
