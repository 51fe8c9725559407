"""What is asked around the steps: between two of them, before one, of a receipt, and after the last."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit import canonical
from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification import findings
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import deciding, taking_back
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus, FlowState, IntentState
from runtime.flows.models import Outcome, StepReceipt
from runtime.packs.services import packs
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import ReplayEqual
from runtime.registry.models import Agent
from runtime.registry.services import agents
from tests.support import api_client, exported_packs, factories, fake_target, markup, trading_desk
from tests.support.fake_target import Book, walk
from tests.web.test_pages import sign_in

pytestmark = pytest.mark.django_db
INVARIANTS = """
invariants:
  - {invariant_id: calm, require: "context.facts.price.ABC < 1000", severity: LOW, at: [PLACE],
     message: Too dear}
"""
DIRTY = (AgentStatus.LOCKED, "PARTIAL_SUCCESS_DIRTY")


def text_of_pack(
    *, place: str = "", pay: str = "", ship: str = "", severity: str = "LOW", kind: str = ""
) -> str:
    """The pack with three steps, an invariant at `place`, and more of the steps pay and ship."""
    text = fake_target.pack()
    asserted = "\n    safety_assertions: [{invariant_id: calm}]" if place else ""
    # The price may move without making the evidence stale.
    text = text.replace(
        "depends_on: [price.ABC,", "undo_s: 0\n    depends_on: [{fact: price.ABC, unless: 'true'},"
    )
    text = text.replace("\n    impact:", f"{asserted}{kind}\n    impact:", 1)
    text = text.replace("compensate: {path: /pay/undo}}", f"compensate: {{path: /pay/undo}}{pay}}}")
    text = text.replace("request: {path: /ship}}", f"request: {{path: /ship}}{ship}}}")
    known = INVARIANTS.replace("PLACE", place).replace("LOW", severity) if place else ""
    return text + known


@pytest.fixture
def book(settings: Settings) -> Iterator[Book]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with fake_target.opened() as opened:
        yield opened
        opened.check()
    # The people of these tests were never recorded.
    told = [item.detail for item in findings.verify_all().findings]
    assert [detail for detail in told if "the user" not in detail] == []


def open_desk(book: Book, monkeypatch: pytest.MonkeyPatch, **parts: str) -> trading_desk.Desk:
    monkeypatch.setattr(trading_desk, "PACK", text_of_pack(**parts))
    return trading_desk.open_desk(base_url=book.base_url)


def standing() -> tuple[str, str]:
    row = Agent.objects.get(agent_id=trading_desk.AGENT)
    return row.status, row.status_reason


def entries(intent_id: UUID, kind: str) -> list[dict[str, Any]]:
    rows = LedgerEntry.objects.filter(stream=str(trading_desk.intent(intent_id).flow_id), kind=kind)
    return [canonical.decode(bytes(row.body))["payload"] for row in rows.order_by("seq")]


def asked() -> Escalation:
    return Escalation.objects.latest("opened_at")


def decide(action: Action, **fields: Any) -> deciding.DecisionResult | Problem:
    name = f"someone{Escalation.objects.count()}{action}".lower()
    return factories.decide(asked(), factories.user(name), action, **fields)


def outcome_package(intent_id: UUID) -> dict[str, Any]:
    caller = api_client.Caller(api_client.auditor_key())
    dfid = trading_desk.intent(intent_id).flow_id
    shown: dict[str, Any] = caller.get(f"/audit/contracts/execution_outcome_package/{dfid}").ok()
    return shown


def validations(intent_id: UUID) -> list[tuple[str, str, str]]:
    shown = outcome_package(intent_id)["safety_validation_results"]
    return [
        (each["invariant_id"], each["pass_fail"], each["detail"])
        for each in shown
        if each["invariant_id"] != "PRE_CALL_CHECK"
    ]


def pause(book: Book, monkeypatch: pytest.MonkeyPatch, **parts: str) -> UUID:
    """An intent that is paused before its second step."""
    desk = open_desk(book, monkeypatch, place="BETWEEN_STEPS", **parts)
    intent_id = desk.accept()
    assert fake_target.attempt(intent_id).called
    trading_desk.write_fact("price.ABC", 5000)
    done = fake_target.attempt(intent_id)
    assert (done.status, done.called, done.detail) == ("WITH_PERSON", False, "INVARIANT_VIOLATED")
    return intent_id


def test_a_violation_between_steps_pauses_and_locks_the_agent(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = pause(book, monkeypatch)
    assert trading_desk.states(intent_id) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
    assert book.order == ["/reserve"]
    assert standing() == DIRTY
    row = asked()
    assert (row.family, row.reason) == ("OPERATIONAL", "INVARIANT_VIOLATED")
    [checked] = entries(intent_id, "invariants:checked")
    assert (checked["place"], checked["step"], checked["violated"]) == ("BETWEEN_STEPS", "pay", ["calm"])
    # The page says what does not hold, and offers what M33 of the design allows: no more.
    page = sign_in(Role.OPERATOR).get(f"/escalations/{row.pk}/").content.decode()
    assert "The invariant calm does not hold (LOW): Too dear." in markup.words(page)
    assert 'value="RESUME"' in page
    assert 'data-button="Stop and undo"' in page
    assert not {name for name in ("MARK_DONE", "MODIFY") if f'value="{name}"' in page}
    for action in (Action.MARK_DONE, Action.MODIFY):
        refused = decide(action, receipt={"a": 1}, params={"symbol": "ABC", "quantity": 1})
        assert isinstance(refused, Problem)
        assert refused.code in ("ACTION_UNKNOWN", "STEPS_DONE")


def test_resume_asks_the_invariant_again(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = pause(book, monkeypatch)
    first = asked()
    assert not isinstance(decide(Action.RESUME), Problem)
    assert standing() == (AgentStatus.ACTIVE, "")
    assert fake_target.attempt(intent_id).status == "WITH_PERSON"
    assert book.order == ["/reserve"]
    assert (asked().reason, standing()) == ("INVARIANT_VIOLATED", DIRTY)
    assert asked().pk != first.pk
    trading_desk.write_fact("price.ABC", 100)
    assert not isinstance(decide(Action.RESUME), Problem)
    assert walk(intent_id) == ["ADVANCED", "SUCCEEDED"]
    assert book.order == ["/reserve", "/pay", "/ship"]
    assert standing() == (AgentStatus.ACTIVE, "")
    assert validations(intent_id) == [
        ("calm", "fail", "Asked before step pay."),
        ("calm", "fail", "Asked before step pay."),
        ("calm", "pass", "Asked before step pay."),
        ("calm", "pass", "Asked before step ship."),
    ]
    flow = trading_desk.intent(intent_id).flow
    assert isinstance(flow_replay.replay(tenant=flow.tenant, dfid=flow.pk), ReplayEqual)


def test_abort_stops_and_undoes(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = pause(book, monkeypatch)
    assert not isinstance(decide(Action.ABORT), Problem)
    assert standing() == DIRTY
    assert walk(intent_id) == ["COMPENSATED"]
    assert book.order == ["/reserve", "/reserve/undo"]
    assert Outcome.objects.get(pk=intent_id).status == "COMPENSATED"
    assert standing() == (AgentStatus.ACTIVE, "")


def test_a_resume_that_is_taken_back_locks_the_agent_again(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = pause(book, monkeypatch)
    monkeypatch.setattr("runtime.kernel.undo_window.length_s", lambda *_, **__: 30)
    assert not isinstance(decide(Action.RESUME), Problem)
    assert standing() == (AgentStatus.ACTIVE, "")
    person = factories.person(factories.user("taker"))
    taken = taking_back.take_back(tenant=trading_desk.TENANT, escalation_id=asked().pk, person=person)
    assert not isinstance(taken, Problem)
    assert (standing(), trading_desk.states(intent_id)[0]) == (DIRTY, IntentState.WITH_PERSON)


def test_a_suspended_agent_that_works_again_while_a_step_stands_done_is_locked(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause(book, monkeypatch)
    for status in (AgentStatus.SUSPENDED, AgentStatus.ACTIVE):
        agents.set_status(
            tenant=trading_desk.TENANT,
            agent_id=trading_desk.AGENT,
            status=status,
            reason="looked at",
            actor="user:1",
        )
    assert standing() == DIRTY


def test_nothing_pauses_before_the_first_step(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk(book, monkeypatch, place="BETWEEN_STEPS")
    intent_id = desk.accept()
    trading_desk.write_fact("price.ABC", 5000)
    assert fake_target.attempt(intent_id).called


def test_an_invariant_of_both_places_pauses_between_steps(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(book, monkeypatch, place="CLAIM, BETWEEN_STEPS")
    intent_id = desk.accept()
    assert fake_target.attempt(intent_id).called
    trading_desk.write_fact("price.ABC", 5000)
    assert fake_target.attempt(intent_id).status == "WITH_PERSON"
    waiting = trading_desk.intent(intent_id)
    assert waiting.direction == "FORWARD"


@pytest.mark.parametrize(("severity", "calls"), [("LOW", False), ("HIGH", True)])
def test_an_invariant_after_the_last_step_is_a_deviation_and_calls_a_person_if_grave(
    severity: str, calls: bool, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(book, monkeypatch, place="AFTER", severity=severity)
    intent_id = desk.accept()
    fake_target.attempt(intent_id)
    fake_target.attempt(intent_id)
    trading_desk.write_fact("price.ABC", 5000)
    done = fake_target.attempt(intent_id)
    if calls:
        assert (done.status, asked().reason) == ("WITH_PERSON", "INVARIANT_VIOLATED_AFTER")
        page = sign_in(Role.OPERATOR).get(f"/escalations/{asked().pk}/").content.decode()
        assert "After ship the invariant calm does not hold (HIGH): Too dear." in markup.words(page)
        assert isinstance(decide(Action.RESUME), Problem)
        assert not isinstance(decide(Action.MARK_DONE, receipt={"path": "/ship", "number": 3}), Problem)
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
    [deviation] = outcome_package(intent_id)["deviations"]
    assert deviation["severity"] == severity
    assert deviation["expected"] == {"calm": "context.facts.price.ABC < 1000"}
    assert "abort to undo" in deviation["remediation"]
    told = ("calm", "fail", "Asked after step ship.")
    assert validations(intent_id) == [told] * (2 if calls else 1)


SCHEMA = (
    ", receipt_schema: {type: object, properties: {number: {type: integer, maximum: 1}}, required: [number]}"
)


@pytest.mark.parametrize("action", [Action.MARK_DONE, Action.ABORT])
def test_a_receipt_that_does_not_fit_calls_a_person(
    action: Action, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(book, monkeypatch, pay=SCHEMA)
    intent_id = desk.accept()
    fake_target.attempt(intent_id)
    assert fake_target.attempt(intent_id).status == "WITH_PERSON"
    assert asked().reason == "RECEIPT_INVALID"
    [unfit] = entries(intent_id, "receipt:misfit")
    assert (unfit["step"], unfit["severity"], unfit["pointers"], unfit["asked"]) == (
        "pay",
        "HIGH",
        ["pay/number"],
        True,
    )
    page = sign_in(Role.OPERATOR).get(f"/escalations/{asked().pk}/").content.decode()
    assert "pay/number of the receipt of pay does not fit its schema (HIGH)." in markup.words(page)
    assert "Mark done records it as done; the following steps run next." in markup.words(page)
    assert isinstance(decide(Action.RESUME), Problem)
    assert not isinstance(decide(action, receipt={"path": "/pay", "number": 1}), Problem)
    if action is Action.MARK_DONE:
        assert walk(intent_id) == ["SUCCEEDED"]
        assert outcome_package(intent_id)["deviations"] == []
        assert book.order == ["/reserve", "/pay", "/ship"]
    else:
        # What the receipt speaks of has happened: it is undone with the step before it.
        assert walk(intent_id) == ["ADVANCED", "COMPENSATED"]
        assert book.order == ["/reserve", "/pay", "/pay/undo", "/reserve/undo"]


def test_a_minor_misfit_goes_on_and_is_told(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = open_desk(
        book, monkeypatch, pay=f"{SCHEMA}, on_misfit: {{severity: MEDIUM, remediation: Call the broker}}"
    )
    intent_id = desk.accept()
    assert walk(intent_id) == ["ADVANCED", "ADVANCED", "SUCCEEDED"]
    [deviation] = outcome_package(intent_id)["deviations"]
    assert deviation == {
        "expected": {"pay/number": "must be at most 1"},
        "observed": {"pay/number": 2},
        "severity": "MEDIUM",
        "remediation": "Call the broker",
    }
    told = dict(trading_desk.told(intent_id))["EXECUTION_OUTCOME"]["deviations"]
    assert [each["code"] for each in told] == ["RECEIPT_INVALID"]
    flow = trading_desk.intent(intent_id).flow
    assert isinstance(flow_replay.replay(tenant=flow.tenant, dfid=flow.pk), ReplayEqual)


def test_a_route_sends_a_minor_misfit_to_a_person(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    route = "\n    routes: [{when: \"outcome.deviation == 'LOW'\", action: ESCALATE}]"
    desk = open_desk(book, monkeypatch, pay=f"{SCHEMA}, on_misfit: {{severity: LOW}}", kind=route)
    intent_id = desk.accept()
    fake_target.attempt(intent_id)
    assert fake_target.attempt(intent_id).status == "WITH_PERSON"
    assert asked().reason == "RECEIPT_INVALID"
    [unfit] = entries(intent_id, "receipt:misfit")
    assert (unfit["severity"], unfit["asked"]) == ("LOW", True)


BEFORE = ', preconditions: [{id: P_FIRST, require: "steps.reserve.number == NUMBER", message: Not yetFAIL}]'


def test_a_precondition_reads_the_receipts_of_the_steps_before(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(book, monkeypatch, pay=BEFORE.replace("NUMBER", "1").replace("FAIL", ""))
    assert walk(desk.accept()) == ["ADVANCED", "ADVANCED", "SUCCEEDED"]


@pytest.mark.parametrize("pauses", [True, False])
def test_a_precondition_that_fails_undoes_or_pauses(
    pauses: bool, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ", on_fail: ESCALATE" if pauses else ""
    desk = open_desk(book, monkeypatch, pay=BEFORE.replace("NUMBER", "7").replace("FAIL", told))
    intent_id = desk.accept()
    fake_target.attempt(intent_id)
    done = fake_target.attempt(intent_id)
    assert (done.called, done.detail) == (False, "PRECONDITION_FAILED")
    assert standing() == DIRTY
    [blocked] = entries(intent_id, "intent:blocked")
    assert (blocked["code"], blocked["subject"]) == ("PRECONDITION_FAILED", "P_FIRST")
    if pauses:
        assert done.status == "WITH_PERSON"
        page = sign_in(Role.OPERATOR).get(f"/escalations/{asked().pk}/").content.decode()
        assert "The precondition P_FIRST does not hold: Not yet." in markup.words(page)
        assert "Resume retries this step. Abort undoes the steps completed before it." in markup.words(page)
        assert "records it as done" not in page
        assert not isinstance(decide(Action.ABORT), Problem)
    assert walk(intent_id) == ["COMPENSATED"]
    assert StepReceipt.objects.filter(intent=intent_id, step="pay").count() == 0


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"pay": ", on_misfit: {severity: LOW}"}, "on_misfit needs a receipt_schema"),
        ({"pay": ", receipt_schema: {type: array}"}, "the schema must have type object"),
        ({"pay": ', preconditions: [{id: P, require: "receipt.x == 1"}]'}, "receipt"),
    ],
)
def test_a_pack_with_a_step_check_that_could_not_be_asked_is_refused(
    parts: dict[str, str], words: str
) -> None:
    text = text_of_pack(**parts).replace("BASE_URL", "http://127.0.0.1:1")
    found = packs.load(text=text, source="trial.yaml", activate=True, actor="system")
    assert isinstance(found, packs.PackRefused)
    assert any(words in problem for problem in found.problems), found.problems


def test_an_invariant_between_steps_needs_two_steps() -> None:
    text = trading_desk.pack(base_url="http://127.0.0.1:1", executor="simulated")
    text = text.replace("\n    impact:", "\n    safety_assertions: [{invariant_id: calm}]\n    impact:", 1)
    text += INVARIANTS.replace("PLACE", "BETWEEN_STEPS")
    found = packs.load(text=text, source="trial.yaml", activate=True, actor="system")
    assert isinstance(found, packs.PackRefused)
    assert any("fewer than two" in problem for problem in found.problems)


def test_the_evidence_pack_of_a_paused_and_questioned_flow_verifies(
    book: Book, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    intent_id = pause(book, monkeypatch, pay=SCHEMA)
    trading_desk.write_fact("price.ABC", 100)
    assert not isinstance(decide(Action.RESUME), Problem)
    assert fake_target.attempt(intent_id).status == "WITH_PERSON"
    assert not isinstance(decide(Action.MARK_DONE, receipt={"number": 1}), Problem)
    assert walk(intent_id) == ["SUCCEEDED"]
    code, checked = exported_packs.verified(
        exported_packs.make(trading_desk.intent(intent_id).flow_id), tmp_path
    )
    assert code == 0, checked
