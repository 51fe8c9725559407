"""`POST /flows/{dfid}/decide`: every field of the Decision Package (IAE 3.3.3), stored and replayable."""

from typing import Any

import pytest

from audit import canonical
from audit.models import LedgerEntry
from runtime.advice.models import DecisionPackageRow, RuleOutput
from runtime.advice.queries import packages
from runtime.advice.services import advising
from tests.support import api_client, underwriting
from tests.support.underwriting import option

OBJECTIVES = [{"id": "margin", "weight": 0.6}, {"id": "speed", "weight": 0.4}]
BOTH = [option("A", margin=0.9, speed=0.2), option("B", margin=0.5, speed=0.9)]


def decide(agent: api_client.Caller, dfid: str, options: Any = BOTH, **more: Any) -> dict[str, Any]:
    body = {"objectives": OBJECTIVES, "options": options, **more}
    answer: dict[str, Any] = agent.post(f"/flows/{dfid}/decide", body).ok()
    return answer


def adopt(agent: api_client.Caller, dfid: str, **driver: Any) -> dict[str, Any]:
    output = underwriting.driver_rules(agent, dfid, **driver)
    body = {"objectives": [], "rule_output_id": output["rule_output_id"]}
    answer: dict[str, Any] = agent.post(f"/flows/{dfid}/decide", body).ok()
    return answer


# the fields


def test_decision_id_names_the_stored_package(agent: api_client.Caller, dfid: str) -> None:
    answer = decide(agent, dfid)
    stored = canonical.decode(bytes(DecisionPackageRow.objects.get(pk=answer["decision_id"]).body))
    assert {name: value for name, value in stored.items() if name != "salt"} == answer


def test_schema_version_task_id_and_timestamp(agent: api_client.Caller, dfid: str) -> None:
    answer = decide(agent, dfid)
    assert (answer["schema_version"], answer["task_id"]) == ("1.0", dfid)
    row = DecisionPackageRow.objects.get()
    assert answer["timestamp"][:19] == row.created_at.isoformat()[:19]


def test_decision_type_follows_the_method(agent: api_client.Caller, dfid: str) -> None:
    chosen = decide(agent, dfid)
    adopted = adopt(agent, dfid)
    routed = decide(agent, dfid, [option(confidence=0.1, margin=1, speed=1)])
    denied = adopt(agent, dfid, sanctioned=True)
    found = [(one["decision_type"], one["method"]) for one in (chosen, adopted, routed, denied)]
    assert found == [("choose", "refine"), ("approve", "adopt"), ("route", "abstain"), ("deny", "deny")]


def test_selected_action_has_what_the_kind_says_of_it(agent: api_client.Caller, dfid: str) -> None:
    answer = decide(agent, dfid)
    assert answer["selected_action"] == {
        "name": "ISSUE_POLICY",
        "parameters": BOTH[1]["action"]["parameters"],
        "preconditions": [],
        "expected_effects": [],
        "dependencies": [],
        "required_capabilities": ["policies"],
    }


def test_safety_assertions_are_the_bounds_of_the_kind(agent: api_client.Caller, dfid: str) -> None:
    assert decide(agent, dfid)["safety_assertions"] == [
        {"invariant_id": "R_PREMIUM", "parameters": {"requires": "params.premium_cents >= 10000"}}
    ]


def test_confidence_score_and_its_interpretation(agent: api_client.Caller, dfid: str) -> None:
    answer = decide(agent, dfid)
    assert answer["confidence_score"] == 0.9
    meant = answer["confidence_interpretation"]
    assert (meant["calibration_method"], meant["band"]) == (None, "at_or_above_threshold")
    assert meant["notes"].startswith("As stated, and not calibrated")


def test_risk_tier_and_abstain_threshold_are_those_of_the_kind(agent: api_client.Caller, dfid: str) -> None:
    answer = decide(agent, dfid)
    assert (answer["risk_tier"], answer["abstain_threshold"]) == ("T1", 0.7)


def test_human_review_required_below_the_threshold(agent: api_client.Caller, dfid: str) -> None:
    assert decide(agent, dfid)["human_review_required"] is False
    low = decide(agent, dfid, [option(confidence=0.69, margin=1, speed=1)])
    assert low["human_review_required"] is True
    assert low["selected_action"]["name"] == "ISSUE_POLICY"
    assert low["policy_requirements"][0] == {
        "type": "human_approval",
        "detail": "The confidence is below the threshold 0.7 of the risk tier T1.",
    }


def test_escalation_route_names_the_owner(agent: api_client.Caller, dfid: str) -> None:
    assert decide(agent, dfid)["escalation_route"] == {"contact": "underwriting", "SLA": "PT600S"}


def test_alternatives_have_utility_confidence_and_trade_offs(agent: api_client.Caller, dfid: str) -> None:
    answer = decide(agent, dfid)
    assert answer["expected_utility"] == 0.66
    assert answer["alternatives"] == [
        {
            "id": "A",
            "action": BOTH[0]["action"],
            "expected_utility": 0.62,
            "confidence": 0.9,
            "trade_offs": [
                {"objective": "margin", "difference": 0.4},
                {"objective": "speed", "difference": -0.7},
            ],
        }
    ]


def test_reasoning_trace_ref(agent: api_client.Caller, dfid: str) -> None:
    assert decide(agent, dfid)["reasoning_trace_ref"] == f"/api/v1/audit/contracts/reasoning_trace/{dfid}"


def test_references_name_context_rules_world_and_versions(agent: api_client.Caller, dfid: str) -> None:
    bare = decide(agent, dfid)["references"]
    assert (bare["context_id"], bare["world_version_id"], bare["rule_output_id"]) == (None, None, None)
    ref = agent.context(dfid)
    found = adopt(agent, dfid)["references"]
    assert found["context_id"] == ref
    assert len(found["world_version_id"]) == 64
    assert found["rule_output_id"] is not None
    assert (found["Ruleset_version"], found["DER_version"], found["CET_version"]) == ("1.0.0", "1.1.0", None)


def test_consultations_are_never_pretended(agent: api_client.Caller, dfid: str) -> None:
    answer = decide(agent, dfid)
    assert answer["consultations"] == []
    assert answer["consultation_note"] == "Nobody has answered about these options."


def test_budgets_are_what_the_flow_has_left(agent: api_client.Caller, dfid: str) -> None:
    assert decide(agent, dfid)["budgets"] == {"time": None, "cost": "2.00"}


def test_policy_requirements_name_what_is_enforced(agent: api_client.Caller, dfid: str) -> None:
    assert decide(agent, dfid)["policy_requirements"] == [
        {"type": "follows_decision", "detail": "The proposal must name this package."}
    ]


# what it does


def test_a_high_confidence_output_is_adopted(agent: api_client.Caller, dfid: str) -> None:
    answer = adopt(agent, dfid)
    assert answer["selected_action"]["parameters"] == {"premium_cents": underwriting.PREMIUM}
    assert answer["confidence_score"] == 0.95


def test_a_mandatory_rule_of_another_action_calls_a_person(agent: api_client.Caller, dfid: str) -> None:
    output = underwriting.driver_rules(agent, dfid, claims=3)
    answer = decide(agent, dfid, rule_output_id=output["rule_output_id"])
    assert (answer["method"], answer["human_review_required"]) == ("abstain", True)
    assert "P_MANY_CLAIMS" in answer["policy_requirements"][0]["detail"]


def test_options_that_cannot_be_proposed_are_dropped(agent: api_client.Caller, dfid: str) -> None:
    wrong = option("C", margin=1, speed=1)
    wrong["action"]["parameters"]["age"] = 17
    other = option("D", margin=1, speed=1)
    other["action"]["name"] = "SECRET_KIND"
    answer = decide(agent, dfid, [*BOTH, wrong, other, option("E", margin=1)])
    dropped = {one["id"]: one["reason"] for one in answer["dropped"]}
    assert dropped["C"].startswith("Its parameters do not fit ISSUE_POLICY: /age")
    assert dropped["D"] == "The agent's manifest does not grant SECRET_KIND."
    assert dropped["E"] == "It has no utility for speed."


def test_a_package_is_an_entry_and_is_made_again_to_the_same_bytes(
    agent: api_client.Caller, dfid: str
) -> None:
    answer = decide(agent, dfid)
    row = DecisionPackageRow.objects.get()
    entry = LedgerEntry.objects.get(stream=dfid, kind="decision:recommended")
    assert entry.payload == {
        "decision_id": answer["decision_id"],
        "rule_output_id": None,
        "input_digest": canonical.digest(bytes(row.input)),
        "package_digest": canonical.digest(bytes(row.body)),
        "method": "refine",
        "needs_person": False,
    }
    assert packages.make_again(row) == bytes(row.body)


def test_a_foreign_rule_output_is_not_found(agent: api_client.Caller, dfid: str) -> None:
    output = underwriting.driver_rules(agent, agent.open_flow())
    body = {"objectives": [], "rule_output_id": output["rule_output_id"]}
    agent.post(f"/flows/{dfid}/decide", body).problem(404, "RULE_OUTPUT_NOT_FOUND")


def test_ids_that_are_given_twice_are_refused(agent: api_client.Caller, dfid: str) -> None:
    body = {"objectives": OBJECTIVES * 2, "options": [BOTH[0], BOTH[0]]}
    problem = agent.post(f"/flows/{dfid}/decide", body).problem(422, "INVALID_REQUEST")
    assert [one["pointer"] for one in problem["violations"]] == ["/objectives", "/objectives", "/options"]


def test_a_flow_decides_a_bounded_number_of_times(
    agent: api_client.Caller, dfid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advising, "MOST_IN_FLOW", 1)
    decide(agent, dfid)
    agent.post(f"/flows/{dfid}/decide", {"objectives": []}).problem(429, "TOO_MUCH_ADVICE")


def test_an_ended_flow_is_given_no_advice(agent: api_client.Caller, dfid: str) -> None:
    agent.post(f"/flows/{dfid}/close", {"reason": "done"}).ok()
    agent.post(f"/flows/{dfid}/decide", {"objectives": []}).problem(409, "FLOW_NOT_OPEN")


def test_a_rule_output_that_was_changed_is_built_on_by_nothing(agent: api_client.Caller, dfid: str) -> None:
    output = underwriting.driver_rules(agent, dfid)
    row = RuleOutput.objects.get(pk=output["rule_output_id"])
    RuleOutput.objects.filter(pk=row.pk).update(body=bytes(row.body).replace(b"48000", b"10000"))
    body = {"objectives": [], "rule_output_id": output["rule_output_id"]}
    agent.post(f"/flows/{dfid}/decide", body).problem(409, "TAMPERED")
    assert not DecisionPackageRow.objects.exists()
