"""The client's calls about tasks, messages and consultations, against a real server."""

import asyncio
from typing import Any

import pytest
from dir_console_client import Client, Message, Refused, SafeMode
from dir_console_client import messages as message_calls

from runtime.conversations.models import Message as Stored
from runtime.flows.models import Flow
from tests.sdk.conftest import CLERK, CODER, Desk
from tests.support import factories, misbehaving_targets

OPTIONS = [
    {"id": "all", "action": {"name": "REFUND", "parameters": {"cents": 4200}}, "utilities": {"fair": 1}},
    {"id": "half", "action": {"name": "REFUND", "parameters": {"cents": 2100}}, "utilities": {"fair": 0.5}},
]


def test_a_task_from_its_opening_to_its_links(desk: Desk) -> None:
    with desk.client() as console:
        opened = console.open_task("a refund", context={"order": "o-17"}, key="once")
        assert console.open_task("a refund", context={"order": "o-17"}, key="once") == opened
        changed = console.change_task(opened.task_id, {"order": None, "seen": True}, if_match=opened.etag)
        event = console.add_task_event(opened.task_id, "checked", {"ok": True})
        other = console.open_task("another", parent_task_id=opened.task_id)
        linked = console.link_task(opened.task_id, "TASK", other.task_id)
        task = console.task(opened.task_id)
        first = console.task(opened.task_id, at_context_version=1)
        with pytest.raises(Refused) as refused:
            console.change_task(opened.task_id, {"seen": False}, if_match=opened.etag)
    assert refused.value.status == 412
    versions = [each.context_version for each in (opened, changed, event, linked)]
    assert versions == [1, 2, 3, 4]
    assert (task.context, task.context_version, task.etag) == ({"seen": True}, 4, linked.etag)
    assert task.events[0]["event_id"] == event.event_id
    assert task.links[0]["ref"] == other.task_id
    assert first.context == {"order": "o-17"}
    assert Flow.objects.count() == 2


def test_a_message_is_sent_received_and_taken(desk: Desk) -> None:
    with desk.client() as clerk, desk.client(CODER) as coder:
        sent = clerk.send_message("ConsultationRequest", {"question": "Which?"}, to=CODER)
        waiting, number = coder.messages(wait_s=1)
        (question,) = waiting
        assert (question.sender, question.message_id, question.number) == (CLERK, sent.message_id, number)
        assert question.payload == {"question": "Which?"}
        coder.reply(question, {"answer": "Neither."})
        assert coder.acknowledge(question.message_id)
        assert coder.messages() == ([], 0)
        (answer,), _ = clerk.messages(wait_s=1)
        assert (answer.correlation_id, answer.conversation_id) == (sent.message_id, sent.conversation_id)
        assert clerk.messages(after=answer.number)[0] == []
        with pytest.raises(Refused) as refused:
            clerk.send_message("Cancel", {"cancellation_reason": "No."}, to="nobody")
    assert refused.value.code == "CAPABILITY_NOT_FOUND"


def test_a_long_poll_ends_with_the_message_that_comes(desk: Desk) -> None:
    with desk.client() as clerk, desk.client(CODER) as coder:
        coder.handshake()
        waiting = desk.begin(coder.messages, wait_s=20)
        clerk.send_message("ConsultationRequest", {"question": "Now?"}, to=CODER)
        ((question,), _) = waiting.result(timeout=15)
    assert question.payload["question"] == "Now?"


def test_a_message_that_is_tried_again_is_stored_once(desk: Desk) -> None:
    with desk.client() as clerk:
        said = {"question": "Which?"}
        first, again = (
            clerk.send_message(
                "ConsultationRequest", said, to=CODER, conversation_id="talk", message_id=message_id
            )
            for message_id in [message_calls.new_message_id()] * 2
        )
    assert first == again
    assert Stored.objects.count() == 1


def test_ids_sort_by_time_and_are_never_alike() -> None:
    made = [message_calls.new_message_id() for _ in range(200)]
    assert len(set(made)) == len(made)
    assert {len(each) for each in made} == {26}
    assert all(each[0] <= "7" for each in made)


def test_capabilities_are_offered_and_found(desk: Desk) -> None:
    with desk.client() as clerk, desk.client(CODER) as coder:
        assert clerk.capabilities("opinion") == []
        coder.advertise("opinion", cost_model={"per_call": 2}, tags=["refunds"])
        (provider,) = clerk.capabilities("opinion", cost_ceiling=2, tag="refunds")
        assert clerk.capabilities("opinion", cost_ceiling=1) == []
        assert [each.agent_id for each in clerk.capabilities()] == [CODER]
    assert (provider.agent_id, provider.capability_name, provider.state) == (CODER, "opinion", "LISTED")


def test_another_agent_is_consulted_and_heard(desk: Desk) -> None:
    factories.change_manifest(CLERK, consultations={"per_flow": 2, "cost_units": 5})
    with desk.client() as clerk, desk.client(CODER) as coder:
        clerk.conversation.manifest_version = "1.1.0"
        coder.advertise("opinion", cost_model={"per_call": 2})
        dfid = clerk.open_flow("a refund")
        (asked,) = clerk.consult(dfid, "opinion", "How much?", OPTIONS, providers=1)
        assert (asked.provider, asked.state, asked.choice) == (CODER, "ASKED", None)
        (question,), _ = coder.messages(wait_s=1)
        assert question.message_id == asked.message_id
        coder.reply(question, {"answer": {"choice": "half", "confidence": 0.7, "reason": "It is used."}})
        (heard,) = clerk.consultations(dfid)
        package = clerk.decide(dfid, [{"id": "fair", "weight": 1}], OPTIONS)
    assert (heard.state, heard.choice, heard.confidence, heard.reason) == (
        "ANSWERED",
        "half",
        0.7,
        "It is used.",
    )
    assert package["consensus"]["leading"] == "half"


def test_the_client_of_event_loops_has_the_same_calls(desk: Desk) -> None:
    clerk, coder = desk.async_client(CLERK), desk.async_client(CODER)

    async def agents() -> tuple[str, list[Message]]:
        async with clerk, coder:
            await coder.handshake()
            waiting = asyncio.create_task(_as_coroutine(coder.messages(wait_s=20)))
            opened = await clerk.open_task("a refund", context={"order": "o-17"})
            await clerk.send_message(
                "ConsultationRequest", {"question": "Which?"}, to=CODER, dfid=opened.task_id
            )
            found, _ = await waiting
            assert await coder.acknowledge(found[0].message_id)
            return (await clerk.task(opened.task_id)).context["order"], found

    order, found = asyncio.run(agents())
    assert order == "o-17"
    assert [each.sender for each in found] == [CLERK]


async def _as_coroutine(waited: Any) -> Any:
    return await waited


def test_a_console_that_does_not_answer_takes_no_message() -> None:
    with (
        misbehaving_targets.stand_in(misbehaving_targets.drop) as silent,
        Client(silent.base_url, agent_id="x", key="agk_x", patience_s=0.3) as console,
        pytest.raises(SafeMode),
    ):
        console.send_message("Cancel", {"cancellation_reason": "No."}, to="y")
