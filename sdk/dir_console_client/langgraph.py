"""Tools of a LangGraph agent that act through the console. Needs `dir-console-client[langgraph]`.

A tool made here proposes. What the gate accepts is done and its receipt is the tool's answer; what it
rejects comes back with the reasons, so that the model can mend its call; what needs a person interrupts the
graph. The graph goes on by `Command(resume=...)`, from `resume_when_decided` or from your own code: the
value counts for nothing, since the tool asks the console what was decided.
"""

from collections.abc import Mapping
from typing import Any, Unpack

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command, interrupt

from dir_console_client import tool_answers
from dir_console_client.client import Client
from dir_console_client.conversation import ProposalFields
from dir_console_client.models import Status


def governed_tool(
    console: Client,
    kind: str,
    *,
    description: str = "",
    timeout_s: float = 60.0,
    **more: Unpack[ProposalFields],
) -> BaseTool:
    """A tool that proposes the policy kind; its arguments are the kind's parameters, as the console has them.

    `timeout_s` is how long to wait for what was accepted to be done; it takes the further
    arguments of `Client.propose`, such as `valid_for_s`.

    Raises:
        ValueError: for a kind with a parameter that LangGraph takes for its own.
    """
    document = console.schema(kind)
    if "runtime" in document["params_schema"].get("properties", {}):
        raise ValueError(f"{kind} has a parameter `runtime`, a name that LangGraph keeps for itself")

    def act(runtime: ToolRuntime, **params: Any) -> str:
        thread = str(runtime.config.get("configurable", {}).get("thread_id", ""))
        named: ProposalFields = {
            **more,
            "trigger": {"thread": thread, "tool_call": runtime.tool_call_id},
            "key": f"{thread}:{runtime.tool_call_id}",
        }
        # A node that was interrupted runs again from its beginning: the same key finds the same verdict.
        verdict = console.propose(kind, params, **named)
        if verdict.is_rejected:
            return tool_answers.rejected(verdict.words())
        if verdict.is_held:
            page = console.escalation_url(str(verdict.escalation_id))
            interrupt(tool_answers.held(verdict, kind, params, page=page))
        return tool_answers.ended(console.wait(verdict.dfid, timeout_s=timeout_s, verdict=verdict))

    return StructuredTool.from_function(
        act,
        name=kind.lower(),
        description=description or f"Propose {kind}; a person may have to agree.",
        args_schema=document["params_schema"],
    )


def resume_when_decided(
    graph: Any, config: RunnableConfig, console: Client, *, timeout_s: float = 3600.0
) -> Any:
    """Wait for people to decide what interrupted the graph, and let it go on; what `invoke` returns.

    Raises:
        TimeoutError: when something still waits for a person after `timeout_s` seconds; nothing is lost,
        call again.
    """
    held = [item for item in graph.get_state(config).interrupts if _is_held(item.value)]
    for item in held:
        result = console.wait(item.value["dfid"], timeout_s=timeout_s)
        if result.status is Status.HELD:
            raise TimeoutError(f"{item.value['page']} still waits for a person")
    return graph.invoke(Command(resume={item.id: "decided" for item in held}), config)


def _is_held(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("status") == tool_answers.HELD
