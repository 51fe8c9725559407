"""What the gate asks of the rulesets of a kind, and whether a proposal follows its decision package."""

from typing import Any

from audit import canonical
from audit.models import LedgerEntry
from runtime.advice.models import DecisionPackageRow
from runtime.flows.models import Verdict
from runtime.kernel.gate import pipeline
from runtime.registry.models import Ruleset
from tests.support import api_client, underwriting
from tests.support.underwriting import DRIVER, PREMIUM


def package(agent: api_client.Caller, dfid: str, *, confidence: float = 0.9, **changes: Any) -> str:
    """A decision package that selects what `underwriting.proposal(**changes)` proposes."""
    params = {**DRIVER, "premium_cents": PREMIUM, **changes}
    option = {
        "id": "A",
        "action": {"name": "ISSUE_POLICY", "parameters": params},
        "utilities": {"margin": 1},
        "confidence": confidence,
    }
    body = {"objectives": [{"id": "margin", "weight": 1}], "options": [option]}
    return str(agent.post(f"/flows/{dfid}/decide", body).ok()["decision_id"])


def propose(
    agent: api_client.Caller, dfid: str, decision_id: str | None = None, **changes: Any
) -> api_client.Heard:
    """Send a proposal on a context of the flow."""
    body = underwriting.proposal(decision_id, **changes)
    return agent.propose(dfid, {**body, "context_ref": agent.context(dfid)})


def judged(agent: api_client.Caller, dfid: str, **changes: Any) -> tuple[str, set[str]]:
    """The verdict on a proposal that follows its package, and the codes of its reasons."""
    decision_id = package(agent, dfid, **changes)
    answer = propose(agent, dfid, decision_id, **changes).ok()
    return answer["verdict"], {reason["code"] for reason in answer["reasons"]}


def test_what_the_rules_allow_is_accepted(agent: api_client.Caller, dfid: str) -> None:
    assert judged(agent, dfid) == ("ACCEPT", set())


def test_a_guardrail_rejects(agent: api_client.Caller, dfid: str) -> None:
    assert judged(agent, dfid, sanctioned=True) == ("REJECT", {"RULESET_GUARDRAIL"})


def test_a_mandatory_rule_of_another_action_asks_a_person(agent: api_client.Caller, dfid: str) -> None:
    assert judged(agent, dfid, claims=3) == ("ESCALATE", {"RULESET_REQUIRES"})


def test_a_mandatory_rule_that_denies_rejects(agent: api_client.Caller, dfid: str) -> None:
    assert judged(agent, dfid, region="war") == ("REJECT", {"RULESET_DENIES"})


def test_a_mandatory_rule_asks_for_its_parameters(agent: api_client.Caller, dfid: str) -> None:
    assert judged(agent, dfid, region="fixed", premium_cents=12345) == ("ACCEPT", set())
    other = agent.open_flow()
    assert judged(agent, other, region="fixed") == ("ESCALATE", {"RULESET_REQUIRES"})


def test_two_matches_of_a_unique_table_reject(agent: api_client.Caller, dfid: str) -> None:
    assert judged(agent, dfid, age=77) == ("REJECT", {"RULESET_CONFLICT"})


def test_a_feature_without_a_value_rejects(agent: api_client.Caller, dfid: str) -> None:
    verdict, codes = judged(agent, dfid, age=99)
    assert (verdict, codes) == ("REJECT", {"RULESET_INCOMPLETE"})


def test_a_ruleset_that_is_not_what_was_activated_rejects(agent: api_client.Caller, dfid: str) -> None:
    row = Ruleset.objects.get(ruleset="motor-underwriting")
    body = bytes(row.body).replace(b"48000", b"1")
    Ruleset.objects.filter(pk=row.pk).update(body=body)
    assert judged(agent, dfid) == ("REJECT", {"RULESET_MISSING"})


def test_verdicts_with_rules_are_judged_again_to_the_same_bytes(agent: api_client.Caller, dfid: str) -> None:
    judged(agent, dfid, claims=3)
    row = Verdict.objects.select_related("bundle").get()
    assert b"motor-underwriting" in bytes(row.bundle.body)
    assert pipeline.judge_bytes(bytes(row.input), bytes(row.bundle.body)) == bytes(row.body)


# following a decision


def test_without_a_package_it_is_rejected(agent: api_client.Caller, dfid: str) -> None:
    answer = propose(agent, dfid).ok()
    assert (answer["verdict"], answer["reasons"][0]["code"]) == ("REJECT", "R_FOLLOWS_DECISION")


def test_other_parameters_than_the_selected_ones_are_rejected(agent: api_client.Caller, dfid: str) -> None:
    decision_id = package(agent, dfid)
    answer = propose(agent, dfid, decision_id, premium_cents=20_000).ok()
    assert {reason["code"] for reason in answer["reasons"]} == {"R_FOLLOWS_DECISION"}
    assert answer["verdict"] == "REJECT"


def test_a_package_that_asks_for_a_person_escalates(agent: api_client.Caller, dfid: str) -> None:
    decision_id = package(agent, dfid, confidence=0.2)
    answer = propose(agent, dfid, decision_id).ok()
    assert {reason["code"] for reason in answer["reasons"]} == {"R_FOLLOWS_DECISION"}
    assert answer["verdict"] == "ESCALATE"


def test_a_package_that_was_changed_is_followed_by_nothing(agent: api_client.Caller, dfid: str) -> None:
    decision_id = package(agent, dfid)
    row = DecisionPackageRow.objects.get()
    DecisionPackageRow.objects.filter(pk=row.pk).update(body=bytes(row.body).replace(b"48000", b"20000"))
    answer = propose(agent, dfid, decision_id, premium_cents=20_000).ok()
    assert (answer["verdict"], answer["reasons"][0]["code"]) == ("REJECT", "R_FOLLOWS_DECISION")
    told = LedgerEntry.objects.get(kind="row:mismatched").payload
    assert (told["row"], told["row_id"]) == ("decisionpackagerow.body", decision_id)


def test_a_package_of_another_flow_costs_no_attempt(agent: api_client.Caller, dfid: str) -> None:
    foreign = package(agent, agent.open_flow())
    propose(agent, dfid, foreign).problem(404, "DECISION_NOT_FOUND")
    assert not Verdict.objects.exists()


def test_one_call_takes_a_package_only_of_the_flow_that_it_names(agent: api_client.Caller, dfid: str) -> None:
    body = {**underwriting.proposal(package(agent, dfid)), "context": "current"}
    keyed = {"Idempotency-Key": "one"}
    agent.post("/proposals", body, headers=keyed).problem(404, "DECISION_NOT_FOUND")
    answer = agent.post("/proposals", {**body, "dfid": dfid}, headers=keyed).ok()
    assert answer["verdict"] == "ACCEPT"
    stored = canonical.decode(bytes(Verdict.objects.get().input))
    assert stored["facts"]["decision"]["decision_id"] == body["decision_id"]
