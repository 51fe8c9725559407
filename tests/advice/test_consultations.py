"""Consulting other agents: who is asked, whose answer is taken, and what it can restrict."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from audit import ledger
from audit.models import LedgerEntry, Payload
from audit.verification import findings
from runtime.advice.models import Consultation, DecisionPackageRow
from runtime.advice.queries import packages
from runtime.contracts.states import AgentStatus
from runtime.conversations.models import Capability, Message
from runtime.conversations.services import posting
from runtime.core import clock
from runtime.kernel.capability_health import ListingState
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent
from tests.support import api_client, consulting_desk, talking, worlds
from tests.support.api_client import OTHER, TRADER, Caller
from tests.support.consulting_desk import OPTIONS, VOICES, answer, ask, decide, question_to, say

pytestmark = pytest.mark.django_db
_loaded = worlds.shared(consulting_desk.load)


@pytest.fixture
def trader(_loaded: None, db: None) -> Caller:
    return api_client.session(TRADER)


@pytest.fixture
def voices(trader: Caller) -> dict[str, Caller]:
    return consulting_desk.voices()


@pytest.fixture
def dfid(trader: Caller) -> str:
    return trader.open_flow()


def states() -> list[str]:
    return sorted(Consultation.objects.values_list("state", flat=True))


# whom the decider asks


def test_an_unclear_choice_is_put_to_others_first(trader: Caller, voices: Any, dfid: str) -> None:
    package = decide(trader, dfid, consult=True)
    assert (package["method"], package["decision_type"]) == ("consult", "route")
    assert package["human_review_required"]
    assert package["selected_action"]["parameters"]["quantity"] == 3
    assert package["policy_requirements"][0]["detail"].startswith("The choice is not clear: 3 are consulted.")
    assert states() == ["ASKED"] * 3
    for name, voice in voices.items():
        asked = question_to(voice)
        assert asked["headers"]["message_type"] == "ConsultationRequest"
        assert (asked["headers"]["from_agent_id"], asked["headers"]["to_agent_id"]) == (TRADER, name)
        assert asked["headers"]["budgets"] == {"time_ms": 60_000, "cost_units": 2}
        assert asked["payload"]["constraints"] == {"options": consulting_desk.ASKED}
        assert "utilities" not in str(asked["payload"])
    waiting = decide(trader, dfid)
    assert (waiting["method"], waiting["consensus"]["asked"]) == ("consult", 3)
    assert Message.objects.filter(message_type="ConsultationRequest").count() == 3
    assert findings.verify_all().findings == []


def test_a_clear_choice_is_put_to_nobody(trader: Caller, voices: Any, dfid: str) -> None:
    package = decide(trader, dfid, consult=True, options=OPTIONS[:1])
    assert (package["method"], package["consultations"]) == ("refine", [])
    assert package["consultation_note"] == "Nobody has answered about these options."
    assert not Consultation.objects.exists()


def test_where_nobody_can_be_asked_the_package_says_why(trader: Caller, dfid: str) -> None:
    package = decide(trader, dfid, consult=True)
    assert package["method"] == "refine"
    assert "Nobody offers advice within the budgets" in package["consultation_note"]
    without = decide(trader, dfid, consult=True, options=None)
    assert "There are no options to ask about." in without["consultation_note"]


def test_one_that_disagrees_lowers_the_confidence_and_is_named(
    trader: Caller, voices: dict[str, Caller], dfid: str
) -> None:
    decide(trader, dfid, consult=True)
    for name, choice in zip(VOICES, ("large", "large", "small"), strict=True):
        say(voices[name], choice)
    package = decide(trader, dfid)
    assert (package["confidence_score"], package["method"]) == (0.6667, "abstain")
    consensus = package["consensus"]
    assert (consensus["asked"], consensus["answered"], consensus["leading"]) == (3, 3, "large")
    assert (consensus["agreement"], consensus["dispersion"]) == (0.6667, 0.4444)
    assert consensus["dissent"] == [
        {"provider": "voice-three", "choice": "small", "reason": "I would take small."}
    ]
    assert [each["provider"] for each in package["consultations"]] == sorted(VOICES)
    assert package["consultations"][0]["consensus_metrics"]["choice"] == "large"
    entry = LedgerEntry.objects.filter(stream=dfid, kind="decision:recommended").latest("seq")
    assert (entry.payload["asked"], entry.payload["answered"], entry.payload["agreeing"]) == (3, 3, 2)
    for row in DecisionPackageRow.objects.all():
        assert packages.make_again(row) == bytes(row.body)
    assert findings.verify_all().findings == []


def test_agreement_leaves_the_package_as_it_would_be(
    trader: Caller, voices: dict[str, Caller], dfid: str
) -> None:
    decide(trader, dfid, consult=True)
    for voice in voices.values():
        say(voice, "large")
    package = decide(trader, dfid)
    assert (package["method"], package["confidence_score"]) == ("refine", 0.9)
    assert not package["human_review_required"]


def test_agreement_never_permits_what_is_below_the_threshold(
    trader: Caller, voices: dict[str, Caller], dfid: str
) -> None:
    unsure = [{**each, "confidence": 0.3} for each in OPTIONS]
    assert decide(trader, dfid, consult=True, options=unsure)["method"] == "consult"
    for voice in voices.values():
        say(voice, "large")
    package = decide(trader, dfid, options=unsure)
    assert (package["method"], package["confidence_score"]) == ("abstain", 0.3)


def test_most_against_it_lead_to_a_person(trader: Caller, voices: dict[str, Caller], dfid: str) -> None:
    decide(trader, dfid, consult=True)
    for voice in voices.values():
        say(voice, "none of them")
    package = decide(trader, dfid)
    assert (package["method"], package["confidence_score"]) == ("abstain", 0.0)
    assert "most chose none of them" in package["policy_requirements"][0]["detail"]


def test_answers_about_other_options_do_not_count(
    trader: Caller, voices: dict[str, Caller], dfid: str
) -> None:
    decide(trader, dfid, consult=True)
    for voice in voices.values():
        say(voice, "small")
    others = [{**OPTIONS[0], "action": {**OPTIONS[0]["action"], "parameters": {"symbol": "MSFT"}}}]
    package = decide(trader, dfid, options=[*others, OPTIONS[1]])
    assert package["consensus"]["asked"] == 0
    assert "3 were asked about other options" in package["consultation_note"]


def test_auditors_read_who_was_consulted(trader: Caller, voices: dict[str, Caller], dfid: str) -> None:
    decide(trader, dfid, consult=True)
    say(voices["voice-one"], "small")
    consulting_desk.pass_deadlines()
    package = decide(trader, dfid)
    auditor = Caller(api_client.auditor_key())
    for name in ("decision_package", "reasoning_trace"):
        shown = auditor.get(f"/audit/contracts/{name}/{package['decision_id']}").ok()
        schema = json.loads(Path(f"docs/contracts/{name}.schema.json").read_text())
        jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(shown)
        if name == "decision_package":
            assert (shown["consensus"], shown["consultations"]) == (
                package["consensus"],
                package["consultations"],
            )
        else:
            nodes = shown["structure"]["consultation_nodes"]
            assert {node["provider"]: node["consensus"] for node in nodes} == {
                "voice-one": "small",
                "voice-two": "OVERDUE",
                "voice-three": "OVERDUE",
            }


# deadlines


def test_who_does_not_answer_in_time_has_abstained(
    trader: Caller, voices: dict[str, Caller], dfid: str
) -> None:
    decide(trader, dfid, consult=True)
    say(voices["voice-one"], "large")
    consulting_desk.pass_deadlines()
    package = decide(trader, dfid)
    assert states() == ["ANSWERED", "OVERDUE", "OVERDUE"]
    assert (package["consensus"]["answered"], package["consensus"]["abstained"]) == (1, 2)
    assert package["method"] == "refine"


def test_where_nobody_answers_a_person_decides(trader: Caller, voices: Any, dfid: str) -> None:
    decide(trader, dfid, consult=True)
    consulting_desk.pass_deadlines()
    assert sweeper.sweep().consultations == 3
    assert sweeper.sweep().consultations == 0
    package = decide(trader, dfid)
    assert package["method"] == "abstain"
    assert "Nobody of the 3 that were consulted answered in time." in str(package["policy_requirements"])
    ended = LedgerEntry.objects.filter(stream=dfid, kind="consultation:ended")
    assert {(entry.payload["state"], entry.payload["message_id"]) for entry in ended} == {("OVERDUE", None)}


def test_the_flows_time_bounds_the_question(trader: Caller, voices: Any) -> None:
    talking.allow(compute={"wall_clock_s": 20}, consultations={**consulting_desk.BUDGET})
    ask(trader, trader.open_flow()).ok(201)
    row = Consultation.objects.first()
    assert row is not None
    assert (row.deadline - row.asked_at).total_seconds() <= 20


# whom the agent asks


def test_the_agent_asks_and_reads_what_was_answered(
    trader: Caller, voices: dict[str, Caller], dfid: str
) -> None:
    asked = ask(trader, dfid, providers=2).ok(201)["consultations"]
    assert [each["provider_agent_id"] for each in asked] == ["voice-one", "voice-three"]
    assert {each["state"] for each in asked} == {"ASKED"}
    say(voices["voice-one"], "small")
    first, second = trader.get(f"/flows/{dfid}/consultations").ok()["consultations"]
    assert (first["state"], first["choice"], first["confidence"]) == ("ANSWERED", "small", 0.8)
    assert (second["state"], second["choice"]) == ("ASKED", None)
    heard = trader.get("/messages").ok()["messages"]
    assert [each["headers"]["correlation_id"] for each in heard] == [first["message_id"]]
    api_client.session(OTHER).get(f"/flows/{dfid}/consultations").problem(404, "FLOW_NOT_FOUND")
    assert findings.verify_all().findings == []


def test_the_same_call_asks_once(trader: Caller, voices: Any, dfid: str) -> None:
    body = {"capability_name": "advice", "question": "Which?", "options": consulting_desk.ASKED}
    key = {"Idempotency-Key": "once"}
    answers = [trader.post(f"/flows/{dfid}/consultations", body, key).ok(201) for _ in range(2)]
    assert answers[0] == answers[1]
    assert Consultation.objects.count() == 3
    trader.post(f"/flows/{dfid}/consultations", {**body, "question": "Why?"}, key).problem(
        422, "IDEMPOTENCY_KEY_REUSED"
    )


def test_a_provider_is_asked_once_in_a_flow(trader: Caller, voices: Any, dfid: str) -> None:
    ask(trader, dfid).ok(201)
    ask(trader, dfid).problem(409, "NOT_CONSULTED")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"capability_name": "poems"}, "NOT_CONSULTED"),
        ({"cost_units": 1}, "NOT_CONSULTED"),
    ],
)
def test_without_a_fitting_provider_nobody_is_asked(
    trader: Caller, voices: Any, dfid: str, changes: Any, code: str
) -> None:
    ask(trader, dfid, **changes).problem(409, code)
    assert not Consultation.objects.exists()


def test_a_question_has_options_with_ids_of_their_own(trader: Caller, voices: Any, dfid: str) -> None:
    ask(trader, dfid, options=[]).problem(422, "INVALID_REQUEST")
    ask(trader, dfid, options=consulting_desk.ASKED * 2).problem(422, "INVALID_REQUEST")
    long = {"id": "long", "action": {"name": "WRITE", "parameters": {"text": "x" * 65_000}}}
    ask(trader, dfid, options=[long]).problem(413, "BODY_TOO_LARGE")
    assert not Message.objects.filter(message_type="ConsultationRequest").exists()


def quarantine(name: str) -> None:
    until = clock.now() + timedelta(minutes=5)
    Capability.objects.filter(provider__agent_id=name).update(state=ListingState.QUARANTINED, until=until)


def delist(name: str) -> None:
    Capability.objects.filter(provider__agent_id=name).update(state=ListingState.DELISTED)


def hold(name: str) -> None:
    Agent.objects.filter(agent_id=name).update(status=AgentStatus.SUSPENDED)


def withdraw(name: str) -> None:
    Capability.objects.filter(provider__agent_id=name).delete()


def make_slow(name: str) -> None:
    consulting_desk.advertise(api_client.session(name), name, SLA={"p95_ms": 61_000})


def make_dear(name: str) -> None:
    consulting_desk.advertise(api_client.session(name), name, cost_model={"per_call": 7})


def hide_cost(name: str) -> None:
    consulting_desk.advertise(api_client.session(name), name, cost_model=None)


@pytest.mark.parametrize("change", [quarantine, delist, hold, withdraw, make_slow, make_dear, hide_cost])
def test_who_is_not_named_or_does_not_fit_is_not_asked(
    trader: Caller, voices: Any, dfid: str, change: Any
) -> None:
    change("voice-two")
    asked = ask(trader, dfid).ok(201)["consultations"]
    assert [each["provider_agent_id"] for each in asked] == ["voice-one", "voice-three"]


def test_whose_mailbox_is_full_is_not_asked(
    trader: Caller, voices: Any, dfid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trader.post("/messages", talking.message(to_agent_id="voice-one")).ok(201)
    monkeypatch.setattr(posting, "MOST_WAITING", 1)
    asked = ask(trader, dfid).ok(201)["consultations"]
    assert [each["provider_agent_id"] for each in asked] == ["voice-three", "voice-two"]


def test_an_agent_does_not_consult_itself(trader: Caller, dfid: str) -> None:
    consulting_desk.advertise(trader, TRADER)
    ask(trader, dfid).problem(409, "NOT_CONSULTED")


def test_the_manifest_says_whether_and_how_much(trader: Caller, voices: Any) -> None:
    other = api_client.session(OTHER)
    ask(other, other.open_flow()).problem(403, "UNAUTHORIZED")
    asked = [ask(trader, trader.open_flow(), providers=1).ok(201) for _ in range(2)]
    assert len(asked) == 2, "the budget is that of one flow"
    dfid = trader.open_flow()
    ask(trader, dfid, providers=1).ok(201)
    Consultation.objects.filter(flow_id=dfid).update(cost_micros=9_000_000)
    ask(trader, dfid, providers=1).problem(409, "NOT_CONSULTED")


def test_a_flow_has_so_many_consultations(trader: Caller, voices: Any) -> None:
    talking.allow(consultations={"per_flow": 1, "cost_units": 10})
    dfid = trader.open_flow()
    assert len(ask(trader, dfid).ok(201)["consultations"]) == 1
    ask(trader, dfid).problem(429, "BUDGET_EXCEEDED")


def test_a_manifest_narrows_whom(trader: Caller, voices: Any, dfid: str) -> None:
    talking.allow(messages_to=["voice-two"], consultations=consulting_desk.BUDGET)
    asked = ask(trader, dfid).ok(201)["consultations"]
    assert [each["provider_agent_id"] for each in asked] == ["voice-two"]


def test_who_must_sign_asks_for_itself(trader: Caller, voices: Any, dfid: str) -> None:
    talking.allow(message_key=talking.Key().public, consultations=consulting_desk.BUDGET)
    assert "cannot sign" in ask(trader, dfid).problem(403, "UNAUTHORIZED")["detail"]


def test_a_held_agent_and_an_ended_flow_consult_nobody(trader: Caller, voices: Any, dfid: str) -> None:
    ended = trader.open_flow()
    trader.post(f"/flows/{ended}/close", {"reason": "done"}).ok()
    ask(trader, ended).problem(409, "FLOW_NOT_OPEN")
    hold(TRADER)
    ask(trader, dfid).problem(403, "AGENT_SUSPENDED")


# whose answer is taken


@pytest.fixture
def asked(trader: Caller, voices: dict[str, Caller], dfid: str) -> dict[str, Any]:
    """A question to the first voice."""
    ask(trader, dfid, providers=1).ok(201)
    return question_to(voices["voice-one"])


def test_nobody_else_answers(trader: Caller, voices: dict[str, Caller], asked: dict[str, Any]) -> None:
    stolen = answer(asked, "small", headers={"from_agent_id": "voice-two"})
    voices["voice-two"].post("/messages", stolen).problem(403, "UNAUTHORIZED")
    own = answer(asked, "small", headers={"from_agent_id": TRADER, "to_agent_id": "voice-one"})
    trader.post("/messages", own).problem(403, "UNAUTHORIZED")
    assert states() == ["ASKED"]


@pytest.mark.parametrize("headers", [{"to_agent_id": OTHER}, {"conversation_id": "somewhere-else"}])
def test_an_answer_to_another_place_is_refused(
    voices: dict[str, Caller], asked: dict[str, Any], headers: dict[str, str]
) -> None:
    voices["voice-one"].post("/messages", answer(asked, "small", headers=headers)).problem(
        403, "UNAUTHORIZED"
    )
    assert states() == ["ASKED"]


def test_a_second_answer_is_refused_and_the_same_one_is_not(
    voices: dict[str, Caller], asked: dict[str, Any]
) -> None:
    sent = say(voices["voice-one"], "small")
    voices["voice-one"].post("/messages", sent).ok(201)
    again = answer(asked, "large")
    voices["voice-one"].post("/messages", again).problem(409, "CONSULTATION_ENDED")


def test_a_late_answer_is_refused(voices: dict[str, Caller], asked: dict[str, Any]) -> None:
    consulting_desk.pass_deadlines()
    voices["voice-one"].post("/messages", answer(asked, "small")).problem(409, "CONSULTATION_ENDED")


def test_an_answer_to_a_flow_that_has_ended_is_refused(
    trader: Caller, voices: dict[str, Caller], asked: dict[str, Any], dfid: str
) -> None:
    trader.post(f"/flows/{dfid}/close", {"reason": "done"}).ok()
    voices["voice-one"].post("/messages", answer(asked, "small")).problem(409, "CONSULTATION_ENDED")


@pytest.mark.parametrize(
    ("said", "pointer"),
    [("a third one", "/payload/answer/choice"), (None, "/payload/answer/choice")],
)
def test_an_answer_has_the_form_that_was_asked_for(
    voices: dict[str, Caller], asked: dict[str, Any], said: Any, pointer: str
) -> None:
    problem = voices["voice-one"].post("/messages", answer(asked, said)).problem(422, "INVALID_SCHEMA")
    assert problem["violations"][0]["pointer"] == pointer


def test_an_answer_costs_no_more_than_was_said(voices: dict[str, Caller], asked: dict[str, Any]) -> None:
    dear = answer(asked, "small", cost=2.5)
    voices["voice-one"].post("/messages", dear).problem(429, "BUDGET_EXCEEDED")
    voices["voice-one"].post("/messages", answer(asked, "small", cost=2)).ok(201)


def test_who_cannot_answer_has_abstained(
    trader: Caller, voices: dict[str, Caller], asked: dict[str, Any], dfid: str
) -> None:
    said = {"code": "TEMPORARILY_UNAVAILABLE", "message": "Not now.", "retriable": True}
    error = {**answer(asked, "small", headers={"message_type": "Error"}), "payload": said}
    voices["voice-one"].post("/messages", error).ok(201)
    assert states() == ["DECLINED"]
    assert decide(trader, dfid)["consensus"]["abstained"] == 1


def test_an_erased_answer_counts_as_none(
    trader: Caller, voices: dict[str, Caller], asked: dict[str, Any], dfid: str
) -> None:
    sent = say(voices["voice-one"], "small")
    row = Message.objects.get(message_id=sent["headers"]["message_id"])
    assert str(row.flow_id) == dfid
    ledger.empty_payloads(Payload.objects.filter(commitment=row.commitment), at=clock.now())
    consensus = decide(trader, dfid)["consensus"]
    assert (consensus["asked"], consensus["answered"], consensus["abstained"]) == (1, 0, 1)


def test_a_row_that_was_set_back_lets_nobody_answer_anew(
    trader: Caller, voices: dict[str, Caller], asked: dict[str, Any], dfid: str
) -> None:
    say(voices["voice-one"], "small")
    Consultation.objects.update(state="ASKED", answer=None, ended_at=None)
    voices["voice-one"].post("/messages", answer(asked, "large")).ok(201)
    assert decide(trader, dfid)["consensus"]["votes"] == {"small": 1}
    assert any("consultation.answer" in each.detail for each in findings.verify_all().findings)


def test_a_consultation_in_the_ledger_is_compared_with_its_row(
    trader: Caller, voices: dict[str, Caller], asked: dict[str, Any]
) -> None:
    Consultation.objects.update(cost_micros=1)
    (found,) = findings.verify_all().findings
    assert "consultation.cost_micros is 1" in found.detail
