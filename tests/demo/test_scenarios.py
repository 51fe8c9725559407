"""Scenarios of the demo: who may start them, what the broker and the agents then do, and that they end."""

import random
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from demo.agent_base import MAX_OPEN, Persona
from demo.broker import CONTROL_ENV
from demo.client import AgentNotice, Client
from demo.cues import PARTS, Cues
from demo.http_client import CallRefused, HttpAnswer, Unreachable, Wire
from demo.scenarios import LASTS_S, Board, Scenario
from tests.demo.paper import Paper, PaperBroker, ThreadBroker, gone
from tests.support.wait_until import until

TOKEN = "a-token-of-this-test"
ORDER = {"dfid": "d-1", "intent_id": "i-1", "params": {"symbol": "AAPL", "quantity": 2, "action": "BUY"}}


def ask(broker: Paper, body: Mapping[str, Any], *, token: str = TOKEN) -> HttpAnswer:
    wire = Wire(base_url=broker.base_url, patience_s=0)
    try:
        return wire.call("POST", "/scenarios", body=body, headers={"Authorization": f"Bearer {token}"})
    finally:
        wire.close()


def play(broker: Paper, scenario: Scenario, *, run: bool = True, symbol: str = "AAPL") -> None:
    answer = ask(broker, {"scenario": scenario, "run": run, "symbol": symbol})
    assert answer.status == 200, answer.body


@pytest.fixture
def controlled(broker: ThreadBroker) -> ThreadBroker:
    broker.exchange.control_token = TOKEN
    return broker


def test_a_scenario_ends_by_itself_and_can_be_ended_before() -> None:
    now = 100.0
    board = Board(clock=lambda: now)
    board.start(Scenario.CLOSE_MARKET)
    board.start(Scenario.DROP_ANSWERS)
    board.end(Scenario.DROP_ANSWERS)
    assert [one for one in Scenario if board.is_running(one)] == [Scenario.CLOSE_MARKET]
    now += LASTS_S[Scenario.CLOSE_MARKET] - 1
    assert board.left_s(Scenario.CLOSE_MARKET) == 1
    now += 1
    assert not board.is_running(Scenario.CLOSE_MARKET)


@pytest.mark.parametrize("token", ["", "another"])
def test_nobody_starts_one_without_the_token(broker: ThreadBroker, token: str) -> None:
    wanted = {"scenario": Scenario.CLOSE_MARKET, "run": True}
    assert ask(broker, wanted, token=token).status == 401, "a broker without a token takes none"
    broker.exchange.control_token = TOKEN
    assert ask(broker, wanted, token=token).status == 401
    assert broker.call("GET", "/market").body["state"] == "OPEN"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"scenario": "no-such", "run": True},
        {"scenario": "close-market"},
        {"scenario": "close-market", "run": 1},
        {"scenario": "move-price", "run": True},
        {"scenario": "move-price", "run": True, "symbol": "GOLD"},
    ],
)
def test_what_cannot_be_read_is_refused_with_a_sentence(
    controlled: ThreadBroker, body: dict[str, Any]
) -> None:
    answer = ask(controlled, body)
    assert (answer.status, " must be " in answer.body["error"]) == (400, True)


def test_the_market_closes_and_opens_again(controlled: ThreadBroker) -> None:
    play(controlled, Scenario.CLOSE_MARKET)
    assert controlled.call("GET", "/market").body["state"] == "CLOSED"
    play(controlled, Scenario.CLOSE_MARKET, run=False)
    assert controlled.call("GET", "/market").body["state"] == "OPEN"


def test_one_price_moves_and_comes_back(controlled: ThreadBroker) -> None:
    controlled.exchange.elapsed_s = lambda: 0.0  # type: ignore[method-assign]  # no walk meanwhile
    before = controlled.call("GET", "/prices").body
    play(controlled, Scenario.MOVE_PRICE, symbol="NVDA")
    moved = controlled.call("GET", "/prices").body
    assert {name for name in before if before[name] != moved[name]} == {"NVDA"}
    assert moved["NVDA"] == before["NVDA"] * 130 // 100
    play(controlled, Scenario.MOVE_PRICE, run=False)
    assert controlled.call("GET", "/prices").body == before


def test_dropped_answers_hide_what_was_done_until_the_end(controlled: ThreadBroker) -> None:
    play(controlled, Scenario.DROP_ANSWERS)
    with pytest.raises(Unreachable):
        controlled.call("POST", "/orders", ORDER, key="k-1")
    with pytest.raises(Unreachable):
        controlled.call("GET", "/effects/k-1")
    play(controlled, Scenario.DROP_ANSWERS, run=False)
    assert controlled.call("GET", "/effects/k-1").status == 200
    assert controlled.count()["effects"] == 1


def test_a_crash_comes_after_the_work_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONTROL_ENV, TOKEN)
    paper = PaperBroker(db=tmp_path / "broker.sqlite3")
    paper.start()
    try:
        assert paper._process is not None
        first = paper._process.pid
        play(paper, Scenario.CRASH_BROKER)
        with pytest.raises(Unreachable):
            paper.call("POST", "/orders", ORDER, key="k-1")
        until(lambda: gone(first), timeout_s=30)
        paper._reap()
        paper.start()
        assert paper.call("POST", "/orders", ORDER, key="k-1").status == 200
        assert paper.count()["effects"] == 1
    finally:
        paper.stop()


class Idle(Persona):
    """Does nothing but count its turns."""

    pace_s = (0.0, 0.01)

    def turn(self) -> None:
        self.turns += 1


class Awaited(threading.Event):
    """Counts how often somebody has waited for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return super().wait(timeout)


def idle(agent_id: str, stop: threading.Event) -> Idle:
    client = Client(base_url="http://127.0.0.1:9", agent_id=agent_id, key="agk_x.y", stop=stop)
    return Idle(client=client, rng=random.Random(1), stop=stop)


def test_the_agents_take_their_parts_and_leave_them(controlled: ThreadBroker) -> None:
    stop = threading.Event()
    personas = {agent_id: idle(agent_id, stop) for agent_id, _ in PARTS.values()}
    cues = Cues(broker=Wire(base_url=controlled.base_url, patience_s=0), personas=personas)
    for scenario, (agent_id, part) in PARTS.items():
        play(controlled, scenario)
        cues.take()
        assert part(personas[agent_id]).is_set()
        play(controlled, scenario, run=False)
        cues.take()
        assert not part(personas[agent_id]).is_set()
    play(controlled, Scenario.SILENCE_MONITOR)
    cues.take()
    controlled.stop()
    cues.broker.close()
    cues.take()
    assert not personas["risk-monitor"].falls_silent.is_set(), "without a board nobody plays on"


def test_a_silent_agent_takes_no_turn_until_it_may(controlled: ThreadBroker) -> None:
    stop = Awaited()
    persona = idle("risk-monitor", stop)
    persona.falls_silent.set()
    thread = threading.Thread(target=persona.run, daemon=True)
    thread.start()
    until(lambda: stop.waits > 0, timeout_s=30)  # it has come to the end of its first round
    assert persona.turns == 0
    persona.falls_silent.clear()
    until(lambda: persona.turns > 0, timeout_s=30)
    stop.set()
    thread.join(timeout=30)


def test_a_supervised_agent_takes_no_turn_while_much_waits_for_people(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop = Awaited()
    persona = idle("ambitious-trader", stop)
    persona.is_supervised = True
    persona.open_escalations = {f"d-{at}": 0 for at in range(MAX_OPEN)}
    monkeypatch.setattr(persona.client, "feedback", lambda *_, **__: ([], 0))
    thread = threading.Thread(target=persona.run, daemon=True)
    thread.start()
    until(lambda: stop.waits > 0, timeout_s=30)
    assert persona.turns == 0
    persona.open_escalations.pop("d-0")
    until(lambda: persona.turns > 0, timeout_s=30)
    stop.set()
    thread.join(timeout=30)


def test_an_agent_knows_after_a_restart_what_it_waits_for(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()

    def started() -> Idle:
        client = Client(base_url="http://127.0.0.1:9", agent_id="unsure-analyst", key="agk_x.y", stop=stop)
        return Idle(client=client, rng=random.Random(1), stop=stop, notes_folder=tmp_path)

    first = started()
    first.open_escalations["d-1"], first.asked_for["d-1"] = 4, {"policy_kind": "ADJUST_POSITION"}
    first._keep_notes()
    again = started()
    assert (again.open_escalations, again.asked_for) == (first.open_escalations, first.asked_for)
    assert [stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()] == [0o600]
    again._heed("d-1", AgentNotice(seq=5, event_type="FLOW_ABORTED", data={}))
    assert started().open_escalations == {}
    next(tmp_path.iterdir()).write_text("{")
    assert started().open_escalations == {}


def test_what_the_console_no_longer_knows_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    persona = idle("unsure-analyst", threading.Event())
    persona.open_escalations["d-1"] = 0

    def refused(*_: object, **__: object) -> None:
        raise CallRefused(status=404, body={})

    monkeypatch.setattr(persona.client, "feedback", refused)
    persona.listen()
    assert persona.open_escalations == {}
