"""Two topic intakes in threads of one process, on both databases: one effect for each key."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from dir_console.topics import names
from dir_console.topics.intake import TopicIntake
from runtime.flows.models import Flow, Intent
from tests.support import api_client, racing, topic_broker
from tests.support.api_client import TRADER
from tests.support.topic_broker import TopicBroker

KEYS = 5


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[TopicBroker]:
    folder: Path = tmp_path_factory.mktemp("broker")
    with topic_broker.running(folder) as started:
        settings.DIR_TOPIC_URL = started.url
        settings.DIR_LEASE_S = 0  # each takes what the other is about to answer
        yield started


def test_messages_that_two_intakes_take_act_once(real_db: str, broker: TopicBroker) -> None:
    api_client.load_pack()
    trader = api_client.session()
    body = api_client.proposal(context="current", seen={"price.AAPL": 1, "market.state": 1})
    for number in range(3 * KEYS):
        broker.send(TRADER, token=trader.token, body=body, key=f"key-{number % KEYS}")

    def work(_: int) -> None:
        intake = TopicIntake(broker.client)
        while broker.client.xlen(names.intake_of(TRADER)):
            intake._upkeep_at_s = 0.0
            intake.work_round()

    racing.race(2, work)
    assert (Flow.objects.count(), Intent.objects.count()) == (KEYS, KEYS)
    told = broker.answers(TRADER)
    assert {answer["status"] for answer in told} == {"200"}
    assert len({(answer["key"], answer["body"]["proposal_id"]) for answer in told}) == KEYS
    assert broker.count_pending(TRADER) == 0
