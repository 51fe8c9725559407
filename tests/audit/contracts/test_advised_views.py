"""The contracts of flows that asked for advice: views of its rows, before and after a verdict."""

from typing import Any

import pytest

from audit.contracts.catalogue import CONTRACTS
from runtime.advice.models import DecisionPackageRow, RuleOutput
from tests.audit.contracts import reading
from tests.audit.contracts.reading import view
from tests.support import advised_desk, api_client, worlds
from tests.support.advised_desk import OBJECTIVES, OPTIONS, Advised

pytestmark = pytest.mark.django_db
_shared = worlds.shared(advised_desk.build)


@pytest.fixture
def world(_shared: Advised, db: None) -> Advised:
    return _shared


@pytest.fixture
def auditor(db: None) -> api_client.Caller:
    return api_client.Caller(api_client.auditor_key())


def without(shown: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name not in names}


def test_advice_without_a_proposal_is_shown_by_each_of_its_ids(
    world: Advised, auditor: api_client.Caller
) -> None:
    package, output = (
        DecisionPackageRow.objects.get(flow=world.advised),
        RuleOutput.objects.get(flow=world.advised),
    )
    for wanted in (world.advised, package.pk, output.pk):
        shown = view(auditor, "decision_package", wanted)
        assert (shown["decision_id"], shown["made_by"], shown["method"]) == (
            str(package.pk),
            "recommender",
            package.method,
        )
        assert shown["references"]["proposal_ids"] == []
        assert view(auditor, "rule_engine_output", wanted)["rule_output_id"] == str(output.pk)
        assert len(view(auditor, "replay_trace", wanted)["steps"]) == 2
    trace = view(auditor, "reasoning_trace", world.advised)
    assert trace["decision_id"] == str(package.pk)
    assert [node["rule_id"] for node in trace["structure"]["rule_nodes"]] == ["L_GOOD"]
    verdicts = CONTRACTS.keys() - {
        "decision_package",
        "rule_engine_output",
        "replay_trace",
        "reasoning_trace",
    }
    for name in verdicts:
        reading.heard(auditor, name, package.pk).problem(404, "NOT_FOUND")


def test_a_package_is_the_stored_one_also_after_a_proposal(
    world: Advised, auditor: api_client.Caller
) -> None:
    for wanted in (world.followed, world.package["decision_id"], world.output["rule_output_id"]):
        shown = view(auditor, "decision_package", wanted)
        plain = without(shown, "made_by", "references", "selected_action")
        assert plain == without(world.package, "references", "selected_action")
        assert shown["selected_action"]["parameters"] == world.package["selected_action"]["parameters"]
        assert shown["references"] == {
            **world.package["references"],
            "CET_version": "1.0.0",
            "recommendation_id": world.package["decision_id"],
            "proposal_ids": [world.proposal],
        }
        assert [each["id"] for each in shown["alternatives"]] == ["A"]
        assert [each["id"] for each in shown["dropped"]] == ["C"]


def test_the_verdict_on_an_advised_proposal_names_what_it_follows(
    world: Advised, auditor: api_client.Caller
) -> None:
    shown = view(auditor, "decision_package", world.proposal)
    assert (shown["decision_id"], shown["made_by"]) == (world.proposal, "gate")
    assert shown["references"]["recommendation_id"] == world.package["decision_id"]
    assert shown["alternatives"] == world.package["alternatives"]
    assert shown["dropped"] == world.package["dropped"]
    by_package = view(auditor, "policy_decision", world.package["decision_id"])
    assert by_package == view(auditor, "policy_decision", world.proposal)


def test_a_rule_output_is_the_stored_one(world: Advised, auditor: api_client.Caller) -> None:
    for wanted in (world.followed, world.package["decision_id"], world.output["rule_output_id"]):
        assert without(view(auditor, "rule_engine_output", wanted), "made_by") == world.output
    assert view(auditor, "rule_engine_output", world.proposal)["made_by"] == "gate"


def test_a_package_that_stands_on_no_rules_says_so(world: Advised, auditor: api_client.Caller) -> None:
    shown = view(auditor, "decision_package", world.bare["decision_id"])
    assert (shown["selected_action"], shown["references"]["rule_output_id"]) == (None, None)
    answer = reading.heard(auditor, "rule_engine_output", world.bare["decision_id"]).problem(404, "NOT_FOUND")
    assert answer["detail"] == "This decision package was built on no rule output."


def test_the_trace_that_an_output_refers_to_is_there(world: Advised, auditor: api_client.Caller) -> None:
    assert world.asked_output["trace_ref"].endswith(f"/reasoning_trace/{world.asked}")
    shown = view(auditor, "reasoning_trace", world.asked)
    assert shown["decision_id"] is None
    assert [(node["fired"], node["rule_id"]) for node in shown["structure"]["rule_nodes"]] == [
        (True, match["rule_id"]) for match in world.asked_output["matches"]
    ]
    answer = reading.heard(auditor, "decision_package", world.asked_output["rule_output_id"])
    assert answer.problem(404, "NOT_FOUND")["detail"] == "No decision package was built on this rule output."


def test_the_reasoning_of_an_advised_verdict_has_the_rules_and_the_weighing(
    world: Advised, auditor: api_client.Caller
) -> None:
    structure = view(auditor, "reasoning_trace", world.proposal)["structure"]
    [synthesis] = structure["synthesis_nodes"]
    assert synthesis["recommendation_id"] == world.package["decision_id"]
    assert synthesis["weights"] == [
        {"objective": each["id"], "weight": each["weight"]} for each in OBJECTIVES
    ]
    assert {each["option"]: each["utilities"] for each in synthesis["utilities"]} == {
        each["id"]: each["utilities"] for each in OPTIONS
    }
    advised = [node for node in structure["rule_nodes"] if world.output["rule_output_id"] in node["node_id"]]
    assert [(node["rule_id"], node["reason"]) for node in advised] == [
        (match["rule_id"], match["justification"]) for match in world.output["matches"]
    ]
    graph = auditor.get(f"/audit/flows/{world.followed}/reasoning").ok()
    [body] = [node for node in graph["nodes"].values() if node["sort"] == "synthesis"]
    assert body["unverified_claims"] == ["weights", "utilities"]


def test_the_replay_trace_has_the_advice_among_its_steps(world: Advised, auditor: api_client.Caller) -> None:
    steps = view(auditor, "replay_trace", world.followed)["steps"]
    told = [each for each in steps if each["step_type"] in ("rule_evaluation", "recommendation")]
    output, package = (
        RuleOutput.objects.get(flow=world.followed),
        DecisionPackageRow.objects.get(flow=world.followed),
    )
    assert [(each["input_hash"], each["output_hash"]) for each in told] == [
        (reading.sha256(output.input), reading.sha256(output.body)),
        (reading.sha256(package.input), reading.sha256(package.body)),
    ]
    assert told[1]["provenance_refs"] == [f"rule_output:{output.pk}"]


def test_what_an_agent_weighed_by_stands_in_the_context(world: Advised, auditor: api_client.Caller) -> None:
    frame = view(auditor, "structured_context", world.followed)["problem_frame"]
    assert frame["utility_proxies"] == ["margin", "speed"]


@pytest.mark.parametrize(("model", "column"), [(DecisionPackageRow, "body"), (RuleOutput, "body")])
def test_changed_advice_is_not_shown(
    world: Advised, auditor: api_client.Caller, model: Any, column: str
) -> None:
    row = model.objects.get(flow=world.advised)
    model.objects.filter(pk=row.pk).update(**{column: bytes(row.body).replace(b"L_GOOD", b"L_BEST") + b" "})
    name = "decision_package" if model is DecisionPackageRow else "rule_engine_output"
    answer = reading.heard(auditor, name, row.pk).problem(404, "NOT_FOUND")
    assert "cannot be shown: the stored bytes do not match the ledger." in answer["detail"]
