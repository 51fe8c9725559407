"""`/mcp` as a client of the official SDK uses it: tools of the manifest, held calls, repeated calls."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from dir_console.waiting_line import FullLineError, WaitingLine
from escalations.contracts import Action
from runtime.flows.models import Flow, Intent, Proposal
from runtime.packs.services import packs
from runtime.registry.models import Session
from tests.sdk.conftest import CLERK, CODER, Desk
from tests.support import api_client, talking
from tests.support.wait_until import until

SMALL = {"order": "o-17", "cents": 4200, "why": "It arrived broken"}
LARGE = {**SMALL, "cents": 42_000}
COMMAND = {"tool": "Bash", "command": "make test", "folder": "/work"}


class Model:
    """A model's host with one MCP server: this console, under the key of an agent."""

    def __init__(self, desk: Desk, agent_id: str = CLERK) -> None:
        self.url = f"{desk.url}/mcp"
        self.key = api_client.agent_key(agent_id)

    def use(self, work: Callable[[Client], Awaitable[Any]]) -> Any:
        """What `work` returns, in a connection of its own."""

        async def connected() -> Any:
            headers = {"Authorization": f"Bearer {self.key}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=60) as http,
                Client(streamable_http_client(self.url, http_client=http)) as client,
            ):
                return await work(client)

        return asyncio.run(connected())

    def tools(self) -> dict[str, Any]:
        """The tools by name."""
        return {tool.name: tool for tool in self.use(lambda client: client.list_tools()).tools}

    def call(self, name: str, arguments: dict[str, Any], **more: Any) -> tuple[dict[str, Any], bool]:
        """What a tool answers, and whether it is an error."""
        answer: CallToolResult = self.use(lambda client: client.call_tool(name, arguments, **more))
        assert isinstance(answer.structured_content, dict), answer
        assert answer.content
        return answer.structured_content, answer.is_error


@pytest.fixture
def clerk(desk: Desk) -> Model:
    return Model(desk)


def test_an_agent_that_has_to_sign_cannot_propose_here(desk: Desk) -> None:
    talking.allow(CLERK, proposal_key="A" * 43 + "=")
    refused, is_error = Model(desk).call("issue_refund", SMALL)
    assert (refused["status"], is_error) == ("UNAUTHORIZED", True)
    assert not Proposal.objects.exists()


def test_the_tools_are_the_kinds_of_the_manifest(clerk: Model) -> None:
    tools = clerk.tools()
    assert set(tools) == {"issue_refund", "dir_status", "dir_wait"}
    refund = tools["issue_refund"]
    assert refund.title == "Issue a refund"
    assert {"order", "cents", "why", "dfid", "dir_explain"} <= set(refund.input_schema["properties"])
    assert refund.input_schema["required"] == ["order", "cents", "why"]
    assert refund.annotations.destructive_hint is True
    assert tools["dir_wait"].annotations.read_only_hint is True


def test_what_is_accepted_is_done_and_answers_its_receipt(desk: Desk, clerk: Model) -> None:
    calling = desk.begin(clerk.call, "issue_refund", {**SMALL, "dir_explain": "A photo shows it."})
    until(Intent.objects.filter(state="PENDING").exists)
    desk.work()
    answer, is_error = calling.result(timeout=60)
    assert (answer["status"], answer["effect"], is_error) == ("SUCCEEDED", "HAPPENED", False)
    assert answer["receipt"]["transfer_id"] == "trf_1"
    assert Proposal.objects.get().explain == "A photo shows it."


def test_what_is_rejected_says_what_to_mend_and_is_mended_in_its_flow(clerk: Model) -> None:
    answer, is_error = clerk.call("issue_refund", {**SMALL, "cents": 200_000})
    assert (answer["status"], is_error) == ("REJECTED", True)
    assert answer["reasons"][0]["code"] == "R_MOST"
    mended, _ = clerk.call("issue_refund", {**LARGE, "dfid": answer["dfid"]})
    assert (mended["status"], mended["dfid"]) == ("AWAITING_HUMAN_INPUT", answer["dfid"])


def test_what_needs_a_person_answers_at_once_with_a_handle(desk: Desk, clerk: Model) -> None:
    held, is_error = clerk.call("issue_refund", LARGE)
    assert (held["status"], is_error) == ("AWAITING_HUMAN_INPUT", False)
    assert held["escalation_id"]
    assert held["expires_at"] > "2026"
    assert clerk.call("dir_status", {"dfid": held["dfid"]})[0]["status"] == "AWAITING_HUMAN_INPUT"
    waiting = desk.begin(clerk.call, "dir_wait", {"dfid": held["dfid"], "timeout_s": 25})
    desk.decide(Action.OVERRIDE)
    answer, _ = waiting.result(timeout=60)
    assert (answer["status"], answer["action"]) == ("SUCCEEDED", "OVERRIDE")
    assert clerk.call("dir_status", {"dfid": held["dfid"]})[0]["status"] == "SUCCEEDED"


def test_what_a_person_aborts_is_an_error_without_effect(desk: Desk, clerk: Model) -> None:
    held, _ = clerk.call("issue_refund", LARGE)
    desk.decide(Action.ABORT)
    answer, is_error = clerk.call("dir_wait", {"dfid": held["dfid"]})
    assert (answer["status"], answer["effect"], is_error) == ("ABORTED", "NOT_HAPPENED", True)
    assert not desk.shop.seen


def test_a_repeated_call_is_the_same_action_and_says_so(clerk: Model) -> None:
    first, _ = clerk.call("issue_refund", LARGE)
    second, _ = clerk.call("issue_refund", dict(reversed(LARGE.items())))
    assert second["dfid"] == first["dfid"]
    assert (first.get("repeated"), second.get("repeated")) == (None, True)
    other, _ = clerk.call("issue_refund", {**LARGE, "order": "o-18"})
    again, _ = clerk.call("issue_refund", {**LARGE, "dir_new": True})
    assert len({first["dfid"], other["dfid"], again["dfid"]}) == 3
    assert Proposal.objects.count() == 3


def test_calls_at_once_are_one_action(desk: Desk, clerk: Model) -> None:
    calls = [desk.begin(clerk.call, "issue_refund", LARGE) for _ in range(4)]
    assert len({call.result(timeout=120)[0]["dfid"] for call in calls}) == 1
    assert Proposal.objects.count() == 1


def test_a_key_of_the_caller_counts_before_what_the_call_says(clerk: Model) -> None:
    meta = {"dir/idempotency_key": "ticket-17"}
    first, _ = clerk.call("issue_refund", LARGE, meta=meta)
    assert clerk.call("issue_refund", LARGE, meta=meta)[0]["dfid"] == first["dfid"]
    clash, is_error = clerk.call("issue_refund", SMALL, meta=meta)
    assert (clash["status"], is_error) == ("IDEMPOTENCY_KEY_REUSED", True)
    other, _ = clerk.call("issue_refund", LARGE, meta={"dir/idempotency_key": "ticket-18"})
    assert other["dfid"] != first["dfid"]


def test_a_kind_without_steps_is_permitted(desk: Desk) -> None:
    coder = Model(desk, CODER)
    assert coder.call("run_command", COMMAND)[0]["status"] == "PERMITTED"
    assert coder.tools()["run_command"].annotations.read_only_hint is True


def test_arguments_that_do_not_fit_are_told_to_the_model(clerk: Model) -> None:
    answer, is_error = clerk.call("issue_refund", {"order": "17"})
    assert (answer["status"], is_error) == ("REJECTED", True)
    assert "INVALID_SCHEMA" in {reason["code"] for reason in answer["reasons"]}
    for arguments in ({}, {"dfid": "x/../y"}, {"dfid": 7}):
        assert clerk.call("dir_status", arguments)[0]["status"] == "BAD_REQUEST"
    assert clerk.call("dir_status", {"dfid": "nothing"})[0]["status"] == "NOT_FOUND"


def test_a_tool_of_another_agent_is_none(desk: Desk) -> None:
    answer, is_error = Model(desk, CODER).call("issue_refund", LARGE)
    assert (answer["status"], is_error) == ("UNKNOWN_TOOL", True)
    assert not Flow.objects.exists()


def test_another_agents_flow_is_not_found(desk: Desk, clerk: Model) -> None:
    held, _ = clerk.call("issue_refund", LARGE)
    answer, is_error = Model(desk, CODER).call("dir_status", {"dfid": held["dfid"]})
    assert (answer["status"], is_error) == ("FLOW_NOT_FOUND", True)


def test_a_kind_that_depends_on_facts_shows_them_before_it_acts(desk: Desk) -> None:
    text = api_client.PACK
    assert isinstance(packs.load(text=text, source="x", activate=True, actor="system"), packs.Loaded)
    trader = Model(desk, api_client.TRADER)
    wanted = {"symbol": "AAPL", "action": "BUY", "quantity": 11, "notional_cents": 208_450}
    shown, is_error = trader.call("adjust_position", wanted)
    assert (shown["status"], is_error) == ("CONTEXT_REQUIRED", True)
    assert shown["facts"]["price"]["AAPL"] == 18950
    answer, _ = trader.call(
        "adjust_position", {**wanted, "dfid": shown["dfid"], "context_ref": shown["context_ref"]}
    )
    assert (answer["status"], answer["dfid"]) == ("AWAITING_HUMAN_INPUT", shown["dfid"])
    assert Proposal.objects.count() == 1


def test_a_session_that_has_ended_is_opened_again(clerk: Model) -> None:
    clerk.call("issue_refund", LARGE)
    Session.objects.all().delete()
    assert clerk.call("issue_refund", {**LARGE, "order": "o-18"})[0]["status"] == "AWAITING_HUMAN_INPUT"


def test_it_waits_in_the_line_of_agents_and_is_refused_where_that_is_full(
    clerk: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(line: WaitingLine, caller: str) -> None:
        raise FullLineError(7)

    monkeypatch.setattr(WaitingLine, "_enter", full)
    answer = httpx2.post(clerk.url, json={}, headers={"Authorization": "Bearer agk_nobody"})
    assert (answer.status_code, answer.json()["code"]) == (429, "TOO_MANY_WAITING")
    assert answer.headers["retry-after"] == "7"


@pytest.mark.parametrize("authorization", [None, "Bearer agk_nobody", "Basic eDp5", "Bearer"])
def test_without_a_valid_key_there_is_nothing(desk: Desk, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = httpx2.post(f"{desk.url}/mcp", json=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Host", "evil.example", 421),
        ("Origin", "https://evil.example", 403),
        ("Content-Type", "text/plain", 400),
    ],
)
def test_a_page_of_another_site_reaches_nothing(clerk: Model, name: str, value: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {clerk.key}", "Content-Type": "application/json", name: value}
    body = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    assert httpx2.post(clerk.url, content=body, headers=headers).status_code == status


def test_a_cookie_is_no_key(desk: Desk) -> None:
    answer = httpx2.post(f"{desk.url}/mcp", json={}, headers={"Cookie": "sessionid=x"})
    assert answer.status_code == 401
