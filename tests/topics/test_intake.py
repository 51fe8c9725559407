"""A message on a topic is the call `POST /proposals`: the same answers, refusals and bounds."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from dir_console.topics import broker as broker_module
from dir_console.topics import intake as intake_module
from dir_console.topics import messages, names
from dir_console.topics.broker import Received
from dir_console.topics.intake import TopicIntake
from runtime.core.models import Answer
from runtime.flows.models import Flow, Intent, Proposal
from runtime.proposals.services import one_call
from tests.support import api_client
from tests.support.api_client import OTHER, TRADER
from tests.support.topic_broker import TopicBroker

pytestmark = pytest.mark.django_db
New = Callable[[], TopicIntake]


def body(**changes: Any) -> dict[str, Any]:
    """A proposal in one call that is accepted, but for `changes`."""
    return api_client.proposal(context="current", seen={"price.AAPL": 1, "market.state": 1}, **changes)


@pytest.fixture
def trader() -> api_client.Caller:
    api_client.load_pack()
    return api_client.session()


def answered(broker: TopicBroker, intake: TopicIntake, agent_id: str = TRADER) -> list[dict[str, Any]]:
    """The answers to what waits now; nothing waits afterwards, and nothing is kept of it."""
    while broker.client.xlen(names.intake_of(agent_id)):
        assert intake.work_round()
    assert broker.count_pending(agent_id) == 0
    return broker.answers(agent_id)


def test_a_message_is_judged_and_answered(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New
) -> None:
    entry_id = broker.send(TRADER, token=trader.token, body=body(), key="k-1")
    (answer,) = answered(broker, new_intake())
    assert (answer["to"], answer["key"], answer["status"]) == (entry_id.decode(), "k-1", "200")
    assert answer["body"]["verdict"] == "ACCEPT"
    flow = Flow.objects.get(dfid=answer["body"]["dfid"])
    assert (flow.agent.agent_id, Intent.objects.count()) == (TRADER, 1)


def test_the_same_key_gets_the_same_answer_by_either_road(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New
) -> None:
    by_http = trader.post("/proposals", body(), {"Idempotency-Key": "k-1"}).ok()
    for _ in range(2):
        broker.send(TRADER, token=trader.token, body=body(), key="k-1")
    broker.send(TRADER, token=trader.token, body=body(confidence=0.8), key="k-1")
    first, second, other = answered(broker, new_intake())
    assert first["body"] == second["body"] == by_http
    assert (other["status"], other["body"]["code"]) == ("422", "IDEMPOTENCY_KEY_REUSED")
    assert (Flow.objects.count(), Proposal.objects.count(), Answer.objects.count()) == (1, 1, 1)


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"token": "ses_0123456789abcdef." + "x" * 43}, "401", "UNAUTHENTICATED"),
        ({"token": ""}, "401", "UNAUTHENTICATED"),
        ({"body": b"{"}, "400", "INVALID_JSON"),
        ({"body": b"[" * 100_000}, "400", "INVALID_JSON"),
        ({"body": b'{"policy_kind": 1}'}, "422", "INVALID_REQUEST"),
        ({"body": body(agent_id=OTHER)}, "403", "UNAUTHORIZED"),
        ({"body": b" " * 1_000_001}, "413", "BODY_TOO_LARGE"),
        ({"body": b" " * 1_003_000}, "413", "BODY_TOO_LARGE"),
        ({"key": "k\r\nAuthorization: x"}, "400", "BAD_REQUEST"),
        ({"key": "\N{SNOWMAN}"}, "400", "BAD_REQUEST"),
        ({"key": "k" * 256}, "400", "IDEMPOTENCY_KEY_INVALID"),
        ({"agent": TRADER}, "400", "BAD_REQUEST"),
    ],
)
def test_what_the_api_refuses_is_refused_here(
    trader: api_client.Caller,
    broker: TopicBroker,
    new_intake: New,
    changes: dict[str, Any],
    status: str,
    code: str,
) -> None:
    broker.send(TRADER, **{"token": trader.token, "body": body(), **changes})
    (answer,) = answered(broker, new_intake())
    assert (answer["status"], answer["body"]["code"]) == (status, code)
    assert set(answer["body"]) >= {"type", "title", "status", "detail", "violations", "retriable"}
    assert not Flow.objects.exists()


def test_a_message_without_its_fields_is_answered_and_gone(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New
) -> None:
    broker.client.xadd(names.intake_of(TRADER), {b"\xff": b"\xff"})
    broker.send(TRADER, token=trader.token, body=body(), key="")
    poison, good = answered(broker, new_intake())
    assert (poison["status"], poison["key"], good["status"]) == ("400", "", "200")


def test_a_missing_key_is_said_to_be_missing(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New
) -> None:
    broker.client.xadd(names.intake_of(TRADER), {"token": trader.token, "key": "", "body": b"{}"})
    (answer,) = answered(broker, new_intake())
    assert answer["body"]["code"] == "IDEMPOTENCY_KEY_MISSING"


def test_a_session_of_another_agent_is_refused_and_recorded(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New
) -> None:
    """Its answer would be read by the agent whose topic it is."""
    broker.send(OTHER, token=trader.token, body=body())
    (answer,) = answered(broker, new_intake(), OTHER)
    assert (answer["status"], answer["body"]["code"]) == ("403", "UNAUTHORIZED")
    assert not Flow.objects.exists()
    assert LedgerEntry.objects.filter(stream=f"agent:{TRADER}", kind="request:refused").count() == 1


def test_no_token_stays_at_the_broker(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New
) -> None:
    for key in ("k-1", "k-2"):
        broker.send(TRADER, token=trader.token, body=body(), key=key)
    answered(broker, new_intake())
    secret = trader.token.partition(".")[2].encode()
    for stream in (names.intake_of(TRADER), names.answers_of(TRADER)):
        assert secret not in repr(broker.client.xrange(stream)).encode()


def test_more_than_can_be_worked_off_in_time_is_refused(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New, settings: Settings
) -> None:
    settings.DIR_LINE_S = 1
    intake = new_intake()
    room = int(1 / intake.turns.mean_turn_s)
    for number in range(room + 3):
        broker.send(TRADER, token=trader.token, body={}, key=f"k-{number}")
    answers = answered(broker, intake)
    assert [answer["status"] for answer in answers[:4]] == ["429"] * 3 + ["422"]
    assert answers[0]["body"]["code"] == "TOO_MANY_WAITING"
    assert answers[0]["body"]["retriable"] is True
    assert int(answers[0]["retry_after"]) >= 1
    assert len(answers) == room + 3


def test_streams_keep_their_bounds(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_module, "MOST_ANSWERS", 2)
    monkeypatch.setattr(broker_module, "MOST_MESSAGES", 3)
    broker.client.xadd(names.answers_of(TRADER), {"type": "answer", "body": "1"}, id="1-1")
    for number in range(5):
        broker.send(TRADER, token="", body=b"", key=f"k-{number}")
    answers = answered(broker, new_intake())
    assert [answer["key"] for answer in answers] == ["k-3", "k-4"], "the two newest of the last three"


def test_an_outage_of_the_database_is_waited_for(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "PAUSES_S", (0.0, 0.0))
    real, failures = one_call.submit, [1, 1]

    def submit(**given: Any) -> Any:
        if failures:
            failures.pop()
            raise OperationalError("the server closed the connection")
        return real(**given)

    monkeypatch.setattr(one_call, "submit", submit)
    broker.send(TRADER, token=trader.token, body=body())
    (answer,) = answered(broker, new_intake())
    assert answer["body"]["verdict"] == "ACCEPT"


def test_an_outage_that_lasts_is_answered(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "PAUSES_S", (0.0,))

    def submit(**given: Any) -> Any:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(one_call, "submit", submit)
    broker.send(TRADER, token=trader.token, body=body())
    (answer,) = answered(broker, new_intake())
    assert (answer["status"], answer["body"]["retriable"], answer["retry_after"]) == ("503", True, "1")


def test_a_bug_answers_once_and_does_not_loop(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(**given: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(one_call, "submit", submit)
    broker.send(TRADER, token=trader.token, body=body())
    (answer,) = answered(broker, new_intake())
    assert (answer["status"], answer["body"]["code"]) == ("500", "INTERNAL_ERROR")


def test_what_a_dead_consumer_took_is_answered_by_another(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New, settings: Settings
) -> None:
    dead = new_intake().broker
    dead.join(TRADER)
    broker.send(TRADER, token=trader.token, body=body(), key="k-1")
    assert len(dead.receive([TRADER], each=4, wait_ms=1000)[TRADER]) == 1
    other = new_intake()
    assert other.work_round() == 0, "its lease has not ended"
    settings.DIR_LEASE_S, other._upkeep_at_s = 0, 0.0
    (answer,) = answered(broker, other)
    assert (answer["key"], answer["body"]["verdict"]) == ("k-1", "ACCEPT")


def test_a_message_that_ended_each_process_is_given_up(
    trader: api_client.Caller, broker: TopicBroker, new_intake: New, settings: Settings
) -> None:
    settings.DIR_LEASE_S = 0
    dying = new_intake().broker
    dying.join(TRADER)
    broker.send(TRADER, token=trader.token, body=body(), key="bad")
    broker.send(TRADER, token=trader.token, body=body(), key="behind-it")
    dying.receive([TRADER], each=4, wait_ms=1000)
    taken = [dying.reclaim(TRADER, idle_ms=0) for _ in range(intake_module.MOST_DELIVERIES - 1)]
    assert [one.fields[b"key"] for one in taken if isinstance(one, Received)] == [b"bad"] * len(taken)
    given_up, good = answered(broker, new_intake())
    assert (given_up["status"], given_up["key"]) == ("500", "bad")
    assert (good["key"], good["status"]) == ("behind-it", "200"), good
    assert Flow.objects.count() == 1


def test_no_word_of_a_message_is_shown_by_what_is_logged() -> None:
    message = messages.read({b"token": b"secret-token", b"key": b"k", b"body": b"{}"})
    assert "secret-token" not in repr(message)
