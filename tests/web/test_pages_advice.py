"""The decision page: what the runtime recommended, apart from the agent's words; calibrated confidence."""

from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from audit import canonical
from audit.access.roles import Role
from escalations import evidence_contracts
from escalations.models import Escalation, Evidence
from runtime.advice.models import DecisionPackageRow, RuleOutput
from runtime.packs.services import packs
from tests.support import api_client, calibrated_agent, calibration_story, markup, underwriting
from tests.support.underwriting import option
from tests.web.test_pages import sign_in

pytestmark = pytest.mark.django_db
OBJECTIVES = [{"id": "margin", "weight": 0.6}, {"id": "speed", "weight": 0.4}]
OPTIONS = [
    option("A", margin=0.9, speed=0.2),
    option("B", margin=0.5, speed=0.6),
    {**option("C", margin=1.0, speed=1.0), "action": {"name": "SECRET_KIND", "parameters": {}}},
]


@pytest.fixture
def agent() -> api_client.Caller:
    underwriting.load_packs()
    return api_client.session(underwriting.AGENT)


def decide(agent: api_client.Caller, dfid: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = agent.post(
        f"/flows/{dfid}/decide", {"objectives": OBJECTIVES, "options": OPTIONS, **more}
    ).ok()
    return found


def ask_person(agent: api_client.Caller, dfid: str, package: dict[str, Any]) -> Escalation:
    """The agent proposes what was selected, and asks for a person."""
    selected = package["selected_action"]
    body = underwriting.proposal(package["decision_id"]) | {
        "params": selected["parameters"],
        "human_review_required": True,
        "explain": "I prefer the first one.",
        "context_ref": agent.context(dfid),
    }
    agent.propose(dfid, body).ok()
    return Escalation.objects.get(flow=UUID(dfid))


def page_of(client: Client, escalation: Escalation) -> str:
    answer = client.get(f"/escalations/{escalation.pk}/")
    assert answer.status_code == 200
    return markup.words(answer.content.decode())


def shown_of(escalation: Escalation) -> Any:
    row = Evidence.objects.filter(escalation=escalation).latest("revision")
    return evidence_contracts.read_evidence(bytes(row.body))


def test_alternatives_and_rules_are_shown_as_evidence_of_the_runtime(agent: api_client.Caller) -> None:
    dfid = agent.open_flow()
    output = underwriting.driver_rules(agent, dfid)
    package = decide(agent, dfid, rule_output_id=output["rule_output_id"])
    escalation = ask_person(agent, dfid, package)
    said = page_of(sign_in(Role.OPERATOR), escalation)
    assert "What the runtime recommended part of the evidence, not the agent's words" in said
    assert "the proposal follows it" in said
    assert "Ruled out" in said
    assert "The agent's manifest does not grant SECRET_KIND." in said
    assert "Rules of motor-underwriting@1.0.0 (about the features that the agent gave)" in said
    for match in output["matches"]:
        assert match["rule_id"] in said
    # The words of the agent stay where they are.
    assert said.index("What the runtime recommended") < said.index("Unverified claim by the agent")


def test_the_package_is_bound_into_the_evidence_hash(agent: api_client.Caller) -> None:
    dfid = agent.open_flow()
    package = decide(agent, dfid)
    escalation = ask_person(agent, dfid, package)
    shown = shown_of(escalation)
    stored = DecisionPackageRow.objects.get()
    assert shown.advice.decision_id == package["decision_id"]
    assert shown.advice.package_digest == canonical.digest(bytes(stored.body))
    assert [each.id for each in shown.advice.alternatives] == [each["id"] for each in package["alternatives"]]
    assert shown.digest == escalation.evidence_hash
    without = shown.model_copy(update={"advice": None})
    assert without.digest != escalation.evidence_hash


def test_evidence_without_a_package_has_the_bytes_of_before(agent: api_client.Caller) -> None:
    row = Evidence.objects.first()
    assert row is None
    trader = calibrated_agent.load()
    calibrated_agent.propose(trader, confidence=0.9, cents=calibrated_agent.OVER)
    body = bytes(Evidence.objects.get().body)
    assert b'"advice"' not in body
    assert b'"calibrated"' not in body


def traded(change: Any = None) -> Escalation:
    """A trader over its limit names a package that stands on rules; its kind does not ask for one."""
    underwriting.load_packs()
    trader = calibrated_agent.load()
    dfid = trader.open_flow()
    output = underwriting.ask(trader, dfid, score=720, balance=5, region="north")
    params = {"symbol": "AAPL", "action": "BUY", "quantity": 1, "notional_cents": calibrated_agent.OVER}
    selected = {"name": "ADJUST_POSITION", "parameters": {**params, "quantity": 2}}
    choice = {"id": "two", "action": selected, "utilities": {"margin": 1}, "confidence": 0.9}
    asked = {"objectives": [{"id": "margin", "weight": 1}], "options": [choice]}
    package = trader.post(f"/flows/{dfid}/decide", {**asked, "rule_output_id": output["rule_output_id"]}).ok()
    if change is not None:
        change.objects.update(body=bytes(change.objects.get().body) + b" ")
    body = api_client.proposal(trader.context(dfid), params=params, decision_id=package["decision_id"])
    trader.propose(dfid, body).ok()
    return Escalation.objects.get(flow=UUID(dfid))


@pytest.mark.parametrize("model", [DecisionPackageRow, RuleOutput])
def test_a_package_or_output_that_was_changed_is_not_shown(model: Any) -> None:
    escalation = traded(model)
    said = page_of(sign_in(Role.OPERATOR), escalation)
    assert "does not match the ledger" in said
    assert "the proposal departs from it" not in said
    assert shown_of(escalation).advice.action == ""


def test_a_proposal_that_departs_from_its_package_says_so() -> None:
    said = page_of(sign_in(Role.OPERATOR), traded())
    assert "the proposal departs from it" in said
    assert "L_GOOD" in said


def test_the_decision_page_shows_stated_and_calibrated_confidence() -> None:
    trader = calibrated_agent.load()
    text = calibrated_agent.PACK.replace("version: 1.4.0", "version: 1.5.0\n      confidence: calibrated", 1)
    done = packs.load(text=text, source="calibrated.yaml", activate=True, actor="system")
    assert isinstance(done, packs.Loaded), done
    calibration_story.activate(calibration_story.draft("trader"))
    dfid = calibrated_agent.propose(trader, confidence=0.9)
    escalation = Escalation.objects.get(flow=dfid)
    operator = sign_in(Role.OPERATOR)
    said = page_of(operator, escalation)
    assert (
        "confidence 0.9 stated 0.4 calibrated by map 1 of 31 earlier proposals; the smaller one counts"
        in said
    )
    assert shown_of(escalation).calibrated.used == 400_000
    flow = markup.words(operator.get(f"/flows/{dfid}/").content.decode())
    assert "0.9 stated, 0.4 calibrated; the smaller one counts" in flow
