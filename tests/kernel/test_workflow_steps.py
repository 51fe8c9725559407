"""Steps of a workflow: the graph, five checkers before a step, and three routers after it."""

from typing import Any

import pytest
from pydantic import ValidationError

from runtime.contracts.kind_types import OnFail
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Impact
from runtime.contracts.workflow import AllowedStep, BudgetOf, ReportedStep, WorkflowDocument, WorkflowFold
from runtime.kernel.workflows import steps
from tests.support.workflow_story import RESEARCH, SEQUENCE, check, document, walk

VIOLATION = "POLICY_VIOLATION"


def test_a_document_is_read_back_from_its_bytes() -> None:
    workflow = document(checkers=[SEQUENCE])
    assert WorkflowDocument.from_bytes(workflow.to_bytes()) == workflow


@pytest.mark.parametrize(
    "changes",
    [
        {"checkers": [SEQUENCE, SEQUENCE]},
        {"routers": [{"id": "r", "router": "threshold", "on": "VERIFY", "key": "output.x", "to": "VERIFY"}]},
        {"checkers": [{"id": "c", "checker": "magic", "on": "VERIFY"}]},
        {"ends": []},
        {"sla_s": 0},
        {"routers": [{"id": "r", "router": "validate", "on": "VERIFY"}]},
        {"routers": [{"id": "r", "router": "validate", "on": "VERIFY", "by": "VERIFY", "require": "true"}]},
        {"checkers": [{"id": "c", "checker": "budget", "on": "VERIFY", "of": "tokens", "above": 50}]},
    ],
)
def test_what_could_not_be_enforced_is_not_read(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        document(**changes)


def test_a_flow_begins_at_the_start_and_follows_edges() -> None:
    workflow = document()
    begun = steps.begin(workflow)
    assert begun == WorkflowFold(reliability=100)
    assert check(workflow, begun, "GENERATE") == []
    assert check(workflow, begun, "VERIFY") == [("graph", VIOLATION)]
    assert check(workflow, begun, "DREAM") == [("graph", VIOLATION)]
    after = walk(workflow, "GENERATE")
    assert check(workflow, after, "VERIFY") == []
    assert check(workflow, after, "PROPOSE") == [("graph", VIOLATION)]


def test_visits_end_and_costs_are_taken_from_the_reliability() -> None:
    workflow = document()
    round_trip = ("GENERATE", "VERIFY", "TOOL_CALL")
    fold = walk(workflow, *round_trip, *round_trip, "GENERATE", "VERIFY")
    assert (fold.reliability, fold.visits["TOOL_CALL"]) == (85, 2)
    assert check(workflow, fold, "TOOL_CALL") == [("max_visits", VIOLATION)]


@pytest.mark.parametrize(
    ("walked", "refused"),
    [
        (["GENERATE", "VERIFY"], False),
        (["GENERATE"], True),
        (["GENERATE", ("VERIFY", {"result": "FAIL"})], True),
        (["GENERATE", "VERIFY", "GENERATE"], True),
        # Through other cores in between.
        (["GENERATE", "VERIFY", "REPLAN"], False),
        (["GENERATE", "REPLAN"], True),
        ([], False),
    ],
)
def test_no_execution_between_thinking_and_a_verification_that_passed(
    walked: list[Any], refused: bool
) -> None:
    instructions = {**RESEARCH["instructions"], "REPLAN": {"core": "METACOGNITIVE"}}
    workflow = document(instructions=instructions, checkers=[SEQUENCE])
    found = check(workflow, walk(workflow, *walked), "PROPOSE")
    assert (("think_then_verify", VIOLATION) in found) is refused


def _state(require: str) -> WorkflowDocument:
    return document(checkers=[{"id": "s", "checker": "state", "on": "TOOL_CALL", "require": require}])


@pytest.mark.parametrize(
    ("require", "risky", "refused"),
    [
        ("!history.last.input.high_risk_user", True, True),
        ("!history.last.input.high_risk_user", False, False),
        # A key that is missing fails, unless the expression allows it.
        ("!history.last.input.high_risk_user", None, True),
        ("!has(history.last.input.high_risk_user)", None, False),
        ("input.amount < 10", None, False),
    ],
)
def test_no_payment_for_a_user_who_was_flagged(require: str, risky: bool | None, refused: bool) -> None:
    workflow = _state(require)
    given = {} if risky is None else {"high_risk_user": risky}
    step = ReportedStep(instruction="VERIFY", core=workflow.instructions["VERIFY"].core, input=given)
    fold = steps.take(workflow, walk(workflow, "GENERATE"), step, now_ms=0)
    found = check(workflow, fold, "TOOL_CALL", given={"amount": 9})
    assert found == ([("s", VIOLATION)] if refused else [])
    assert check(workflow, fold, "PROPOSE") == []


def test_nothing_was_reported_before_the_first_step() -> None:
    on_start = {"id": "s", "checker": "state", "on": "GENERATE", "require": "!has(history.last)"}
    assert check(document(checkers=[on_start]), steps.begin(document()), "GENERATE") == []


def test_a_rate_holds_in_every_window() -> None:
    rate = {"id": "rate", "checker": "rate", "on": "TOOL_CALL", "times": 2, "per_s": 5}
    workflow = document(checkers=[rate])
    fold = walk(workflow, "GENERATE", "VERIFY")

    def asked(at: int) -> steps.Asked:
        return steps.Asked(instruction="TOOL_CALL", now_ms=at, input={}, left={})

    for at in (0, 4000):
        assert check(workflow, fold, "TOOL_CALL", at=at) == []
        fold = steps.permit(workflow, fold, asked(at))
    (spent,) = steps.check(workflow, fold, asked(4999))
    assert (spent.code.value, spent.retry_after_ms) == ("RATE_LIMITED", 1)
    # A clock that goes back gives no second permit.
    assert check(workflow, fold, "TOOL_CALL", at=-10_000) == [("rate", "RATE_LIMITED")]
    assert check(workflow, fold, "TOOL_CALL", at=5000) == []
    fold = steps.permit(workflow, fold, asked(5000))
    assert fold.permits == {"rate": (4000, 5000)}
    assert check(workflow, fold, "PROPOSE", at=5000) == []
    other = steps.Asked(instruction="PROPOSE", now_ms=9000, input={}, left={})
    assert steps.permit(workflow, fold, other) == fold


def test_an_expensive_step_needs_reliability_or_what_is_left_of_a_budget() -> None:
    def on(of: str, above: float) -> WorkflowDocument:
        budget = {"id": "b", "checker": "budget", "on": "VERIFY", "of": of, "above": above}
        return document(checkers=[{**budget, "on_fail": "ESCALATE"}])

    for workflow, left, refused in (
        (on("reliability", 0.94), {}, False),
        (on("reliability", 0.95), {}, True),
        (on("tokens", 0.5), {BudgetOf.TOKENS: steps.Remainder(10, 20)}, True),
        (on("tokens", 0.5), {BudgetOf.TOKENS: steps.Remainder(11, 20)}, False),
        # Not as binary floats have it: 0.29 * 100 is less than 29 to them.
        (on("tokens", 0.29), {BudgetOf.TOKENS: steps.Remainder(29, 100)}, True),
        (on("tokens", 0), {BudgetOf.TOKENS: steps.Remainder(0, 0)}, True),
        (on("tokens", 1), {}, False),
    ):
        fold = walk(workflow, "GENERATE")
        asked = steps.Asked(instruction="VERIFY", now_ms=0, input={}, left=left)
        found = steps.check(workflow, fold, asked)
        assert [one.on_fail for one in found] == ([OnFail.ESCALATE] if refused else [])
        assert check(workflow, fold, "PROPOSE") == [("graph", VIOLATION)]


@pytest.mark.parametrize(
    ("walked", "within_s", "at", "refused"),
    [
        (["GENERATE"], 600, 600_000, False),
        (["GENERATE"], 600, 600_001, True),
        (["GENERATE"], None, 10**12, False),
        ([], 600, 0, True),
    ],
)
def test_what_must_come_before_came_and_not_too_long_ago(
    walked: list[str], within_s: int | None, at: int, refused: bool
) -> None:
    first = {"id": "first", "checker": "precedes", "on": "VERIFY", "by": "GENERATE"}
    bound = {} if within_s is None else {"within_s": within_s}
    workflow = document(checkers=[{**first, **bound}])
    fold = walk(workflow, *walked)
    assert (("first", VIOLATION) in check(workflow, fold, "VERIFY", at=at)) is refused
    assert ("first", VIOLATION) not in check(workflow, fold, "GENERATE", at=at)


def _routed(router: dict[str, Any], output: dict[str, Any]) -> str | None:
    workflow = document(routers=[{"id": "r", "on": "VERIFY", "to": "GENERATE", **router}])
    assert walk(workflow, "GENERATE").pending is None
    pending = walk(workflow, "GENERATE", ("VERIFY", output)).pending
    return None if pending is None else pending.reason


@pytest.mark.parametrize(
    ("bound", "output", "reason"),
    [
        ({"below": 0.8}, {"confidence": 0.79}, "output.confidence is below 0.8."),
        ({"below": 0.8}, {"confidence": 0.8}, None),
        ({"above": 3}, {"confidence": 4}, "output.confidence is above 3."),
        ({"above": 3}, {"confidence": 3}, None),
        ({"above": 3}, {"confidence": True}, "output.confidence was not reported."),
        ({"above": 3}, {}, "output.confidence was not reported."),
        ({"above": 3, "on_missing": "go_on"}, {}, None),
    ],
)
def test_low_confidence_leads_to_another_instruction(
    bound: dict[str, Any], output: dict[str, Any], reason: str | None
) -> None:
    assert _routed({"router": "threshold", "key": "output.confidence", **bound}, output) == reason


@pytest.mark.parametrize(
    ("key", "equals", "output", "reason"),
    [
        ("output.result", "FAIL", {"result": "FAIL"}, 'output.result is "FAIL".'),
        ("output.result", "FAIL", {"result": "PASS"}, None),
        ("output.is_productive", False, {"is_productive": False}, "output.is_productive is false."),
        ("output.is_productive", False, {"is_productive": 0}, None),
        ("output.a.b", 1, {"a": {"b": 1}}, "output.a.b is 1."),
        ("output.a.b", 1, {"a": [1]}, "output.a.b was not reported."),
        ("input.a", 1, {"a": 1}, "input.a was not reported."),
    ],
)
def test_a_reported_value_leads_to_another_instruction(
    key: str, equals: Any, output: dict[str, Any], reason: str | None
) -> None:
    assert _routed({"router": "value", "key": key, "equals": equals}, output) == reason


def test_a_pending_next_refuses_everything_else() -> None:
    router = {"id": "r", "router": "value", "on": "VERIFY", "key": "output.result", "equals": "FAIL"}
    workflow = document(routers=[{**router, "to": "GENERATE"}])
    fold = walk(workflow, "GENERATE", ("VERIFY", {"result": "FAIL"}))
    assert check(workflow, fold, "PROPOSE") == [("next", VIOLATION)]
    # The graph has no edge from VERIFY to GENERATE: the router makes the way.
    assert check(workflow, fold, "GENERATE") == []
    assert walk(workflow, "GENERATE", ("VERIFY", {"result": "FAIL"}), "GENERATE").pending is None


def test_what_must_be_validated_is_until_it_passes() -> None:
    router = {"id": "bounds", "router": "validate", "on": "GENERATE", "by": "VERIFY"}
    workflow = document(routers=[router])
    for output in ({}, {"result": "fine"}):
        fold = walk(workflow, "GENERATE", ("VERIFY", output))
        assert fold.pending is not None
        assert fold.pending.instruction == "VERIFY"
        assert check(workflow, fold, "PROPOSE") == [("next", VIOLATION)]
    passed = walk(workflow, "GENERATE", "VERIFY", ("VERIFY", {"result": "PASS"}))
    assert passed.pending is None
    elsewhere = document(routers=[{**router, "on_fail": "GENERATE"}])
    failed = walk(elsewhere, "GENERATE", ("VERIFY", {"result": "FAIL"})).pending
    assert failed is not None
    assert failed.instruction == "GENERATE"
    person = walk(workflow, "GENERATE", ("VERIFY", {"result": "FAIL"}))
    assert steps.calls_person(person)


@pytest.mark.parametrize(
    ("require", "output", "reason"),
    [
        ("output.alpha < 1.0", {"alpha": 0.5}, None),
        ("output.alpha < 1.0", {"alpha": 2.5}, "bounds does not hold."),
        ("output.alpha < 1.0", {}, "bounds could not be evaluated: "),
        ("input.wanted == output.alpha", {}, "bounds could not be evaluated: "),
    ],
)
def test_the_runtime_validates_by_itself(require: str, output: dict[str, Any], reason: str | None) -> None:
    router = {"id": "bounds", "router": "validate", "on": "GENERATE", "require": require}
    pending = walk(document(routers=[router]), ("GENERATE", output)).pending
    if reason is None:
        assert pending is None
        return
    assert pending is not None
    assert (pending.instruction, pending.policy) == ("INTERRUPT", "bounds")
    assert pending.reason.startswith(reason)
    elsewhere = walk(document(routers=[{**router, "on_fail": "VERIFY"}]), ("GENERATE", output)).pending
    assert elsewhere is not None
    assert elsewhere.instruction == "VERIFY"


CALLS = {
    "id": "unsure",
    "router": "value",
    "on": "GENERATE",
    "key": "output.sure",
    "equals": False,
    "to": "INTERRUPT",
}


def test_a_called_person_says_how_the_flow_continues() -> None:
    workflow = document(routers=[CALLS])
    fold = walk(workflow, ("GENERATE", {"sure": False}))
    assert steps.calls_person(fold)
    for name in (*workflow.instructions, "INTERRUPT", "DREAM"):
        assert check(workflow, fold, name) == [("next", "AWAITING_HUMAN_INPUT")]
    resumed = steps.resume(fold)
    assert not steps.calls_person(resumed)
    assert check(workflow, resumed, "VERIFY") == []
    assert check(workflow, resumed, "PROPOSE") == [("graph", VIOLATION)]
    redirected = steps.redirect(fold, "PROPOSE")
    assert check(workflow, redirected, "PROPOSE") == []
    assert check(workflow, redirected, "VERIFY") == [("next", VIOLATION)]
    assert redirected.pending is not None
    assert redirected.pending.policy == "unsure"
    lifted = steps.redirect(resumed, "VERIFY").pending
    assert lifted is not None
    assert lifted.policy == "next"


def test_a_redirect_to_what_validates_still_has_to_pass() -> None:
    router = {"id": "bounds", "router": "validate", "on": "GENERATE", "by": "VERIFY"}
    workflow = document(routers=[router])
    fold = steps.redirect(walk(workflow, "GENERATE", ("VERIFY", {"result": "FAIL"})), "VERIFY")
    again = ReportedStep(instruction="VERIFY", core=workflow.instructions["VERIFY"].core)
    pending = steps.take(workflow, fold, again, now_ms=0).pending
    assert pending is not None
    assert pending.instruction == "VERIFY"


def test_a_person_allows_one_step_with_one_input() -> None:
    ready = {"id": "ready", "checker": "state", "on": "VERIFY", "require": "input.ready"}
    workflow = document(checkers=[{**ready, "on_fail": "ESCALATE"}, {**ready, "id": "strict"}])
    asked, given = walk(workflow, "GENERATE"), {"ready": False}
    permit = AllowedStep(
        instruction="VERIFY", input_digest=steps.input_digest(given), policies=("ready", "strict")
    )
    allowed = steps.allow(asked, permit)
    # What does not leave it to a person refuses as before, named or not.
    assert check(workflow, allowed, "VERIFY", given=given) == [("strict", VIOLATION)]
    both = [("ready", VIOLATION), ("strict", VIOLATION)]
    assert check(workflow, allowed, "VERIFY", given={"ready": False, "more": 1}) == both
    other = permit.model_copy(update={"instruction": "GENERATE"})
    assert check(workflow, steps.allow(asked, other), "VERIFY", given=given) == both
    unnamed = permit.model_copy(update={"policies": ("strict",)})
    assert check(workflow, steps.allow(asked, unnamed), "VERIFY", given=given) == both
    step = ReportedStep(instruction="VERIFY", core=workflow.instructions["VERIFY"].core, input=given)
    assert steps.take(workflow, allowed, step, now_ms=0).allowed is None


def test_a_permit_is_in_the_bytes_of_a_fold_only_where_there_is_one() -> None:
    fold = walk(document(), "GENERATE")
    assert "allowed" not in fold.model_dump(mode="json")
    permit = AllowedStep(instruction="VERIFY", input_digest="0" * 64, policies=("ready",))
    assert WorkflowFold.from_bytes(steps.allow(fold, permit).to_bytes()).allowed == permit


@pytest.mark.parametrize(
    ("instruction", "on_fail", "expected"),
    [
        ("VERIFY", [OnFail.ESCALATE, OnFail.ESCALATE], True),
        ("VERIFY", [OnFail.ESCALATE, OnFail.REJECT], False),
        ("PROPOSE", [OnFail.ESCALATE], False),
    ],
)
def test_a_person_may_allow_what_every_objection_leaves_to_one(
    instruction: str, on_fail: list[OnFail], expected: bool
) -> None:
    objections = [steps.Objection(f"c{at}", "No.", one) for at, one in enumerate(on_fail)]
    assert steps.may_be_allowed(instruction, objections) is expected


def test_only_the_refusal_of_what_is_demanded_is_a_deadlock() -> None:
    workflow = document(routers=[{**CALLS, "to": "VERIFY"}])
    fold = walk(workflow, ("GENERATE", {"sure": False}))
    against = [steps.Objection("ready", "no")]
    assert steps.is_deadlocked(fold, "VERIFY", against)
    assert not steps.is_deadlocked(fold, "TOOL_CALL", against)
    assert not steps.is_deadlocked(fold, "VERIFY", [])
    assert not steps.is_deadlocked(fold, "VERIFY", [steps.Objection("r", "wait", code=Reason.RATE_LIMITED)])
    assert not steps.is_deadlocked(walk(workflow, "GENERATE", "VERIFY"), "VERIFY", against)


def test_no_router_acts_once_the_flow_has_proposed() -> None:
    workflow = document(routers=[CALLS])
    step = ReportedStep(
        instruction="GENERATE", core=workflow.instructions["GENERATE"].core, output={"sure": False}
    )
    fold = steps.take(workflow, steps.begin(workflow), step, now_ms=0, routes=False)
    assert (fold.position, fold.pending) == ("GENERATE", None)


def test_what_interrupts_has_an_impact_and_a_time() -> None:
    plain = document()
    assert (plain.impact, plain.sla_s) == (Impact.HIGH_IMPACT, None)
    # A workflow from before has the bytes that it had.
    assert b"impact" not in plain.to_bytes()
    light = document(impact="LOW_IMPACT", sla_s=60)
    assert WorkflowDocument.from_bytes(light.to_bytes()) == light
