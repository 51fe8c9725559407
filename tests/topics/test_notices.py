"""Notices hold ids: what became of a flow is read over the API by whoever may."""

from collections.abc import Callable

import pytest

from audit.models import LedgerEntry
from dir_console.topics import names
from dir_console.topics.intake import TopicIntake
from dir_console.topics.notices import Notices
from runtime.maintenance.services import sealing
from tests.support import api_client, ledger_tampering, racing
from tests.support.api_client import OTHER, TRADER
from tests.support.topic_broker import TopicBroker

New = Callable[[], TopicIntake]


def _sealed() -> None:
    sealing.add_waiting()


@pytest.fixture
def followed(real_db: str, broker: TopicBroker, new_intake: New) -> TopicIntake:
    """An intake that follows the topics of two agents, from now on."""
    api_client.load_pack()
    _sealed()
    intake = new_intake()
    intake.broker.join(TRADER)
    intake.broker.join(OTHER)
    assert intake.notices.publish({TRADER, OTHER}) == 0
    return intake


def test_an_intent_and_feedback_are_told_by_their_ids(followed: TopicIntake, broker: TopicBroker) -> None:
    trader = api_client.session()
    dfid = trader.open_flow()
    accepted = trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()
    rejected_in = trader.open_flow()
    body = api_client.proposal(trader.context(rejected_in), params={"symbol": "AAPL"})
    trader.propose(rejected_in, body).ok()
    _sealed()
    followed.notices.publish({TRADER, OTHER})
    notices = broker.notices(TRADER)
    created = [notice for notice in notices if notice["event_type"] == "INTENT_CREATED"]
    assert [(notice["dfid"], notice["intent_id"]) for notice in created] == [(dfid, accepted["intent_id"])]
    (told,) = [notice for notice in notices if notice["dfid"] == rejected_in]
    assert (told["event_type"], told["seq"]) == ("VALIDATION_FEEDBACK", 1)
    feedback = trader.get(f"/flows/{rejected_in}/feedback").ok()["events"]
    assert (told["seq"], told["event_type"]) == (feedback[0]["seq"], feedback[0]["event_type"])
    assert broker.notices(OTHER) == [], "another agent is told nothing"
    known = {"event_type", "dfid", "at", "seq", "intent_id", "valid_until"}
    assert all(set(notice) <= known for notice in notices)


def test_each_notice_is_published_once_by_two_processes_at_once(
    followed: TopicIntake, broker: TopicBroker
) -> None:
    trader = api_client.session()
    for _ in range(3):
        dfid = trader.open_flow()
        trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()
    _sealed()
    published = racing.race(4, lambda _: Notices(broker.client).publish({TRADER}))
    followed.notices.publish({TRADER})
    told = [(notice["dfid"], notice["event_type"], notice.get("seq")) for notice in broker.notices(TRADER)]
    assert len(told) == len(set(told)) > 0
    assert sum(published) <= len(told)


def test_a_position_that_was_lost_begins_at_now(followed: TopicIntake, broker: TopicBroker) -> None:
    trader = api_client.session()
    trader.open_flow()
    _sealed()
    for lost in (None, b"999999999", b"-1", b"x"):
        broker.client.delete(names.POSITION)
        if lost is not None:
            broker.client.set(names.POSITION, lost)
        assert followed.notices.publish({TRADER}) == 0
    assert broker.notices(TRADER) == []


def test_nothing_is_told_of_an_entry_that_was_changed(followed: TopicIntake, broker: TopicBroker) -> None:
    trader = api_client.session()
    dfid = trader.open_flow()
    trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()
    _sealed()
    entry = LedgerEntry.objects.filter(stream=dfid, kind="intent:created").get()
    body = bytes(entry.body).replace(b"intent_id", b"intent_ie")
    ledger_tampering.execute("UPDATE audit_ledgerentry SET body = %s WHERE id = %s", [body, entry.pk])
    followed.notices.publish({TRADER})
    followed.notices.publish({TRADER})
    assert "INTENT_CREATED" not in {notice["event_type"] for notice in broker.notices(TRADER)}
