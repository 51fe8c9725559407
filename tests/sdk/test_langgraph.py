"""A graph of the real LangGraph whose tool acts through the console: done, mended, interrupted, resumed."""

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from dir_console_client import Client
from dir_console_client.langgraph import governed_tool, resume_when_decided
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from escalations.contracts import Action
from runtime.flows.models import Intent, Proposal
from tests.sdk.conftest import CLERK, Desk
from tests.support import api_client
from tests.support.wait_until import until

ROOT = Path(__file__).parents[2]
SMALL = {"order": "o-17", "cents": 4200, "why": "It arrived broken"}
LARGE = {**SMALL, "cents": 42_000}


class Agent:
    """A graph that calls its tool with `wanted`, each in a call of its own, as a model would."""

    def __init__(self, console: Client, *wanted: dict[str, Any]) -> None:
        self.console = console
        calls = [{"name": "issue_refund", "args": args, "id": str(uuid.uuid4())} for args in wanted]
        graph = StateGraph(MessagesState)
        graph.add_node("agent", lambda state: {"messages": [AIMessage("", tool_calls=calls)]})
        graph.add_node("tools", ToolNode([governed_tool(console, "ISSUE_REFUND")]))
        graph.add_edge(START, "agent")
        graph.add_edge("agent", "tools")
        self.graph = graph.compile(checkpointer=InMemorySaver())
        self.config: RunnableConfig = {"configurable": {"thread_id": str(uuid.uuid4())}}

    def invoke(self, given: Any = None) -> Any:
        return self.graph.invoke({"messages": []} if given is None else given, self.config)

    def resume(self, **more: Any) -> Any:
        return resume_when_decided(self.graph, self.config, self.console, **more)


def told(answer: Any) -> list[dict[str, Any]]:
    """What the tool answered, once for each call."""
    return [json.loads(str(one.content)) for one in answer["messages"] if isinstance(one, ToolMessage)]


def test_the_arguments_of_the_tool_are_the_parameters_of_the_kind(desk: Desk) -> None:
    with desk.client() as console:
        tool = governed_tool(console, "ISSUE_REFUND")
        assert tool.name == "issue_refund"
        assert set(tool.args) == {"order", "cents", "why"}


def test_what_is_accepted_is_done_and_the_receipt_is_the_answer(desk: Desk) -> None:
    with desk.client() as console:
        running = desk.begin(Agent(console, SMALL).invoke)
        until(Intent.objects.filter(state="PENDING").exists)
        desk.work()
        (answer,) = told(running.result(timeout=60))
    assert (answer["status"], answer["receipt"]["transfer_id"]) == ("SUCCEEDED", "trf_1")


def test_what_is_rejected_goes_back_to_the_model_with_the_reasons(desk: Desk) -> None:
    with desk.client() as console:
        (answer,) = told(Agent(console, {**SMALL, "cents": 200_000}).invoke())
    assert answer["status"] == "REJECTED"
    assert "R_MOST" in answer["reasons"]


@pytest.mark.parametrize(
    ("action", "more", "status"),
    [
        (Action.OVERRIDE, {}, "SUCCEEDED"),
        (Action.MODIFY, {"params": {**LARGE, "cents": 4000}}, "SUCCEEDED"),
        (Action.ABORT, {}, "ABORTED"),
    ],
)
def test_what_needs_a_person_interrupts_the_graph_until_it_is_decided(
    desk: Desk, action: Action, more: dict[str, Any], status: str
) -> None:
    with desk.client() as console:
        agent = Agent(console, LARGE)
        (held,) = agent.invoke()["__interrupt__"]
        assert held.value["status"] == "AWAITING_HUMAN_INPUT"
        assert held.value["page"] == f"{desk.url}/escalations/{held.value['escalation_id']}/"
        assert held.value["params"] == LARGE
        resuming = desk.begin(agent.resume)
        desk.decide(action, **more)
        (answer,) = told(resuming.result(timeout=60))
    assert (answer["status"], answer["decision"], answer["params"]) == (status, action, more.get("params"))
    assert Proposal.objects.filter(author=f"agent:{CLERK}").count() == 1
    assert len(desk.shop.seen) == (status == "SUCCEEDED")


def test_the_value_that_resumes_decides_nothing(desk: Desk) -> None:
    with desk.client() as console:
        agent = Agent(console, LARGE)
        (held,) = agent.invoke()["__interrupt__"]
        desk.decide(Action.ABORT)
        approved: Command[str] = Command(resume={held.id: {"action": "OVERRIDE", "approved": True}})
        (answer,) = told(agent.invoke(approved))
    assert answer["status"] == "ABORTED"
    assert not desk.shop.seen


def test_while_nobody_decides_the_graph_stays_interrupted(desk: Desk) -> None:
    with desk.client() as console:
        agent = Agent(console, LARGE)
        agent.invoke()
        with pytest.raises(TimeoutError, match="still waits for a person"):
            agent.resume(timeout_s=0)
        resuming = desk.begin(agent.resume)
        desk.decide(Action.OVERRIDE)
        assert told(resuming.result(timeout=60))[0]["status"] == "SUCCEEDED"


def test_the_program_of_the_documentation_is_held_and_goes_on(desk: Desk) -> None:
    running = subprocess.Popen(
        [sys.executable, "docs/examples/langgraph_refund.py", desk.url],
        cwd=ROOT,
        env={**os.environ, "DIR_AGENT_KEY": api_client.agent_key(CLERK), "PYTHONPATH": str(ROOT / "sdk")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline().startswith("Held: ")
    page = running.stdout.readline()
    assert re.fullmatch(rf"Decide at {desk.url}/escalations/[0-9a-f-]+/\n", page)
    desk.decide(Action.OVERRIDE)
    rest, _ = running.communicate(timeout=60)
    assert json.loads(rest)["status"] == "SUCCEEDED"
