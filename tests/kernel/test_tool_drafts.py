"""The draft of a kind that a pinned tool becomes, and the calls that a step of a tool renders."""

from typing import Any

import pytest
from pydantic import ValidationError

from audit import canonical
from runtime.contracts.facts import ToolFacts
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.tool import ToolDefinition
from runtime.kernel import tool_drafts
from runtime.kernel.gate import calls
from runtime.kernel.rules import kind_linter
from runtime.kernel.rules.language import ExpressionError
from tests.support import gate_cases


def tool(name: str = "get.time/now", **members: Any) -> ToolDefinition:
    given = {"name": name, "description": "Gets it.", "input_schema": {"type": "object"}, **members}
    return ToolDefinition.from_bytes(canonical.encode(given))


def kind(drafted: dict[str, Any]) -> KindDocument:
    return KindDocument.from_bytes(canonical.encode(drafted))


@pytest.mark.parametrize(
    ("server", "name", "kind_name"),
    [
        ("clock", "get.time/now", "CLOCK_GET_TIME_NOW"),
        ("3d", "cut", "TOOL_3D_CUT"),
        ("a" * 64, "b", "A" * 64),
    ],
)
def test_a_draft_has_a_name_that_kinds_may_have(server: str, name: str, kind_name: str) -> None:
    assert tool_drafts.kind_name(server, name) == kind_name
    assert kind(tool_drafts.draft(server, tool(name))).kind == kind_name


def test_a_draft_asks_a_person_and_repeats_nothing() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "zone": {"type": "string", "maxLength": 40},
            "list": {"type": "array", "maxItems": 3},
            "odd name": {"type": "string", "maxLength": 4},
            "any": True,
        },
        "required": ["zone", "list", "odd name", "any", "missing"],
    }
    drafted = kind(tool_drafts.draft("clock", tool(input_schema=schema, output_schema={"type": "object"})))
    assert kind_linter.lint_kind(drafted) == ()
    assert drafted.effect == "Call get.time/now of clock with zone {zone}"
    assert (drafted.impact, drafted.approval_mode, drafted.on_unknown) == (
        "'HIGH_IMPACT'",
        "person",
        "person",
    )
    assert [route.action for route in drafted.routes] == ["CLOSE"]
    assert drafted.tools == (("clock", "get.time/now"),)
    assert drafted.steps[0].receipt_schema == {"type": "object"}


def test_a_tool_without_words_or_lists_makes_a_draft() -> None:
    odd = tool(description=" ", input_schema={"properties": [], "required": "all"})
    drafted = tool_drafts.draft("clock", odd)
    assert "description" not in drafted
    assert drafted["effect"] == "Call get.time/now of clock"
    assert "receipt_schema" not in drafted["steps"][0]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"executor": "mcp", "target": "notes"}, "needs tool"),
        ({"target": "notes", "request": {"path": "/"}, "tool": {"name": "add"}}, "needs tool"),
        ({"executor": "mcp", "tool": {"name": "add"}}, "needs the target"),
        ({"executor": "mcp", "target": "n", "tool": {"name": "a"}, "probe": {"path": "/${key}"}}, "has undo"),
    ],
)
def test_a_step_of_a_tool_is_one_of_a_tool(step: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        gate_cases.kind(steps=[{"id": "call", **step}])


def step(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "executor": "mcp", "target": "notes", "tool": {"name": name, **fields}}


def test_a_kind_with_a_tool_never_sends_again_and_can_turn_back() -> None:
    resends = gate_cases.kind(steps=[step("add")], on_unknown="probe")
    assert [problem.place[0] for problem in kind_linter.lint_kind(resends)] == ["on_unknown"]
    stuck = gate_cases.kind(steps=[step("add"), step("send")], on_unknown="person")
    assert ["a tool that is its undo" in problem.message for problem in kind_linter.lint_kind(stuck)] == [
        True
    ]
    undone = gate_cases.kind(
        steps=[step("add", undo={"name": "remove", "arguments": "{'undoes': key}"}), step("send")],
        on_unknown="person",
    )
    assert kind_linter.lint_kind(undone) == ()
    assert undone.tools == (("notes", "add"), ("notes", "remove"), ("notes", "send"))


@pytest.mark.parametrize("arguments", ["'text'", "{'big': 9007199254740991 + 2}", "{'no': params.nothing}"])
def test_arguments_that_are_no_map_of_plain_values_reject(arguments: str) -> None:
    rules = gate_cases.rules(kind=gate_cases.kind(steps=[step("add", arguments=arguments)]))
    facts = gate_cases.facts(tools=(ToolFacts(server="notes", tool="add", pinned="ab" * 32),))
    found = gate_cases.judge(rules=rules, facts=facts)
    assert gate_cases.codes(found.reasons) == ["RENDERING_FAILED"]


def test_arguments_that_json_would_not_keep_are_not_rendered() -> None:
    whole = gate_cases.kind(steps=[step("add")])
    with pytest.raises(ExpressionError):
        calls.render(whole, gate_cases.proposal(params={"big": 2.0**60}), gate_cases.case().names)
