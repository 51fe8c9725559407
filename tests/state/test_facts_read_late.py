"""A fact that a kind reads only after the gate: in what undoes a step, asks about it, routes it or writes."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from pytest_django.fixtures import Settings

from audit import canonical
from audit.verification.verify import Whole, verify_database
from runtime.contracts.states import FlowState, IntentState
from runtime.proposals.queries import verdict_replay
from runtime.state.models import Fact
from tests.support import misbehaving_targets, trading_desk
from tests.support.fake_target import walk

pytestmark = pytest.mark.django_db
# The kind depends on price.ABC: of the facts of its namespace, price.XYZ is named nowhere else.
SEVEN = "context.facts.price.XYZ"
STEP = "      - {id: order, executor: BY_WHOM, target: broker, request: {method: POST, path: /orders}}"


class Target:
    """Refuses what the test says, loses the answer of the next call where told, and keeps the paths."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.refused: set[str] = set()
        self.loses_next = False
        self.base_url = ""

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        self.paths.append(request.path)
        if self.loses_next:
            self.loses_next = False
            misbehaving_targets.drop(request)
        else:
            misbehaving_targets.answer(422 if request.path in self.refused else 200)(request)


@pytest.fixture
def target(settings: Settings) -> Iterator[Target]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    made = Target()
    with misbehaving_targets.stand_in(made) as running:
        made.base_url = running.base_url
        yield made
    assert isinstance(verify_database(), Whole)


def desk(
    target: Target, monkeypatch: pytest.MonkeyPatch, *, steps: str = STEP, fields: str = ""
) -> trading_desk.Desk:
    text = trading_desk.PACK.replace("price: {ABC: 100}", "price: {ABC: 100, XYZ: 7}").replace(STEP, steps)
    monkeypatch.setattr(trading_desk, "PACK", text.replace("    impact:", f"{fields}    impact:"))
    return trading_desk.open_desk(base_url=target.base_url)


def test_what_undoes_a_step_reads_it(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = f"""
      - {{id: pay, target: broker, request: {{path: /pay}},
         compensate: {{path: "/unpay/${{{SEVEN}}}", body: "{{'price': {SEVEN}}}"}}}}
      - {{id: ship, target: broker, request: {{path: /ship}}}}""".strip("\n")
    target.refused = {"/ship"}
    intent_id = desk(target, monkeypatch, steps=steps).accept()
    walk(intent_id)
    assert target.paths == ["/pay", "/ship", "/unpay/7"]
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)


def test_what_asks_about_a_call_reads_it(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = f'probe: {{path: "/by-key/${{{SEVEN}}}/${{key}}"}}'
    steps = STEP.replace("path: /orders}}", f"path: /orders}}, {probe}}}")
    intent_id = desk(target, monkeypatch, steps=steps, fields="    on_unknown: probe\n").accept()
    target.loses_next = True
    walk(intent_id)
    assert target.paths[0] == "/orders"
    assert target.paths[1].startswith("/by-key/7/")
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)


def test_a_route_reads_it(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    target.refused = {"/orders"}
    routes = f"    routes: [{{when: '{SEVEN} == 7', action: CLOSE}}]\n"
    intent_id = desk(target, monkeypatch, fields=routes).accept()
    walk(intent_id)
    assert trading_desk.flow_of(intent_id).state == FlowState.CLOSED
    assert trading_desk.flow_of(intent_id).reason == "CLOSED_BY_ROUTE"
    assert "route:failed" not in trading_desk.kinds(intent_id)


def test_a_write_reads_it(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = f'writes: [{{fact: "order.at_${{{SEVEN}}}", value: "{SEVEN} + 1"}}]'
    steps = STEP.replace("path: /orders}}", f"path: /orders}}, {writes}}}")
    intent_id = desk(target, monkeypatch, steps=steps).accept()
    walk(intent_id)
    assert canonical.decode(bytes(Fact.objects.get(path="order.at_7").value)) == 8
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)


def test_the_stored_verdict_replays_with_what_it_read(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = f"    routes: [{{when: '{SEVEN} == 7', action: CLOSE}}]\n"
    desk(target, monkeypatch, fields=routes).accept()
    trading_desk.write_fact("price.XYZ", 9)
    assert verdict_replay.replay() == verdict_replay.Equal(1)
