"""The linter of workflows: one test for each of its codes, and none for what is well."""

from typing import Any

import pytest

from runtime.contracts.lint_severity import LintSeverity
from runtime.kernel.workflows import linter
from tests.support.workflow_story import RESEARCH, SEQUENCE, document

INSTRUCTIONS = RESEARCH["instructions"]
EDGES = RESEARCH["edges"]
VALUE = {"id": "v", "router": "value", "on": "VERIFY", "key": "output.result", "equals": "FAIL"}
BELOW = {"id": "t", "router": "threshold", "on": "VERIFY", "key": "output.result", "to": "TOOL_CALL"}


def codes(**changes: Any) -> list[str]:
    """The codes of what is wrong, each once."""
    return sorted({finding.code.value for finding in linter.lint(document(**changes))})


def test_a_good_workflow_has_no_findings() -> None:
    assert codes(checkers=[SEQUENCE]) == []


def test_an_instruction_that_nothing_leads_to() -> None:
    lost = {**INSTRUCTIONS, "REPLAN": {"core": "METACOGNITIVE"}}
    assert codes(instructions=lost, edges=[*EDGES, ["REPLAN", "GENERATE"]]) == ["UNREACHABLE"]
    # A router leads there as an edge does.
    router = {**VALUE, "to": "REPLAN"}
    assert codes(instructions=lost, edges=[*EDGES, ["REPLAN", "PROPOSE"]], routers=[router]) == []


def test_an_instruction_that_leads_to_no_end() -> None:
    trap = {**INSTRUCTIONS, "TRAP": {"core": "MEMORY"}}
    assert codes(instructions=trap, edges=[*EDGES, ["VERIFY", "TRAP"]]) == ["NO_END"]


def test_a_path_that_a_sequence_refuses_is_named() -> None:
    (found,) = linter.lint(document(edges=[*EDGES, ["GENERATE", "PROPOSE"]], checkers=[SEQUENCE]))
    assert (found.code, found.severity) == (linter.LintCode.FORBIDDEN_PATH, LintSeverity.ERROR)
    assert found.message == "think_then_verify refuses PROPOSE on the path GENERATE > PROPOSE"


def test_a_cycle_that_nothing_bounds() -> None:
    assert codes(edges=[*EDGES, ["VERIFY", "GENERATE"]]) == ["UNBOUNDED_CYCLE"]


@pytest.mark.parametrize(
    "changes",
    [
        {"start": "DREAM"},
        {"ends": ["PROPOSE", "DREAM"]},
        {"edges": [*EDGES, ["VERIFY", "DREAM"]]},
        {"checkers": [{"id": "c", "checker": "rate", "on": "DREAM", "times": 1, "per_s": 1}]},
        {"checkers": [{"id": "c", "checker": "precedes", "on": "VERIFY", "by": "DREAM"}]},
        {"routers": [{**VALUE, "on": "DREAM", "to": "VERIFY"}]},
        {"routers": [{**VALUE, "to": "DREAM"}]},
        {"routers": [{"id": "r", "router": "validate", "on": "GENERATE", "by": "DREAM"}]},
        {
            "routers": [
                {"id": "r", "router": "validate", "on": "GENERATE", "by": "VERIFY", "on_fail": "DREAM"}
            ]
        },
    ],
)
def test_what_names_nothing(changes: dict[str, Any]) -> None:
    assert codes(**changes) == ["UNKNOWN_INSTRUCTION"]


def test_only_a_router_calls_a_person() -> None:
    validate = {"id": "r", "router": "validate", "on": "GENERATE", "require": "output.ok"}
    for router in ({**VALUE, "to": "INTERRUPT"}, validate, {**validate, "on_fail": "INTERRUPT"}):
        assert codes(routers=[router]) == []
    (found,) = linter.lint(document(edges=[*EDGES, ["VERIFY", "INTERRUPT"]]))
    assert found.message.startswith("INTERRUPT calls a person; only")
    assert found.place == ("edges", 4, 1)
    named = {**INSTRUCTIONS, "INTERRUPT": {"core": "MEMORY"}}
    assert "RESERVED_NAME" in codes(instructions=named, edges=[*EDGES, ["VERIFY", "INTERRUPT"]])


def test_an_expression_of_a_validation_reads_the_step() -> None:
    router = {"id": "r", "router": "validate", "on": "GENERATE"}
    assert codes(routers=[{**router, "require": "input.x == output.x"}]) == []
    (found,) = linter.lint(document(routers=[{**router, "require": "history.last.core == 'MEMORY'"}]))
    assert found.place == ("routers", 0, "require")
    assert found.message == "history is not known here; use input or output"


@pytest.mark.parametrize(
    ("one", "other", "ambiguous"),
    [
        ({**VALUE, "to": "PROPOSE"}, {**VALUE, "id": "w", "equals": "OLD", "to": "TOOL_CALL"}, False),
        ({**VALUE, "to": "PROPOSE"}, {**VALUE, "id": "w", "to": "TOOL_CALL"}, True),
        ({**VALUE, "to": "PROPOSE"}, {**VALUE, "id": "w", "key": "output.x", "to": "TOOL_CALL"}, True),
        ({**VALUE, "to": "PROPOSE"}, {**BELOW, "below": 1}, False),
        ({**VALUE, "equals": 0, "to": "PROPOSE"}, {**BELOW, "below": 1}, True),
        ({**BELOW, "above": 1}, {**VALUE, "equals": 0, "to": "PROPOSE"}, False),
        ({**BELOW, "above": 1}, {**VALUE, "equals": 2, "to": "PROPOSE"}, True),
        ({**BELOW, "below": 1}, {**BELOW, "id": "u", "above": 1}, False),
        ({**BELOW, "above": 1}, {**BELOW, "id": "u", "below": 1}, False),
        ({**BELOW, "above": 0}, {**BELOW, "id": "u", "below": 1}, True),
        ({**BELOW, "below": 2}, {**BELOW, "id": "u", "below": 1}, True),
        ({**BELOW, "below": 2}, {"id": "u", "router": "validate", "on": "VERIFY", "by": "TOOL_CALL"}, True),
    ],
)
def test_two_routers_that_can_both_match(one: dict[str, Any], other: dict[str, Any], ambiguous: bool) -> None:
    found = [item for item in linter.lint(document(routers=[one, other])) if item.code == "AMBIGUOUS_ROUTERS"]
    assert [item.severity.value for item in found] == (["warning"] if ambiguous else [])


def test_a_router_that_demands_what_a_sequence_refuses() -> None:
    router = {"id": "r", "router": "value", "on": "GENERATE", "key": "output.x", "equals": 1, "to": "PROPOSE"}
    (found,) = linter.lint(document(routers=[router], checkers=[SEQUENCE]))
    assert (found.code.value, found.severity.value) == ("POLICY_DEADLOCK", "warning")
    validate = {"id": "r", "router": "validate", "on": "GENERATE", "by": "TOOL_CALL", "on_fail": "VERIFY"}
    assert "POLICY_DEADLOCK" in codes(routers=[validate], checkers=[SEQUENCE])


@pytest.mark.parametrize(
    ("require", "said"),
    [
        ("1 +", "cannot be read"),
        ("params.x == 1", "params is not known here"),
        ("input.a.exists(x, x == 1)", "macros"),
    ],
)
def test_a_condition_that_cannot_be_asked(require: str, said: str) -> None:
    checkers = [
        {"id": "s", "checker": "state", "on": "VERIFY", "require": require},
        {"id": "p", "checker": "precedes", "on": "VERIFY", "by": "GENERATE"},
    ]
    (found,) = linter.lint(document(checkers=checkers))
    assert found.code.value == "INVALID_EXPRESSION"
    assert said in found.message
