"""What expressions of a kind read of the steps of a flow."""

from typing import Any

import pytest

from runtime.contracts.workflow import Core, ShownStep, StepHistory
from runtime.kernel import step_history
from runtime.kernel.gate.checks import what
from runtime.kernel.rules import linter, scope
from runtime.kernel.workflows import linter as workflow_linter
from tests.support import gate_cases
from tests.support.workflow_story import RESEARCH, document

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "number"}, "note": {"type": "string", "maxLength": 5}},
}


def step(**fields: Any) -> ShownStep:
    plain: dict[str, Any] = {"instruction": "VERIFY", "core": Core.NORMATIVE, "at_ms": 0}
    return ShownStep(**{**plain, "input": {}, "output": {}, **fields})


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"score": 1, "note": "short", "secret": "x"}, {"score": 1, "note": "short"}),
        ({"score": "high", "note": "too long"}, {}),
        ({}, {}),
    ],
)
def test_only_what_is_declared_and_fits_is_shown(given: dict[str, Any], shown: dict[str, Any]) -> None:
    assert step_history.visible(SCHEMA, given) == shown
    assert step_history.visible(None, given) == {}


def test_steps_have_their_age_and_the_last_one_a_name() -> None:
    known = StepHistory(steps=(step(at_ms=1_000), step(at_ms=9_000, output={"score": 1})), truncated=True)
    named = step_history.named(known, now_ms=10_500)
    assert [one["age_s"] for one in named["steps"]] == [9, 1]
    assert named["last"] == {
        "instruction": "VERIFY",
        "core": "NORMATIVE",
        "age_s": 1,
        "input": {},
        "output": {"score": 1},
    }
    assert named["truncated"] is True
    # A clock that went back makes no step younger than now.
    assert (
        step_history.named(StepHistory(steps=(step(at_ms=99),), truncated=False), now_ms=0)["last"]["age_s"]
        == 0
    )
    assert step_history.named(StepHistory(steps=(), truncated=False), now_ms=0) == {
        "steps": [],
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "strange"}, "the schema is not usable"),
        ({"type": "array"}, "must be of type object with properties"),
        ({"type": "object"}, "must be of type object with properties"),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, "a must be of type string"),
        ({"type": "object", "properties": {"a": True}}, "a must be of type string"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "add maxLength"),
        ({"type": "object", "properties": {"a": {"type": "string", "maxLength": 201}}}, "add maxLength"),
        ({"type": "object", "properties": {f"p{at}": {"type": "integer"} for at in range(11)}}, "than 10"),
        ({"type": "object", "properties": {"p" * 65: {"type": "integer"}}}, "more than 64 characters"),
    ],
)
def test_a_schema_of_another_form_is_refused(schema: dict[str, Any], said: str) -> None:
    assert said in " ".join(step_history.lint_schema(schema))
    declared = {**RESEARCH["instructions"], "VERIFY": {"core": "NORMATIVE", "output_schema": schema}}
    found = workflow_linter.lint(document(instructions=declared))
    assert {(item.code.value, item.place) for item in found} == {
        ("INVALID_SCHEMA", ("instructions", "VERIFY", "output_schema"))
    }


def test_a_good_schema_has_no_findings() -> None:
    assert list(step_history.lint_schema(SCHEMA)) == []
    declared = {**RESEARCH["instructions"], "VERIFY": {"core": "NORMATIVE", "input_schema": SCHEMA}}
    assert workflow_linter.lint(document(instructions=declared)) == ()


@pytest.mark.parametrize(
    "source",
    [
        "history.steps.exists(s, s.instruction == 'VERIFY' && s.output.score > 0.5)",
        "history.steps.all(s, s.age_s < 600)",
        "history.last.output.score >= 1.0 && !history.truncated",
    ],
)
def test_expressions_over_steps_may_be_saved(source: str) -> None:
    assert linter.lint_expression(source, names=scope.JUDGED) == []


def test_unknown_fields_of_the_history_are_named() -> None:
    (said,) = linter.lint_expression("history.first.core == 'X'", names=scope.JUDGED)
    assert "history.first" in said


@pytest.mark.parametrize(
    ("steps", "outcome"),
    [
        (None, ["FAIL"]),
        (StepHistory(steps=(), truncated=False), ["FAIL"]),
        (StepHistory(steps=(step(output={"score": 0.9}),), truncated=False), []),
        (StepHistory(steps=(step(output={}),), truncated=False), ["FAIL"]),
    ],
)
def test_a_rule_over_steps_holds_only_where_they_say_so(
    steps: StepHistory | None, outcome: list[str]
) -> None:
    require = "history.steps.exists(s, has(s.output.score) && s.output.score > 0.5)"
    kind = gate_cases.kind(rules=[{"id": "R_VERIFIED", "require": require}])
    case = gate_cases.case(rules=gate_cases.rules(kind=kind), facts=gate_cases.facts(steps=steps))
    assert [item.outcome.value for item in what.check_rules(case)] == outcome
