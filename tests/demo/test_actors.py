"""The feed and the agents, one turn at a time against a console that runs as its users start it."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from demo import agents, orchestra, proposals
from demo.agents_of_desk import Ambitious, Confused, Steady, Unsure
from demo.baskets import Switcher
from demo.client import Client
from demo.feed import Feed
from demo.http_client import CallRefused, Wire
from demo.monitor import Watchful
from demo.orchestra import Conductor, Voice
from demo.strategy import SCOPE, Strategist
from tests.demo import acting
from tests.demo.paper import ThreadBroker
from tests.faults.processes import ROOT
from tests.faults.stack import Stack
from tests.support.wait_until import until

PACK = ROOT / "demo" / "paper-brokerage.yaml"

MakeFeed = Callable[[dict[str, str]], Feed]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[Stack]:
    """An embedded console with the demo's pack and keys, and a broker process; nobody proposes by itself."""
    folder = tmp_path_factory.mktemp("actors")
    with acting.console_of(folder, migrated_file, pack=PACK) as running:
        yield running


def test_the_steady_agent_mostly_runs_by_itself(console: Stack) -> None:
    before = console.broker.count()["effects"]

    heard = acting.turns(acting.cast(console, Steady, "momentum-trader"), 4)

    accepted = [verdict for verdict in heard if verdict.verdict == "ACCEPT"]
    assert len(accepted) >= 3
    assert console.broker.count()["effects"] == before + len(accepted)


def test_the_ambitious_agent_crosses_its_bound_now_and_then(console: Stack) -> None:
    persona = acting.cast(console, Ambitious, "ambitious-trader")

    heard = acting.turns(persona, 12)

    codes = frozenset().union(*(verdict.codes() for verdict in heard))
    assert {"RISK_LIMIT_EXCEEDED", "R_PERSON_FOR_TRANSFERS"} <= codes
    assert 1 <= len(persona.open_escalations) <= 6, "what nobody answers stays bounded"


def test_the_basket_trader_switches_in_two_steps(console: Stack) -> None:
    before = console.broker.count()["effects"]

    heard = acting.turns(acting.cast(console, Switcher, "basket-trader"), 2)

    assert [verdict.verdict for verdict in heard] == ["ACCEPT", "ACCEPT"]
    assert console.broker.count()["effects"] == before + 4


QUESTION = """
from django.contrib.auth.models import Group, User
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.policy import Person
from escalations.services import deciding
from escalations.services.decision_request import DecisionRequest
row, user = Escalation.objects.get(flow="{dfid}"), User.objects.create(username="asker")
user.groups.add(Group.objects.get(name="operator"))
roles = frozenset(["operator"])
deciding.decide(
    tenant="default", escalation_id=row.pk, user=user,
    person=Person(user_id=user.pk, username="asker", roles=roles, groups=roles,
                  confirmed_at_ms=None, is_solo=False),
    request=DecisionRequest(action=Action.REQUEST_INFO, evidence_hash=row.evidence_hash, version=row.version,
              impact=row.impact, justification="On what?"))
answer = row.questions.get().text
"""
HEARD = """
from escalations.models import Question
row = Question.objects.get(escalation__flow="{dfid}")
answer = [row.closed_why, row.answer]
"""


def test_the_ambitious_agent_answers_who_asks(console: Stack) -> None:
    persona = acting.cast(console, Ambitious, "ambitious-trader")
    dfid, context = persona.begin(trigger="signal: momentum")
    body = proposals.large(context=context, rng=random.Random(1), above_cents=100_000)
    assert persona.propose(dfid, body).verdict == "ESCALATE"
    assert console.ask(QUESTION.format(dfid=dfid)) == "On what?"

    persona.listen()

    closed_why, words = console.ask(HEARD.format(dfid=dfid))
    assert closed_why == "ANSWERED"
    assert words.startswith("I proposed ADJUST_POSITION with action ")
    persona._answer(dfid, number=2)  # what nobody asked does no harm
    persona.client.wire.close()


def test_the_unsure_agent_asks_for_a_person(console: Stack) -> None:
    heard = acting.turns(acting.cast(console, Unsure, "unsure-analyst"), 6)

    assert {verdict.verdict for verdict in heard} == {"ACCEPT", "ESCALATE"}
    assert any("LOW_CONFIDENCE" in verdict.codes() for verdict in heard)


def test_the_confused_agent_is_stopped_after_three_attempts(console: Stack) -> None:
    heard = acting.turns(acting.cast(console, Confused, "confused-trader"), 1)

    assert heard[0].verdict == "REJECT"
    assert "INVALID_SCHEMA" in heard[0].codes()
    assert (heard[-1].state, "REASONING_EXHAUSTION" in heard[-1].codes()) in {
        ("ABORTED", True),
        ("ACCEPTED", False),
    }


def test_the_strategist_lets_others_act_under_its_flow(console: Stack) -> None:
    keys = json.loads(console.keys.read_text())
    personas = agents.cast(base_url=console.base_url, keys=keys, seed=1, stop=threading.Event())
    (strategist,) = (persona for persona in personas if isinstance(persona, Strategist))
    strategist.plan_s = 12.0  # type: ignore[misc]
    for desk in strategist.desks:
        desk.person_s = 0.5  # type: ignore[misc]
    with ThreadPoolExecutor(max_workers=1) as pool:
        plan = pool.submit(strategist.turn)
        until(lambda: plan.done() or all(not desk.orders.empty() for desk in strategist.desks), timeout_s=90)
        for desk in strategist.desks:
            desk.turn()
        plan.result(timeout=60)
    kept = strategist.client._call("GET", f"/memory/{SCOPE}/last-plan").body["value"]
    flow = strategist.client.flow(kept["dfid"])
    for persona in personas:
        persona.client.wire.close()
    assert flow["state"] == "CLOSED"
    assert len(flow["children"]) == len(strategist.desks)
    assert set(kept["ends"]) <= {"CLOSED", "ABORTED"}


def test_the_monitor_reports_and_proposes_nothing(console: Stack) -> None:
    class Brief(Watchful):
        silence_s = 0.0

    monitor = acting.cast(console, Brief, "risk-monitor")
    opened: list[str] = []
    open_flow = monitor.client.open_flow

    def listen(*, trigger: str, parent_dfid: str | None = None) -> str:
        opened.append(open_flow(trigger=trigger, parent_dfid=parent_dfid))
        return opened[-1]

    monitor.client.open_flow = listen  # type: ignore[method-assign]
    heard = acting.turns(monitor, 12)  # the last of them ends in a silence
    assert heard == []
    flow = monitor.client.flow(opened[-1])
    monitor.client.wire.close()
    assert (len(opened), flow["state"]) == (12, "CLOSED")


def test_the_conductor_hears_its_voices_before_it_proposes(console: Stack) -> None:
    """The careful voice disagrees about the larger order, so a person decides; on the smaller all agree."""
    voices = [acting.cast(console, Voice, name) for name in orchestra.VOICES]
    conductor = acting.cast(console, Conductor, "conductor")
    with ThreadPoolExecutor(max_workers=len(voices)) as pool:
        speaking = [pool.submit(voice.run) for voice in voices]
        try:
            heard = acting.turns(conductor, 2)
        finally:
            for voice in voices:
                voice.stop.set()
        for each in speaking:
            each.result(timeout=60)
    assert [verdict.verdict for verdict in heard] == ["ESCALATE", "ACCEPT"]
    assert "LOW_CONFIDENCE" in heard[0].codes()
    reader = acting.cast(console, Conductor, "conductor").client
    asked = [reader.consultations(each.dfid) for each in heard]
    reader.wire.close()
    choices = [{each["provider_agent_id"]: each["choice"] for each in round_} for round_ in asked]
    assert choices == [
        {"voice-momentum": "whole", "voice-value": "whole", "voice-caution": "half"},
        dict.fromkeys(orchestra.VOICES, "whole"),
    ]


def test_a_session_that_ended_is_opened_again(console: Stack) -> None:
    client = acting.cast(console, Steady, "momentum-trader").client
    client.handshake()
    client._token = "ses_0000000000000000." + "A" * 43

    assert client.flow(client.open_flow(trigger="after the end"))["state"] == "CREATED"
    client.wire.close()


def test_proposes_in_one_call_and_tries_again_in_its_flow(console: Stack) -> None:
    client = acting.cast(console, Steady, "momentum-trader").client
    body = {
        "policy_kind": "UPDATE_WATCHLIST",
        "params": {"symbol": "DOGE", "action": "ADD"},
        "execution_constraints": {"validity_window_sec": 60},
        "confidence": 0.95,
    }
    first = client.propose_at_once(body, trigger="a look around")
    assert (first.verdict, first.state) == ("REJECT", "ACTIVE")
    again = client.propose_at_once({**body, "params": {"symbol": "AAPL", "action": "ADD"}}, dfid=first.dfid)
    client.wire.close()
    assert (again.dfid, again.verdict) == (first.dfid, "ACCEPT")


def test_a_wrong_key_is_told_and_not_tried_for_ever(console: Stack) -> None:
    client = Client(
        base_url=console.base_url, agent_id="momentum-trader", key="agk_0000000000000000." + "A" * 43
    )

    with pytest.raises(CallRefused) as refusal:
        client.open_flow(trigger="nobody")
    client.wire.close()
    assert refusal.value.status == 401


@pytest.fixture
def feed_of(console: Stack, broker: ThreadBroker) -> Iterator[MakeFeed]:
    """Makes feeds of given keys, and closes their connections."""
    made: list[Feed] = []

    def make(keys: dict[str, str]) -> Feed:
        made.append(
            Feed(console=Wire(base_url=console.base_url), broker=Wire(base_url=broker.base_url), keys=keys)
        )
        return made[-1]

    yield make
    for feed in made:
        feed.console.close()
        feed.broker.close()


def test_the_feed_writes_what_changed_and_only_that(
    console: Stack, broker: ThreadBroker, feed_of: MakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    price = console.manage("issue_key", "--feed", "prices", "--prefix", "price.").strip()
    feed = feed_of({"price": price})

    # The market lives by the clock: between two turns it may have moved.
    monkeypatch.setattr(broker.exchange, "elapsed_s", lambda: 0.0)
    feed.turn()
    before = dict(feed.written)
    assert feed.turn() == 0

    monkeypatch.setattr(broker.exchange, "elapsed_s", lambda: 3_000.0)  # through an hour
    changed = feed.turn()
    assert changed == sum(feed.written[path] != value for path, value in before.items()) > 0
    assert "market.state" not in feed.written


def test_the_feed_takes_over_what_another_wrote(console: Stack, feed_of: MakeFeed) -> None:
    key = console.manage("issue_key", "--feed", "hours", "--prefix", "market.").strip()
    one, other = feed_of({"market": key}), feed_of({"market": key})
    one.turn()
    other.turn()
    other._write("market.state", "CLOSED")

    assert one._write("market.state", "OPEN")
    assert one.written == {"market.state": "OPEN", "market.blocks": "OPEN"}


def test_the_feed_leaves_alone_what_its_key_may_not_write(console: Stack, feed_of: MakeFeed) -> None:
    key = console.manage("issue_key", "--feed", "narrow", "--prefix", "price.AAPL").strip()
    feed = feed_of({"price": key, "market": key})
    feed._write("market.state", "CLOSED")

    assert feed.refused == {"market.state"}


def test_reads_no_keys_from_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        agents.read_keys(file=tmp_path / "none.json", environ={})
