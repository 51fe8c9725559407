"""The client of agents against a real server: actions to their end, one session, keys, and safe mode."""

import asyncio
import base64
import secrets
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from dir_console_client import AsyncClient, Client, Question, Refused, SafeMode, Status
from dir_console_client import conversation as conversations
from dir_console_client.conversation import Call, Conversation
from dir_console_client.signatures import SigningKey

from escalations.contracts import Action
from escalations.models import Escalation
from runtime.flows.models import Flow, Intent, Proposal
from runtime.registry.models import Session
from tests.sdk.conftest import CLERK, CODER, Desk
from tests.support import api_client, misbehaving_targets, talking
from tests.support.wait_until import until

SMALL = {"order": "o-17", "cents": 4200, "why": "It arrived broken"}
LARGE = {**SMALL, "cents": 42_000}
COMMAND = {"tool": "Bash", "command": "make test", "folder": "/work"}


def test_what_is_accepted_is_done_once_and_its_receipt_comes_back(desk: Desk) -> None:
    with desk.client() as console:
        doing = desk.begin(console.act, "ISSUE_REFUND", SMALL, explain="It arrived broken.")
        until(Intent.objects.filter(state="PENDING").exists)
        desk.work()
        result = doing.result(timeout=30)
    assert (result.status, result.ok, result.effect) == (Status.SUCCEEDED, True, "HAPPENED")
    assert result.receipt["transfer_id"] == "trf_1"
    assert result.words() == "Done."
    assert len(desk.shop.seen) == 1


@pytest.mark.parametrize("key", ["agk_x.secret\n", "agk_x. secret", "agk_x.\u00e9secret"])
def test_a_key_with_characters_of_no_key_is_refused_without_repeating_it(key: str) -> None:
    for client in (Client, AsyncClient):
        with pytest.raises(ValueError, match="character that no key has") as caught:
            client("http://127.0.0.1:9", agent_id=CODER, key=key)
        assert "secret" not in str(caught.value)


def test_an_agent_that_has_to_sign_does(desk: Desk) -> None:
    seed = base64.b64encode(secrets.token_bytes(32)).decode()
    talking.allow(CLERK, proposal_key=SigningKey(seed).public)
    with desk.client(manifest_version="1.1.0") as console, pytest.raises(Refused, match="proposal_key"):
        console.propose("ISSUE_REFUND", SMALL)
    with desk.client(manifest_version="1.1.0", signing_key=seed) as console:
        verdict = console.propose("ISSUE_REFUND", SMALL, explain="It arrived broken.", confidence=0.875)
        dfid = console.open_flow("another parcel")
        context_ref = console.context(dfid).ref
        other = {**SMALL, "why": "Ä broken lid"}
        again = console.propose("ISSUE_REFUND", other, dfid=dfid, context_ref=context_ref)
    assert (verdict.verdict, again.verdict) == ("ACCEPT", "ACCEPT")


def test_what_is_rejected_has_reasons_and_no_effect(desk: Desk) -> None:
    with desk.client() as console:
        result = console.act("ISSUE_REFUND", {**SMALL, "cents": 200_000})
    assert (result.status, result.effect, result.ok) == (Status.REJECTED, "NOT_HAPPENED", False)
    assert "R_MOST: Nobody refunds more than 1000 USD" in result.words()
    assert result.verdict is not None
    assert result.verdict.attempts_left > 0


def test_what_a_person_overrides_is_done(desk: Desk) -> None:
    with desk.client() as console:
        doing = desk.begin(console.act, "ISSUE_REFUND", LARGE)
        desk.decide(Action.OVERRIDE)
        result = doing.result(timeout=30)
    assert (result.status, result.decision, result.params) == (Status.SUCCEEDED, "OVERRIDE", None)
    assert result.verdict.reasons[0].limit == 5000


def test_what_a_person_modifies_is_done_their_way(desk: Desk) -> None:
    with desk.client() as console:
        doing = desk.begin(console.act, "ISSUE_REFUND", LARGE)
        desk.decide(Action.MODIFY, params={**LARGE, "cents": 4000})
        result = doing.result(timeout=30)
    assert (result.status, result.decision, result.params["cents"]) == (Status.SUCCEEDED, "MODIFY", 4000)
    assert "with other parameters" in result.words()


def test_what_a_person_aborts_is_not_done(desk: Desk) -> None:
    with desk.client() as console:
        doing = desk.begin(console.act, "ISSUE_REFUND", LARGE)
        desk.decide(Action.ABORT)
        result = doing.result(timeout=30)
    assert (result.status, result.decision, result.ok) == (Status.ABORTED, "ABORT", False)
    assert not desk.shop.seen


def test_a_question_is_answered_before_the_decision(desk: Desk) -> None:
    asked: list[Question] = []

    def answer(question: Question) -> str:
        asked.append(question)
        return "By mail."

    with desk.client() as console:
        doing = desk.begin(console.act, "ISSUE_REFUND", LARGE, on_question=answer)
        desk.decide(Action.REQUEST_INFO, justification="How was it reported?")
        until(lambda: bool(asked))
        until(lambda: Escalation.objects.get().revision > 1)
        desk.decide(Action.ABORT)
        assert doing.result(timeout=30).status is Status.ABORTED
    assert (asked[0].number, asked[0].question) == (1, "How was it reported?")


def test_patience_ends_with_the_flow_held_and_it_can_be_waited_for_again(desk: Desk) -> None:
    with desk.client() as console:
        held = console.act("ISSUE_REFUND", LARGE, timeout_s=0)
        assert (held.status, held.ok) == (Status.HELD, False)
        assert "Waits for a person" in held.words()
        desk.decide(Action.OVERRIDE)
        assert console.wait(held.dfid).status is Status.SUCCEEDED


def test_the_last_second_of_patience_is_waited_for_in_one_poll() -> None:
    talk = Conversation(agent_id="x", key="agk_x", manifest_version="1.0.0", _token="ses_x")
    wanted = next(talk.wait("dfid", timeout_s=0.5))
    assert isinstance(wanted, Call)
    assert wanted.path.endswith("wait=1")


def test_a_kind_without_steps_is_permitted(desk: Desk) -> None:
    with desk.client(CODER) as console:
        result = console.act("RUN_COMMAND", COMMAND)
    assert (result.status, result.ok, result.words()) == (Status.PERMITTED, True, "Permitted.")


def test_the_same_key_is_judged_once(desk: Desk) -> None:
    with desk.client() as console:
        first, second = (console.propose("ISSUE_REFUND", LARGE, key="order-17") for _ in range(2))
    assert first == second
    assert Proposal.objects.count() == 1


def test_a_session_that_has_ended_is_renewed_once(desk: Desk) -> None:
    with desk.client(CODER) as console:
        console.act("RUN_COMMAND", COMMAND)
        Session.objects.all().delete()
        assert console.act("RUN_COMMAND", COMMAND).ok
    assert Session.objects.count() == 1


def test_every_other_call(desk: Desk) -> None:
    with desk.client(CODER) as console:
        dfid = console.open_flow("a look around")
        child = console.open_flow("a closer look", parent_dfid=dfid)
        context = console.context(dfid)
        assert context.ref
        assert context.fact("no.such.fact") is None
        assert console.usage(dfid, tokens=5, cost_usd="0.01")["state"] == "ACTIVE"
        assert console.close_flow(child, reason="seen")["state"] == "CLOSED"
        assert console.wait(child).status is Status.CLOSED
        assert console.propose("RUN_COMMAND", COMMAND, dfid=dfid, context_ref=context.ref).verdict == "ACCEPT"
        other = console.open_flow("another")
        assert console.cancel(other, reason="not needed")["state"] == "ABORTED"
        assert [event.event_type for event in console.feedback(other)[0]] == ["FLOW_ABORTED"]
        assert console.events()[1] >= 0
        assert console.schema("RUN_COMMAND")["version"] == "1.0.0"
        with pytest.raises(Refused) as refused:
            console.rules(dfid, "no-such-ruleset", {})
    assert refused.value.status in {404, 409}


def test_a_refusal_says_what_to_do(desk: Desk) -> None:
    with desk.client() as console, pytest.raises(Refused) as refused:
        console.propose("ISSUE_REFUND", SMALL, confidence=7.0)
    assert refused.value.code == "INVALID_REQUEST"
    assert refused.value.violations[0]["pointer"] == "/confidence"
    assert not Proposal.objects.exists()


def test_without_a_session_nothing_is_sent_until_safe_mode_ends(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk.client(manifest_version="9.0.0") as console:
        with pytest.raises(SafeMode) as told:
            console.propose("ISSUE_REFUND", SMALL)
        assert "VERSION_UNSUPPORTED" in str(told.value)
        assert 0 < told.value.retry_after_s <= conversations.SAFE_MODE_S
        with monkeypatch.context() as patch:
            patch.setattr(console, "_http", None)
            with pytest.raises(SafeMode):
                console.propose("ISSUE_REFUND", SMALL)
    assert not Flow.objects.exists()


def test_when_safe_mode_ends_the_next_call_tries_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "SAFE_MODE_S", 0.0)
    with desk.client(manifest_version="9.0.0") as console:
        with pytest.raises(SafeMode):
            console.propose("ISSUE_REFUND", SMALL)
        console.conversation.manifest_version = "1.0.0"
        assert console.propose("ISSUE_REFUND", SMALL).verdict == "ACCEPT"


def test_a_console_that_does_not_answer_puts_the_agent_in_safe_mode() -> None:
    with (
        misbehaving_targets.stand_in(misbehaving_targets.drop) as silent,
        Client(silent.base_url, agent_id="x", key="agk_x", patience_s=0.3) as console,
    ):
        with pytest.raises(SafeMode, match="does not answer"):
            console.handshake()
        tries = len(silent.seen)
        with pytest.raises(SafeMode):
            console.handshake()
        assert tries > 1
        assert len(silent.seen) == tries


def test_a_busy_console_is_asked_again_with_the_same_bytes() -> None:
    bodies, lock = [], threading.Lock()

    def answering(request: BaseHTTPRequestHandler) -> None:
        with lock:
            bodies.append(request.path)
            count = len(bodies)
        words = b'{"code":"BUSY","retriable":true}' if count < 3 else b'{"session_token":"ses_x"}'
        misbehaving_targets.answer(409 if count < 3 else 200, words)(request)

    with (
        misbehaving_targets.stand_in(answering) as busy,
        Client(busy.base_url, agent_id="x", key="agk_x") as console,
    ):
        assert console.handshake()["session_token"] == "ses_x"
    assert len(bodies) == 3
    assert len({seen.body for seen in busy.seen}) == 1


def test_the_key_and_the_token_are_in_no_text_of_the_client(desk: Desk) -> None:
    key = api_client.agent_key(CODER)
    with Client(desk.url, agent_id=CODER, key=key) as console:
        session = console.handshake()
        shown = repr(console.conversation)
    assert key not in shown
    assert session["session_token"] not in shown


def test_the_client_of_event_loops_does_the_same(desk: Desk) -> None:
    client = desk.async_client(CODER)

    async def agent() -> Any:
        async with client as console:
            many = await asyncio.gather(*(console.act("RUN_COMMAND", COMMAND) for _ in range(4)))
            held = await console.act("RUN_COMMAND", {**COMMAND, "command": "rm -rf build"}, timeout_s=0)
            return [*many, held]

    statuses = [result.status for result in asyncio.run(agent())]
    assert statuses == [Status.PERMITTED] * 4 + [Status.HELD]


def test_an_event_loop_without_a_session_is_in_safe_mode(desk: Desk) -> None:
    client = desk.async_client(CODER)

    async def agent() -> None:
        async with client as console:
            console.conversation.manifest_version = "9.0.0"
            await console.handshake()

    with pytest.raises(SafeMode):
        asyncio.run(agent())
