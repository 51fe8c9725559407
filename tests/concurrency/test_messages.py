"""Mailboxes under real threads: delivered at least once, taken once, whatever ends in between."""

import os
from functools import partial
from typing import Any

import pytest
from django.db import connection, connections

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.message_answers import AcknowledgeAnswer, MessageAnswer
from runtime.contracts.problem import Problem
from runtime.conversations.models import Mailbox, Message
from runtime.conversations.services import delivering, posting, sending
from runtime.core import transactions
from runtime.registry.models import Session
from runtime.stops.services import stops
from tests.support import api_client, factories, racing, talking
from tests.support.talking import message

RACERS = 8
DEADLOCK = "40P01"


def opened(agent_id: str) -> Session:
    """A session of an agent, as a handshake gives it."""
    api_client.session(agent_id)
    return Session.objects.select_related("agent").filter(agent__agent_id=agent_id).latest("pk")


@pytest.fixture
def trader(real_db: str) -> Session:
    api_client.load_pack()
    return opened(api_client.TRADER)


@pytest.fixture
def stranger(trader: Session) -> Session:
    return opened(api_client.OTHER)


@pytest.fixture
def undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadlock is an error here, where otherwise the loser would try again a second later."""
    monkeypatch.setattr(transactions, "RACE_CODES", transactions.RACE_CODES - {DEADLOCK})


def post(session: Session, sent: dict[str, Any]) -> MessageAnswer | Problem:
    return sending.send(session=session, received=talking.received(sent))


def fetched(session: Session) -> list[str]:
    found = delivering.read(session=session, after=0)
    assert not isinstance(found, Problem)
    return [each.headers["message_id"] for each in found.messages]


def test_the_same_message_at_once_is_stored_once(trader: Session, stranger: Session) -> None:
    sent = message()
    answers = racing.race(RACERS, lambda _: post(trader, sent))
    assert len({repr(answer) for answer in answers}) == 1
    assert isinstance(answers[0], MessageAnswer)
    assert Message.objects.count() == 1
    assert Mailbox.objects.get().last_number == 1


def test_many_messages_at_once_are_all_delivered_in_one_order(trader: Session, stranger: Session) -> None:
    sent = [message(conversation_id=f"talk-{number % 3}") for number in range(RACERS * 2)]
    answers = racing.race(RACERS * 2, lambda number: post(trader, sent[number]))
    assert all(isinstance(answer, MessageAnswer) for answer in answers)
    assert sorted(fetched(stranger)) == sorted(each["headers"]["message_id"] for each in sent)
    numbers = Message.objects.order_by("number").values_list("number", flat=True)
    assert list(numbers) == list(range(1, RACERS * 2 + 1))
    assert findings.verify_all().findings == []


@pytest.mark.usefixtures("undisturbed")
def test_both_ways_at_once_hold_nobody_up(trader: Session, stranger: Session) -> None:
    asked = message()
    assert isinstance(post(trader, asked), MessageAnswer)

    def one(number: int) -> MessageAnswer | Problem:
        if number % 2:
            return post(stranger, talking.answer_to(asked))
        return post(trader, message())

    assert all(isinstance(answer, MessageAnswer) for answer in racing.race(RACERS, one))


def test_of_two_instances_one_takes_a_message(trader: Session, stranger: Session) -> None:
    sent = message()
    post(trader, sent)
    sessions = [stranger, *(opened(api_client.OTHER) for _ in range(RACERS - 1))]
    assert all(fetched(session) == [sent["headers"]["message_id"]] for session in sessions)
    take = partial(delivering.acknowledge, message_id=sent["headers"]["message_id"])
    answers = racing.race(RACERS, lambda number: take(session=sessions[number]))
    assert all(isinstance(answer, AcknowledgeAnswer) for answer in answers)
    taken = [answer for answer in answers if isinstance(answer, AcknowledgeAnswer) and answer.taken_here]
    assert len(taken) == 1
    assert LedgerEntry.objects.filter(kind="message:taken").count() == 1


def test_what_a_process_fetched_and_never_acknowledged_is_delivered_again(
    trader: Session, stranger: Session
) -> None:
    sent = [message(), message()]
    for each in sent:
        post(trader, each)
    ids = [each["headers"]["message_id"] for each in sent]
    ours, theirs = os.pipe()
    _leave_the_database()
    child = os.fork()
    if not child:
        # It takes the first, has fetched the second, and dies before it can acknowledge it.
        delivering.acknowledge(session=stranger, message_id=fetched(stranger)[0])
        os.write(theirs, ",".join(fetched(stranger)).encode())
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert os.read(ours, 100).decode() == ids[1]
    assert fetched(stranger) == [ids[1]]
    assert findings.verify_all().findings == []


def _leave_the_database() -> None:
    """A fork must not share a connection, nor the threads of a pool, which it does not have."""
    connections.close_all()
    close_pool = getattr(connection, "close_pool", None)
    if close_pool is not None:
        close_pool()


def test_no_message_is_sent_after_a_stop_was_committed(trader: Session, stranger: Session) -> None:
    def one(number: int) -> Any:
        if number == RACERS // 2:
            return stops.stop_all(tenant="default", actor="user:1", reason="look")
        return post(trader, message(conversation_id=f"talk-{number}"))

    racing.race(RACERS, one)
    stop = LedgerEntry.objects.get(kind="system:stopped")
    late = LedgerEntry.objects.filter(kind="message:sent", pk__gt=stop.pk)
    assert not late.exists()
    assert isinstance(post(trader, message()), Problem)


@pytest.mark.usefixtures("stranger", "undisturbed")
def test_messages_about_a_flow_and_work_in_it_at_once_hold_nobody_up(trader: Session) -> None:
    desk = factories.Desk(agent=trader.agent, session=trader)
    for number in range(RACERS * 2):
        flow = desk.open()
        said = message(dfid=str(flow.dfid), conversation_id=f"talk-{number}")
        ways = (partial(desk.submit, flow), partial(post, trader, said))
        _, sent = racing.race(2, lambda racer, ways=ways: ways[racer]())  # type: ignore[misc]
        assert isinstance(sent, MessageAnswer)
    assert findings.verify_all().findings == []


@pytest.mark.usefixtures("stranger")
def test_a_query_that_is_taken_is_answered_whoever_takes_the_last_place(
    trader: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a query and a message that race for the last place of a mailbox, one is refused as a whole."""
    other = opened(api_client.OTHER)
    for number in range(RACERS * 2):
        monkeypatch.setattr(posting, "MOST_WAITING", number + 1)
        query = message(
            {"capability_name": "advice"},
            message_type="CapabilityQuery",
            to_agent_id=None,
            conversation_id=f"ask-{number}",
        )
        last = message(
            from_agent_id=api_client.OTHER,
            to_agent_id=api_client.TRADER,
            conversation_id=f"talk-{number}",
        )
        first, second = partial(post, trader, query), partial(post, other, last)
        asked, sent = racing.race(2, lambda racer, both=(first, second): both[racer]())  # type: ignore[misc]
        assert isinstance(asked, Problem) is not isinstance(sent, Problem)
        answers = Message.objects.filter(correlation_id=query["headers"]["message_id"])
        assert answers.exists() is not isinstance(asked, Problem)
    assert findings.verify_all().findings == []
