"""What is asked around the steps: invariants by place, preconditions, the form of receipts."""

from typing import Any

import pytest

from runtime.contracts.kind_steps import Step
from runtime.contracts.kind_types import Severity
from runtime.contracts.policy_kind import InvariantPlace, KindDocument
from runtime.contracts.reasons import Reason
from runtime.kernel import outcomes, saga, step_checks
from runtime.kernel.gate import pipeline, recheck
from runtime.kernel.rules import kind_linter, safety
from tests.support import gate_cases

BETWEEN, AFTER = InvariantPlace.BETWEEN_STEPS, InvariantPlace.AFTER
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"lines": {"type": "array", "items": {"type": "integer"}}, "a/b": {"type": "string"}},
    "required": ["lines"],
}


def kind(*requires: str, at: InvariantPlace = BETWEEN, severity: str = "HIGH") -> KindDocument:
    return gate_cases.kind(
        safety_assertions=[
            {
                "invariant_id": f"i{number}",
                "pinned": {
                    "invariant_id": f"i{number}",
                    "require": require,
                    "at": [at.value],
                    "severity": severity,
                },
            }
            for number, require in enumerate(requires)
        ]
    )


def step(**changes: Any) -> Step:
    return Step.model_validate({"id": "order", "executor": "simulated", **changes}, strict=False)


def test_invariants_are_asked_where_they_are_named() -> None:
    found = step_checks.ask_invariants(kind("true", "false", "1"), BETWEEN, names={})
    assert (found.held, found.violated) == (("i0",), ("i1", "i2"))
    assert [(one.reason, one.pauses) for one in found.broken] == [(Reason.INVARIANT_VIOLATED, True)] * 2
    assert found.broken[0].why == "it does not hold"
    assert found.broken[1].why.startswith("could not be evaluated")
    assert step_checks.ask_invariants(kind("false"), AFTER, names={}) == step_checks.InvariantsAsked(
        place=AFTER
    )


def test_an_unsafe_kind_is_not_asked_and_nothing_of_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safety, "why_unsafe", lambda _: "too much")
    found = step_checks.ask_invariants(kind("true"), BETWEEN, names={})
    assert [one.why for one in found.broken] == [safety.NOT_ASKED]


@pytest.mark.parametrize(("severity", "calls"), [("LOW", False), ("CRITICAL", True)])
def test_what_does_not_hold_after_the_last_step_is_a_deviation(severity: str, calls: bool) -> None:
    asserting = kind("true", "false", at=AFTER, severity=severity)
    asked = step_checks.ask_invariants(asserting, AFTER, names={})
    (deviation,) = step_checks.after(asserting, asked)
    assert (deviation.fact, deviation.expected, deviation.code) == (
        "i1",
        "false",
        Reason.INVARIANT_VIOLATED_AFTER,
    )
    assert (deviation.severity, deviation.calls_person) == (Severity(severity), calls)


def test_preconditions_read_the_receipts_of_the_steps_before() -> None:
    asked = step(
        preconditions=[
            {"id": "P_OK", "require": "steps.a.n == 1"},
            {"id": "P_NO", "require": "steps.a.n == 2", "message": "Not two"},
            {"id": "P_ASK", "require": "steps.b.n == 2", "on_fail": "ESCALATE"},
        ]
    )
    refused, paused = step_checks.ask_preconditions(asked, names={"steps": {"a": {"n": 1}}})
    assert (refused.name, refused.why, refused.pauses) == ("P_NO", "Not two", False)
    assert (paused.name, paused.pauses, paused.reason) == ("P_ASK", True, Reason.PRECONDITION_FAILED)


@pytest.mark.parametrize(
    ("receipt", "places", "observed"),
    [
        ({"lines": [1]}, [], []),
        ({}, ["order/lines"], [None]),
        ({"lines": [1, "x"]}, ["order/lines/1"], ["x"]),
        ({"lines": [], "a/b": 7}, ["order/a~1b"], [7]),
    ],
)
def test_a_receipt_that_does_not_fit_says_where_and_what_was_there(
    receipt: dict[str, Any], places: list[str], observed: list[Any]
) -> None:
    found = list(step_checks.misfits(step(receipt_schema=SCHEMA), receipt))
    assert [one.fact for one in found] == places
    assert [one.observed for one in found] == observed
    assert {one.severity for one in found} <= {Severity.HIGH}


def test_without_a_schema_every_receipt_fits() -> None:
    assert list(step_checks.misfits(step(), {"any": 1})) == []


def test_a_receipt_as_a_whole_and_one_of_another_form_are_named() -> None:
    whole = step(receipt_schema={"type": "object", "minProperties": 1}, on_misfit={"severity": "LOW"})
    (found,) = step_checks.misfits(whole, {})
    assert (found.fact, found.observed, found.severity) == ("order/", {}, Severity.LOW)
    assert found.remediation == step_checks.REMEDIATION
    odd = step_checks._at({"a": 1}, "/a/b")  # a pointer into what is no container
    assert odd is None


def test_only_what_is_grave_and_about_the_whole_calls_a_person() -> None:
    named = outcomes.NamedOutcome(outcome=None, outputs=None, output_names=(), deviations=())
    assert named.reason is None


HUMAN: dict[str, Any] = {
    "id": "look",
    "executor": "human",
    "receipt_schema": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
    "human": {"group": "desk", "instructions": "Look at {symbol}", "deadline_s": 60},
}
CALL: dict[str, Any] = {"id": "order", "executor": "simulated"}


def linted(**changes: Any) -> list[str]:
    return [problem.message for problem in kind_linter.lint_kind(gate_cases.kind(**changes))]


def test_a_human_step_needs_no_compensation_and_names_parameters_in_its_texts() -> None:
    assert linted(steps=[HUMAN, CALL]) == []
    undone = {**HUMAN["human"], "undo": "Take back {nothing}"}
    (said,) = linted(steps=[{**HUMAN, "human": undone}, CALL])
    assert said == "the text names nothing, which is not a parameter of the kind"


@pytest.mark.parametrize(
    "changes",
    [
        {"executor": "simulated"},
        {"human": None},
        {"receipt_schema": None},
        {"timeout_s": 5},
        {"on_misfit": {"severity": "LOW"}},
    ],
)
def test_a_step_that_is_half_a_persons_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"human|of calls"):
        step(**{**HUMAN, **changes})


def test_on_misfit_needs_a_schema() -> None:
    with pytest.raises(ValueError, match="receipt_schema"):
        step(on_misfit={"severity": "LOW"})


def test_an_invariant_is_asked_where_there_are_steps_enough() -> None:
    pinned = kind("true").safety_assertions[0].model_dump(mode="json", by_alias=True)
    (said,) = linted(safety_assertions=[pinned])
    assert said == "i0 is asked between steps, and the kind has fewer than two"
    after = kind("true", at=AFTER).safety_assertions[0].model_dump(mode="json", by_alias=True)
    assert linted(safety_assertions=[after]) == []
    assert "i0 is asked after the steps, and the kind has none" in linted(
        safety_assertions=[after], steps=[], routes=[]
    )
    assert (
        linted(safety_assertions=[pinned], steps=[{**CALL, "id": "a", "compensate": {"path": "/b"}}, CALL])
        == []
    )


def test_a_receipt_schema_is_one_of_an_object_that_can_be_used() -> None:
    assert linted(steps=[{**CALL, "receipt_schema": {"type": "array"}}]) == [
        "the schema must have type object"
    ]
    (said,) = linted(steps=[{**CALL, "receipt_schema": {"type": "object", "required": 7}}])
    assert said.startswith("the schema is not usable")


def test_only_re_engage_asks_for_clarification() -> None:
    route = {"when": "true", "action": "ESCALATE", "clarify": True}
    assert linted(routes=[route]) == ["only RE_ENGAGE can ask for clarification"]


@pytest.mark.parametrize("undo", [None, "Take back {symbol}"])
def test_what_people_are_asked_is_rendered_once(undo: str | None) -> None:
    steps = [{**HUMAN, "human": {**HUMAN["human"], "undo": undo}}, CALL]
    case = gate_cases.case(rules=gate_cases.rules(kind=gate_cases.kind(steps=steps)))
    asked, order = case.calls
    symbol = case.proposal.params["symbol"]
    assert asked.body == {"group": "desk", "instructions": f"Look at {symbol}", "deadline_s": 60}
    assert (asked.executor, asked.target, order.executor) == ("human", "", "simulated")
    if undo is None:
        assert asked.compensation is None
    else:
        assert asked.compensation is not None
        assert asked.compensation.body["instructions"] == f"Take back {symbol}"
        assert asked.compensation.key != asked.key


def test_a_check_is_no_effect_that_stands() -> None:
    progress = saga.Progress(done=frozenset({0, 1}), harmless=frozenset({0}))
    assert progress.standing == {1}
    assert saga.turn_back(saga.Progress(done=frozenset({0}), harmless=frozenset({0}))) is None


def test_between_steps_an_invariant_that_pauses_does_not_turn_back() -> None:
    document = kind("false")
    both = document.model_dump(mode="json", by_alias=True)["safety_assertions"]
    both[0]["pinned"]["at"] = ["CLAIM", "BETWEEN_STEPS"]
    asked = gate_cases.rules(kind=gate_cases.kind(safety_assertions=both))
    case = gate_cases.case(rules=asked)
    judgement = pipeline.Judgement(
        proposal=case.proposal, facts=case.facts, now_ms=case.now_ms, rules_digest=asked.digest
    )
    for between, found in ((False, ["i0"]), (True, [])):
        seen = recheck.recheck(judgement, asked, world=gate_cases.WORLD, now_ms=case.now_ms, between=between)
        assert [item.subject for item in seen if item.check == "invariants"] == found
