"""A topic intake is killed anywhere between taking a message and letting go of it: it acts once."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from runtime.flows.models import Flow, Intent, Proposal
from tests.faults import processes
from tests.support import api_client, topic_broker
from tests.support.api_client import TRADER

pytestmark = [pytest.mark.faults, pytest.mark.slow]
PATIENCE_S = 60


def begin(database: str, broker_url: str, settings: Settings, point: str) -> subprocess.Popen[bytes]:
    """One intake in a process of its own."""
    argv = processes.python("-m", "tests.faults.topic_worker", database, broker_url, point)
    environment = processes.inherited_environment({"DIR_SECRET_KEY": settings.SECRET_KEY})
    return subprocess.Popen(
        argv, cwd=processes.ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def end(worker: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Its exit code, and how many messages it says it answered."""
    printed, failed = worker.communicate(timeout=PATIENCE_S)
    if worker.returncode not in {0, -signal.SIGKILL}:
        print(failed.decode(), file=sys.stderr)
    return worker.returncode, printed.decode().strip()


def body() -> dict[str, object]:
    return api_client.proposal(context="current", seen={"price.AAPL": 1, "market.state": 1})


@pytest.mark.parametrize(("point", "answers"), [("taken", 1), ("committed", 1), ("settled", 1)])
def test_a_message_of_a_killed_intake_acts_once(
    point: str, answers: int, real_db: str, settings: Settings, tmp_path: Path
) -> None:
    api_client.load_pack()
    trader = api_client.session()
    with topic_broker.running(tmp_path) as broker:
        broker.send(TRADER, token=trader.token, body=body(), key="once")
        assert end(begin(real_db, broker.url, settings, point)) == (-signal.SIGKILL, "")
        left = "0" if point == "settled" else "1"
        assert end(begin(real_db, broker.url, settings, "")) == (0, left)
        told = broker.answers(TRADER)
        assert [answer["key"] for answer in told] == ["once"] * answers
        assert told[0]["body"]["verdict"] == "ACCEPT"
        assert (broker.client.xlen("dir:intake:trader"), broker.count_pending(TRADER)) == (0, 0)
    assert (Flow.objects.count(), Proposal.objects.count(), Intent.objects.count()) == (1, 1, 1)
    assert isinstance(verify_database(), Whole)


def test_two_intakes_at_once_act_once_for_each_key(real_db: str, settings: Settings, tmp_path: Path) -> None:
    """Their lease ends at once, so each takes what the other is about to answer."""
    api_client.load_pack()
    trader = api_client.session()
    with topic_broker.running(tmp_path) as broker:
        for number in range(12):
            broker.send(TRADER, token=trader.token, body=body(), key=f"key-{number % 6}")
        workers = [begin(real_db, broker.url, settings, "") for _ in range(2)]
        codes = [end(worker)[0] for worker in workers]
        told = broker.answers(TRADER)
    assert codes == [0, 0]
    assert {answer["key"] for answer in told} == {f"key-{number}" for number in range(6)}
    bodies = {(answer["key"], answer["body"]["proposal_id"]) for answer in told}
    assert len(bodies) == 6, "one verdict for each key, however often it is told"
    assert (Flow.objects.count(), Intent.objects.count()) == (6, 6)
    assert isinstance(verify_database(), Whole)
