"""A run of the real OpenAI Agents SDK whose tool acts through the console; its model is a script."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, RunResult, RunState, function_tool
from agents.exceptions import UserError
from agents.items import ToolCallOutputItem
from agents.testing import ScriptedModel, assistant_message, function_call
from dir_console_client import AsyncClient
from dir_console_client.openai_agents import governed_tool, held_actions, params_of, resume_when_decided

from escalations.contracts import Action
from escalations.models import Escalation
from runtime.flows.models import Intent, Proposal
from tests.sdk.conftest import CLERK, Desk
from tests.support import api_client
from tests.support.wait_until import until

ROOT = Path(__file__).parents[2]
SMALL = {"order": "o-17", "cents": 4200, "why": "It arrived broken"}
LARGE = {**SMALL, "cents": 42_000}
# The SDK would send traces to OpenAI.
QUIET = RunConfig(tracing_disabled=True)
Run = tuple[Agent[Any], RunResult]
Wanted = dict[str, Any] | str


async def started(console: AsyncClient, *wanted: Wanted, call_id: str = "", **settings: Any) -> Run:
    """A run whose model calls the tool with each of `wanted` at once, and then says that it is done."""
    calls = [function_call("issue_refund", args, call_id=call_id or str(uuid.uuid4())) for args in wanted]
    context = settings.pop("context", None)
    more = settings.pop("more_tools", [])
    tool = await governed_tool(console, "ISSUE_REFUND", **settings)
    model = ScriptedModel([calls, [assistant_message("Done.")]])
    agent = Agent[Any](name="Refunds", tools=[tool, *more], model=model)
    return agent, await Runner.run(agent, "Order o-17 arrived broken.", context=context, run_config=QUIET)


def in_loop(desk: Desk, work: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    """Work with a client in an event loop of its own."""
    console = desk.async_client()

    async def whole() -> Any:
        async with console:
            return await work(console)

    return asyncio.run(whole())


def told(result: RunResult) -> list[dict[str, Any]]:
    """What the tool answered, once for each call."""
    return [json.loads(item.output) for item in result.new_items if isinstance(item, ToolCallOutputItem)]


def test_the_arguments_of_the_tool_are_the_parameters_of_the_kind(desk: Desk) -> None:
    tool = in_loop(desk, lambda console: governed_tool(console, "ISSUE_REFUND"))
    assert tool.name == "issue_refund"
    assert set(tool.params_json_schema["properties"]) == {"order", "cents", "why"}


def test_what_is_accepted_is_done_and_the_receipt_is_the_answer(desk: Desk) -> None:
    running = desk.begin(in_loop, desk, lambda console: started(console, SMALL))
    until(Intent.objects.filter(state="PENDING").exists)
    desk.work()
    _, result = running.result(timeout=60)
    (answer,) = told(result)
    assert (answer["status"], answer["receipt"]["transfer_id"]) == ("SUCCEEDED", "trf_1")
    assert result.final_output == "Done."
    # Asked whether a person must decide, and asked to act: proposed once.
    assert Proposal.objects.count() == 1


def test_what_is_rejected_goes_back_to_the_model_with_the_reasons(desk: Desk) -> None:
    _, result = in_loop(desk, lambda console: started(console, {**SMALL, "cents": 200_000}))
    (answer,) = told(result)
    assert answer["status"] == "REJECTED"
    assert "R_MOST" in answer["reasons"]
    assert result.final_output == "Done."


@pytest.mark.parametrize(
    ("action", "more", "status"),
    [
        (Action.OVERRIDE, {}, "SUCCEEDED"),
        (Action.MODIFY, {"params": {**LARGE, "cents": 4000}}, "SUCCEEDED"),
        (Action.ABORT, {}, "ABORTED"),
    ],
)
def test_what_needs_a_person_interrupts_the_run_until_it_is_decided(
    desk: Desk, action: Action, more: dict[str, Any], status: str
) -> None:
    async def work(console: AsyncClient) -> tuple[list[dict[str, Any]], RunResult]:
        agent, result = await started(console, LARGE)
        return await held_actions(result), await resume_when_decided(agent, result, run_config=QUIET)

    running = desk.begin(in_loop, desk, work)
    desk.decide(action, **more)
    (held,), result = running.result(timeout=60)
    escalation = Escalation.objects.get()
    assert held["status"] == "AWAITING_HUMAN_INPUT"
    assert held["page"] == f"{desk.url}/escalations/{escalation.pk}/"
    assert (held["kind"], held["params"]) == ("ISSUE_REFUND", LARGE)
    (answer,) = told(result)
    assert (answer["status"], answer["decision"], answer["params"]) == (status, action, more.get("params"))
    assert Proposal.objects.filter(author=f"agent:{CLERK}").count() == 1
    assert len(desk.shop.seen) == (status == "SUCCEEDED")


def test_an_approval_in_code_decides_nothing(desk: Desk) -> None:
    async def work(console: AsyncClient) -> RunResult:
        agent, result = await started(console, LARGE, timeout_s=0)
        state = result.to_state()
        state.approve(result.interruptions[0], always_approve=True)
        return await Runner.run(agent, state, run_config=QUIET)

    (answer,) = told(in_loop(desk, work))
    assert answer["status"] == "HELD"
    assert Escalation.objects.get().state == "OPEN"
    assert not desk.shop.seen


def test_a_run_that_is_stored_as_text_goes_on_in_another_process(desk: Desk) -> None:
    async def begin(console: AsyncClient) -> str:
        _, result = await started(console, LARGE)
        return result.to_state().to_string()

    stored = in_loop(desk, begin)
    desk.decide(Action.OVERRIDE)

    async def go_on(console: AsyncClient) -> RunResult:
        tool = await governed_tool(console, "ISSUE_REFUND")
        model = ScriptedModel([[assistant_message("Done.")]])
        agent = Agent[Any](name="Refunds", tools=[tool], model=model)
        state = await RunState.from_string(agent, stored)
        for item in state.get_interruptions():
            state.approve(item)
        return await Runner.run(agent, state, run_config=QUIET)

    result = in_loop(desk, go_on)
    assert told(result)[-1]["status"] == "SUCCEEDED"
    assert Proposal.objects.filter(author=f"agent:{CLERK}").count() == 1
    assert len(desk.shop.seen) == 1


def test_while_nobody_decides_the_run_stays_interrupted(desk: Desk) -> None:
    gave_up = threading.Event()

    async def work(console: AsyncClient) -> RunResult:
        agent, result = await started(console, LARGE)
        with pytest.raises(TimeoutError, match="still waits for a person"):
            await resume_when_decided(agent, result, timeout_s=0)
        gave_up.set()
        return await resume_when_decided(agent, result, run_config=QUIET)

    running = desk.begin(in_loop, desk, work)
    assert gave_up.wait(60)
    desk.decide(Action.OVERRIDE)
    assert told(running.result(timeout=60))[0]["status"] == "SUCCEEDED"


def test_a_tool_of_somebody_else_is_left_to_its_own_approval(desk: Desk) -> None:
    @function_tool(needs_approval=True)
    def shred() -> str:
        """Shred."""
        raise AssertionError("nobody approved it")

    async def work(console: AsyncClient) -> tuple[list[dict[str, Any]], RunResult]:
        tool = await governed_tool(console, "ISSUE_REFUND")
        calls = [function_call("shred", {}, call_id="c-1")]
        agent = Agent[Any](name="Refunds", tools=[tool, shred], model=ScriptedModel([calls]))
        result = await Runner.run(agent, "Shred.", run_config=QUIET)
        return await held_actions(result), await resume_when_decided(agent, result, run_config=QUIET)

    held, result = in_loop(desk, work)
    assert held == []
    assert [item.tool_name for item in result.interruptions] == ["shred"]


@pytest.mark.parametrize("arguments", ["{", "[1]", '{"cents": NaN}'])
def test_arguments_that_are_no_json_object_go_back_to_the_model(desk: Desk, arguments: str) -> None:
    async def work(console: AsyncClient) -> tuple[list[dict[str, Any]], RunResult]:
        agent, result = await started(console, arguments)
        return await held_actions(result), await resume_when_decided(agent, result, run_config=QUIET)

    held, result = in_loop(desk, work)
    (answer,) = told(result)
    assert held == []
    assert answer == {"status": "REJECTED", "reasons": "The arguments are no JSON object."}
    assert not Proposal.objects.exists()


def test_no_arguments_are_empty_parameters() -> None:
    assert params_of("") == {}


def test_call_ids_that_repeat_are_told_apart_by_their_run(desk: Desk) -> None:
    def run_of(context: Any) -> str:
        return str(context["run"])

    async def work(console: AsyncClient) -> list[dict[str, Any]]:
        answers = []
        for run, cents in (("r-1", 200_000), ("r-2", 300_000), ("r-1", 200_000)):
            params = {**SMALL, "cents": cents}
            settings: dict[str, Any] = {"call_id": "call-1", "run_of": run_of, "context": {"run": run}}
            answers += told((await started(console, params, **settings))[1])
        return answers

    answers = in_loop(desk, work)
    assert [answer["status"] for answer in answers] == ["REJECTED"] * 3
    # The first run, tried again, is the same call.
    bodies = Proposal.objects.values_list("body", flat=True)
    assert sorted(json.loads(bytes(body))["params"]["cents"] for body in bodies) == [200_000, 300_000]


def test_a_console_that_cannot_be_asked_ends_the_run(desk: Desk) -> None:
    async def work(console: AsyncClient) -> RunResult:
        tool = await governed_tool(console, "ISSUE_REFUND")
        model = ScriptedModel([[function_call("issue_refund", SMALL, call_id="c-1")]])
        agent = Agent[Any](name="Refunds", tools=[tool], model=model)
        nowhere = AsyncClient("http://127.0.0.1:9", agent_id=CLERK, key="k", patience_s=0)
        object.__setattr__(tool.action, "console", nowhere)
        return await Runner.run(agent, "Order o-17 arrived broken.", run_config=QUIET)

    with pytest.raises(UserError, match="The console does not answer"):
        in_loop(desk, work)
    assert not desk.shop.seen


def test_the_program_of_the_documentation_is_held_and_goes_on(desk: Desk) -> None:
    running = subprocess.Popen(
        [sys.executable, "docs/examples/openai_agents_refund.py", desk.url],
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
    answer, _, words = rest.partition("\n")
    assert json.loads(answer)["status"] == "SUCCEEDED"
    assert words == "The refund is on its way.\n"
