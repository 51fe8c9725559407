"""`POST /flows/{dfid}/rules`: every field of the Rule Engine Output (IAE 3.3.2), stored and replayable."""

from typing import Any

import pytest

from audit import canonical
from audit.models import LedgerEntry
from runtime.advice.models import RuleOutput
from runtime.advice.queries import rule_outputs
from runtime.advice.services import advising
from tests.support import api_client, underwriting


@pytest.fixture
def dfid(agent: api_client.Caller) -> str:
    return agent.open_flow()


def test_rule_output_id_names_the_stored_output(agent: api_client.Caller, dfid: str) -> None:
    answer = underwriting.ask(agent, dfid, score=720, balance=5, region="south")
    row = RuleOutput.objects.get(pk=answer["rule_output_id"])
    assert str(row.flow_id) == dfid
    stored = canonical.decode(bytes(row.body))
    assert {name: value for name, value in stored.items() if name != "salt"} == answer


def test_schema_version_and_ruleset_version(agent: api_client.Caller, dfid: str) -> None:
    answer = underwriting.ask(agent, dfid, score=720, balance=5, region="south")
    assert answer["schema_version"] == "1.0"
    assert (answer["ruleset"], answer["ruleset_version"]) == ("credit-desk", "1.0.0")


@pytest.mark.parametrize(
    ("score", "status"),
    [(720, "HIGH_CONFIDENCE_MATCH"), (650, "LOW_CONFIDENCE_MATCH"), (300, "NO_MATCH")],
)
def test_status_says_how_sure_it_is(agent: api_client.Caller, dfid: str, score: int, status: str) -> None:
    answer = underwriting.ask(agent, dfid, score=score, balance=5, region="south")
    assert answer["status"] == status
    assert RuleOutput.objects.get().status == status


def test_matches_have_every_field(agent: api_client.Caller, dfid: str) -> None:
    answer = underwriting.ask(agent, dfid, score=720, balance=-1, region="south")
    assert answer["matches"] == [
        {
            "rule_id": "L_GOOD",
            "rule_version": "1.0.0",
            "action_proposal": {"action": "SET_LINE", "params": {"cents": 500000}},
            "certainty": 0.95,
            "priority": 0,
            "mandatory": False,
            "justification": "Good score",
            "decides": "line",
        },
        {
            "rule_id": "P_REVIEW",
            "rule_version": "1.0.1",
            "action_proposal": {"action": "REVIEW", "params": {}},
            "certainty": 0.9,
            "priority": 10,
            "mandatory": True,
            "justification": "Overdrawn",
            "decides": "review",
        },
    ]


def test_guardrails_triggered(agent: api_client.Caller, dfid: str) -> None:
    answer = underwriting.ask(agent, dfid, score=720, balance=5, region="frozen")
    assert answer["guardrails_triggered"] == [
        {"invariant_id": "G_FROZEN", "severity": "CRITICAL", "detail": "Frozen region"}
    ]


def test_conflicts_are_resolved_by_the_declared_strategy(agent: api_client.Caller, dfid: str) -> None:
    answer = underwriting.ask(agent, dfid, score=777, balance=5, region="south")
    assert answer["conflicts"] == [
        {
            "rule_ids": ["L_GOOD", "P_CAUTION"],
            "rationale": "They say different things about line.",
            "resolution_hint": "P_CAUTION counts by priority.",
            "resolved_by": "priority",
        }
    ]
    assert answer["decided"][0]["actions"] == [{"action": "SET_LINE", "params": {"cents": 7}}]


def test_two_matches_of_a_unique_table_are_a_conflict_without_a_result(
    agent: api_client.Caller, dfid: str
) -> None:
    answer = underwriting.ask(agent, dfid, score=810, balance=5, region="island")
    assert answer["conflicts"][0]["rule_ids"] == ["L_BEST", "L_GOOD"]
    assert answer["conflicts"][0]["resolved_by"] == ""
    assert (answer["status"], answer["matches"]) == ("NO_MATCH", [])


def test_residuals_and_coverage_count_declared_aspects(agent: api_client.Caller, dfid: str) -> None:
    answer = underwriting.ask(agent, dfid, score=720, balance=5, region="south")
    assert (answer["residuals"], answer["coverage"]) == (["review"], 0.5)


def test_confidence_rule_is_the_least_certainty_of_what_was_decided(
    agent: api_client.Caller, dfid: str
) -> None:
    answer = underwriting.ask(agent, dfid, score=720, balance=-1, region="south")
    assert answer["confidence_rule"] == 0.9


def test_trace_ref_leads_to_the_reasoning_trace(agent: api_client.Caller, dfid: str) -> None:
    answer = underwriting.ask(agent, dfid, score=720, balance=5, region="south")
    assert answer["trace_ref"] == f"/api/v1/audit/contracts/reasoning_trace/{dfid}"


def test_requested_retransformations_name_what_is_missing_or_too_old(
    agent: api_client.Caller, dfid: str
) -> None:
    body = {
        "ruleset": "credit-desk@1.0.0",
        "features": {"score": 720, "balance": -1},
        "ages_s": {"balance": 61},
    }
    answer = agent.post(f"/flows/{dfid}/rules", body).ok()
    gaps = {gap["feature_gap"]: gap["suggested_scope"] for gap in answer["requested_retransformations"]}
    assert gaps == {
        "balance": "Read balance again: it is older than 60 s.",
        "region": "Give the feature region.",
    }
    # A table without one of its inputs decides nothing.
    assert answer["matches"] == []


def test_an_output_is_an_entry_and_is_made_again_to_the_same_bytes(
    agent: api_client.Caller, dfid: str
) -> None:
    answer = underwriting.ask(agent, dfid, score=720, balance=-1, region="south")
    row = RuleOutput.objects.select_related("ruleset").get()
    entry = LedgerEntry.objects.get(stream=dfid, kind="rules:evaluated")
    assert entry.payload == {
        "rule_output_id": answer["rule_output_id"],
        "ruleset": "credit-desk",
        "version": "1.0.0",
        "ruleset_digest": row.ruleset.digest,
        "input_digest": canonical.digest(bytes(row.input)),
        "output_digest": canonical.digest(bytes(row.body)),
        "status": "HIGH_CONFIDENCE_MATCH",
    }
    assert rule_outputs.make_again(row) == bytes(row.body)


def test_it_moves_nothing(agent: api_client.Caller, dfid: str) -> None:
    before = agent.get(f"/flows/{dfid}").ok()["state"]
    underwriting.ask(agent, dfid, score=720, balance=-1, region="frozen")
    assert agent.get(f"/flows/{dfid}").ok()["state"] == before


@pytest.mark.parametrize(
    ("features", "pointer"),
    [
        ({"score": "720"}, "/features/score"),
        ({"score": True}, "/features/score"),
        ({"score": 1.5}, "/features/score"),
        ({"region": 5}, "/features/region"),
        ({"region": "x" * 1001}, "/features/region"),
        ({"colour": "red"}, "/features/colour"),
    ],
)
def test_features_that_do_not_fit_are_refused(
    agent: api_client.Caller, dfid: str, features: dict[str, Any], pointer: str
) -> None:
    body = {"ruleset": "credit-desk", "features": features}
    problem = agent.post(f"/flows/{dfid}/rules", body).problem(422, "INVALID_REQUEST")
    assert [violation["pointer"] for violation in problem["violations"]] == [pointer]


@pytest.mark.parametrize("name", ["nobody", "credit-desk@9.9.9", "motor"])
def test_an_unknown_ruleset_is_not_found(agent: api_client.Caller, dfid: str, name: str) -> None:
    body = {"ruleset": name, "features": {}}
    agent.post(f"/flows/{dfid}/rules", body).problem(404, "RULESET_NOT_FOUND")


def test_a_flow_asks_a_bounded_number_of_times(
    agent: api_client.Caller, dfid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advising, "MOST_IN_FLOW", 1)
    underwriting.ask(agent, dfid, score=720)
    body = {"ruleset": "credit-desk", "features": {}}
    agent.post(f"/flows/{dfid}/rules", body).problem(429, "TOO_MUCH_ADVICE")


def test_an_ended_flow_and_a_foreign_one_ask_nothing(agent: api_client.Caller, dfid: str) -> None:
    body = {"ruleset": "credit-desk", "features": {}}
    agent.post(f"/flows/{dfid}/close", {"reason": "done"}).ok()
    agent.post(f"/flows/{dfid}/rules", body).problem(409, "FLOW_NOT_OPEN")
    strange = "00000000-0000-4000-8000-000000000000"
    agent.post(f"/flows/{strange}/rules", body).problem(404, "FLOW_NOT_FOUND")
