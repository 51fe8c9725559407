"""The five evaluators: what they give for which record, and the verifier's own, which give the same."""

import subprocess
import sys
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.packs import verify
from audit.records import beginning, evaluators, fold

DFID = "0198c0de-0000-7000-8000-000000000001"
ALLOWED = {"policy_decision_id": "p", "bundle_id": "b", "rule_ids": [], "verdict": "allow"}
DENIED = {**ALLOWED, "verdict": "deny", "rule_ids": ["LIMIT_EXCEEDED"]}
ASKED = {**ALLOWED, "verdict": "require_approval"}
CALL = {
    "tool_call_id": "i:1",
    "step": "order",
    "direction": "FORWARD",
    "purpose": "CALL",
    "result": "SUCCEEDED",
    "settled": None,
}
GIVEN = {"gate_id": "BUY", "escalation_id": "e", "action": "OVERRIDE", "state": "IN_EFFECT"}


def record(**changes: Any) -> dict[str, Any]:
    """A record of a flow that has done what it was for."""
    made = beginning.record(DFID, version=fold.VERSION)
    made |= {"status": "DECIDED", "terminal": True, "policy_decisions": [ALLOWED], "tool_lineage": [CALL]}
    made["outputs"] = {"effect": "SUCCEEDED", "deviations": 0}
    for name, value in changes.items():
        made[name] = {**made[name], **value} if isinstance(made[name], dict) else value
    return made


def scores(**changes: Any) -> dict[str, tuple[str | None, bool | None]]:
    found = evaluators.evaluate(record(**changes))
    return {score.evaluator: (score.value, score.passed) for score in found.scores}


def declared(**changes: Any) -> dict[str, Any]:
    return {"flow": {"scoring": {"targets": changes, "minimum": {}}}}


def test_what_went_as_it_should_has_all_that_can_be_told() -> None:
    found = evaluators.evaluate(record())
    assert found.result == "passed"
    assert scores() == {
        "policy": ("1", True),
        "utility": ("1", True),
        "latency": (None, None),
        "safety": ("1", True),
        "cost": (None, None),
    }
    assert all(score.reason for score in found.scores)


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"policy_decisions": []}, "0"),
        ({"policy_decisions": [], "tool_lineage": []}, None),
        ({"policy_decisions": [DENIED]}, "0"),
        ({"policy_decisions": [DENIED, ALLOWED]}, "0.5"),
        ({"policy_decisions": [DENIED, ALLOWED, ALLOWED]}, "0.6666"),
        ({"policy_decisions": [ASKED, ALLOWED], "approvals": [GIVEN]}, "1"),
        ({"policy_decisions": [ASKED, ALLOWED], "approvals": [{**GIVEN, "action": "MODIFY"}]}, "0.75"),
        (
            {"policy_decisions": [ASKED], "approvals": [{**GIVEN, "action": "ABORT"}], "tool_lineage": []},
            "0",
        ),
        (
            {
                "policy_decisions": [ASKED],
                "approvals": [{**GIVEN, "action": "ABORT", "state": "TAKEN_BACK"}],
                "tool_lineage": [],
            },
            "1",
        ),
        (
            {"approvals": [{**GIVEN, "gate_id": "OPERATIONAL", "action": "ABORT"}]},
            "1",
        ),
    ],
)
def test_policy(changes: dict[str, Any], value: str | None) -> None:
    assert scores(**changes)["policy"][0] == value


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"outputs": {"deviations": 1}}, "0.75"),
        ({"outputs": {"deviations": 9}}, "0.25"),
        ({"outputs": {"effect": None}}, "1"),
        ({"status": "REJECTED"}, "0"),
        ({"status": "CLOSED", "outputs": {"effect": "FAILED"}}, "0"),
        ({"status": "CLOSED", "outputs": {"effect": "CANCELLED"}}, None),
        ({"status": "CLOSED", "outputs": {"effect": None}}, None),
    ],
)
def test_utility(changes: dict[str, Any], value: str | None) -> None:
    assert scores(**changes)["utility"][0] == value


@pytest.mark.parametrize(
    ("took_ms", "expected"),
    [(0, ("1", True)), (3000, ("1", True)), (3001, ("0.9996", False)), (9000, ("0.3333", False))],
)
def test_latency_is_target_by_time(took_ms: int, expected: tuple[str, bool]) -> None:
    found = scores(**declared(wall_clock_s=3), budget_usage={"wall_clock_ms": took_ms})
    assert found["latency"] == expected


@pytest.mark.parametrize(
    ("targets", "used", "expected"),
    [
        ({"cost_usd": "0.25"}, {"cost_usd_cents": "25"}, ("1", True)),
        ({"cost_usd": "0.25"}, {"cost_usd_cents": "25.0001"}, ("0.9999", False)),
        ({"tokens": 100}, {"tokens": 400}, ("0.25", False)),
        ({"tokens": 100, "cost_usd": "1"}, {"tokens": 400, "cost_usd_cents": "1000"}, ("0.1", False)),
        ({"tokens": 100}, {}, (None, None)),
        ({"cost_usd": "0"}, {"cost_usd_cents": "1"}, ("0", False)),
    ],
)
def test_cost(targets: dict[str, Any], used: dict[str, Any], expected: Any) -> None:
    assert scores(**declared(**targets), budget_usage=used)["cost"] == expected


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"tool_lineage": [{**CALL, "result": "UNKNOWN"}]}, "0"),
        ({"tool_lineage": [{**CALL, "result": None}]}, "0"),
        ({"tool_lineage": [{**CALL, "result": "HELD"}]}, "1"),
        ({"tool_lineage": [{**CALL, "result": "UNKNOWN", "settled": "NOT_HAPPENED"}]}, "1"),
        ({"tool_lineage": [{**CALL, "result": "UNKNOWN", "purpose": "PROBE"}]}, "1"),
        ({"tool_lineage": [CALL, {**CALL, "direction": "COMPENSATE"}]}, "0.5"),
        ({"tool_lineage": [CALL, {**CALL, "direction": "COMPENSATE", "result": "FAILED"}]}, "0"),
        ({"approvals": [{**GIVEN, "gate_id": "AGENT", "action": "STOP_AGENT"}]}, "0"),
        ({"policy_decisions": [{**DENIED, "rule_ids": ["RED_LINE_CROSSED"]}, ALLOWED]}, "0.5"),
        ({"outputs": {"deviations": 1}}, "0.5"),
        ({"policy_decisions": [], "tool_lineage": []}, None),
    ],
)
def test_safety(changes: dict[str, Any], value: str | None) -> None:
    assert scores(**changes)["safety"][0] == value


def test_a_record_of_the_first_version_says_nothing_of_calls_in_doubt() -> None:
    old = {name: value for name, value in CALL.items() if name != "settled"}
    assert scores(tool_lineage=[old])["safety"][0] == "1"
    assert scores(tool_lineage=[{**old, "result": "UNKNOWN"}])["safety"][0] is None


def test_a_minimum_of_the_kind_counts_in_place_of_that_of_the_suite() -> None:
    changed = record(outputs={"deviations": 1})
    assert evaluators.evaluate(changed).result == "failed"
    changed["flow"]["scoring"] = {"targets": {}, "minimum": {"safety": "0.5", "utility": "0.7500"}}
    assert evaluators.evaluate(changed).result == "passed"
    changed["flow"]["scoring"]["minimum"]["utility"] = "0.7501"
    assert evaluators.evaluate(changed).reason == "Below the minimum: utility 0.75 of 0.7501."


def test_an_unknown_suite_scores_nothing() -> None:
    found = evaluators.evaluate(record(lineage={"evaluator_suite": "eval.desk"}))
    assert (found.suite, found.result, found.scores) == ("eval.desk", "unscored", ())


def test_the_module_needs_no_django() -> None:
    code = "import sys; from audit.records import evaluators; sys.exit('django' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


SHARES = [None, "0", "0.5", "0.3333", "0.75", "1"]
RECORDS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["DECIDED", "REJECTED", "CLOSED"]),
        "outputs": st.fixed_dictionaries(
            {
                "effect": st.sampled_from([None, "SUCCEEDED", "FAILED", "CANCELLED", "COMPENSATED"]),
                "deviations": st.integers(0, 5),
            }
        ),
        "policy_decisions": st.lists(
            st.fixed_dictionaries(
                {
                    "verdict": st.sampled_from(["allow", "deny", "require_approval"]),
                    "rule_ids": st.sampled_from([[], ["RED_LINE_CROSSED"], ["L"]]),
                }
            ),
            max_size=5,
        ),
        "approvals": st.lists(
            st.fixed_dictionaries(
                {
                    "gate_id": st.sampled_from(["BUY", "OPERATIONAL", "AGENT"]),
                    "escalation_id": st.sampled_from(["e", "f"]),
                    "action": st.sampled_from([None, "ABORT", "MODIFY", "OVERRIDE", "STOP_AGENT"]),
                    "state": st.sampled_from(["IN_EFFECT", "CONFIRMED", "TAKEN_BACK"]),
                }
            ),
            max_size=4,
        ),
        "tool_lineage": st.lists(
            st.fixed_dictionaries(
                {
                    "tool_call_id": st.sampled_from(["i:1", "i:2"]),
                    "step": st.sampled_from(["order", "book"]),
                    "direction": st.sampled_from(["FORWARD", "COMPENSATE"]),
                    "purpose": st.sampled_from(["CALL", "PROBE"]),
                    "result": st.sampled_from([None, "SUCCEEDED", "FAILED", "UNKNOWN", "HELD"]),
                },
                optional={"settled": st.sampled_from([None, "HAPPENED", "NOT_HAPPENED"])},
            ),
            max_size=4,
        ),
        "budget_usage": st.fixed_dictionaries(
            {
                "tokens": st.integers(0, 10**12),
                "tool_calls": st.integers(0, 3),
                "cost_usd_cents": st.sampled_from(["0", "0.0001", "25", "33.3333", "1000000000000"]),
                "wall_clock_ms": st.integers(0, 10**10),
            }
        ),
        "lineage": st.just({"evaluator_suite": None}),
        "flow": st.fixed_dictionaries(
            {
                "scoring": st.none()
                | st.fixed_dictionaries(
                    {
                        "targets": st.fixed_dictionaries(
                            {},
                            optional={
                                "wall_clock_s": st.integers(1, 10**7),
                                "cost_usd": st.sampled_from(["0", "0.25", "0.000001", "999999999999"]),
                                "tokens": st.integers(1, 10**12),
                            },
                        ),
                        "minimum": st.dictionaries(
                            st.sampled_from(evaluators.NAMES), st.sampled_from(SHARES[1:]), max_size=3
                        ),
                    }
                )
            }
        ),
    }
)


@settings(max_examples=400)
@given(RECORDS)
def test_two_evaluators_give_the_same(made: dict[str, Any]) -> None:
    before = deepcopy(made)
    scored = evaluators.evaluate(made)
    assert verify._scores_of(made) == evaluators.scorecard(scored.plain())
    assert evaluators.evaluate(made) == scored
    assert made == before
    for score in scored.scores:
        assert (score.value is None) == (score.passed is None)
        assert score.value is None or 0 <= float(score.value) <= 1
        assert score.reason
