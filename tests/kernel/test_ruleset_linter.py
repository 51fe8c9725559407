"""What the linter says of a ruleset: errors that keep it from being stored, and what is good to know."""

from typing import Any

import pytest
from pydantic import ValidationError

from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.ruleset import RulesetDocument
from runtime.kernel.rulesets import linter
from tests.support.ruleset_cases import FEATURES, document, row, rule, table


def said(ruleset: RulesetDocument) -> list[tuple[str, str]]:
    """The codes of all findings, each with its place; once, where several sentences say why."""
    found = [(finding.code.value, finding.where) for finding in linter.lint(ruleset)]
    return list(dict.fromkeys(found))


ALL = table(row("A", "< 0"), row("B", ">= 0"))


def test_a_ruleset_in_order_has_no_findings() -> None:
    ruleset = document(ALL, rules=[rule("P", "features.score > 1")])
    assert linter.lint(ruleset) == ()
    assert linter.errors(ruleset) == ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("params.score", None),
        ("context.facts.score", None),
        ("[1, 2].exists(x, x == params.score)", None),
        ("receipt.score", "the names receipt are not known here"),
        ("a + b", "the names a, b are not known here"),
        ("params.", "the expression cannot be read"),
    ],
)
def test_how_the_gate_reads_a_feature_may_use_the_names_of_rules(value: str, message: str | None) -> None:
    ruleset = document(ALL, features={**FEATURES, "read": {"type": "integer", "value": value}})
    found = [(one.code, one.where, one.message) for one in linter.lint(ruleset)]
    assert found == ([("BAD_EXPRESSION", "features.read.value", message)] if message else [])


def test_ids_of_rules_and_names_of_tables_are_given_once() -> None:
    ruleset = document(
        ALL,
        table(row("B", "-"), name="t"),
        rules=[rule("P", "true"), rule("G", "true")],
        guardrails=[{"id": "G", "forbid": "false"}],
    )
    assert said(ruleset) == [
        ("DUPLICATE_ID", "tables[0].rules[1].id"),
        ("DUPLICATE_ID", "tables[1].rules[0].id"),
        ("DUPLICATE_ID", "rules[1].id"),
        ("DUPLICATE_ID", "guardrails[0].id"),
        ("DUPLICATE_ID", "tables[0].table"),
        ("DUPLICATE_ID", "tables[1].table"),
    ]
    assert linter.lint(ruleset)[0].message == "B is the id of 2 rules"
    assert linter.lint(ruleset)[-1].message == "t is the name of 2 tables"


def test_what_is_decided_is_among_the_aspects_and_each_of_them_is_decided() -> None:
    ruleset = document(ALL, rules=[{**rule("P", "true"), "decides": "b"}], aspects=["b", "c"])
    assert said(ruleset) == [("UNKNOWN_ASPECT", "tables[0].decides"), ("UNDECIDED_ASPECT", "aspects[1]")]
    assert [finding.severity for finding in linter.lint(ruleset)] == [
        LintSeverity.ERROR,
        LintSeverity.WARNING,
    ]
    assert [finding.code for finding in linter.errors(ruleset)] == ["UNKNOWN_ASPECT"]


def test_inputs_are_features() -> None:
    ruleset = document(table(row("A", "1", "? > 2"), inputs=["score", "colour"]))
    assert said(ruleset) == [("UNKNOWN_FEATURE", "tables[0].inputs[1]")]


def test_a_rule_has_a_cell_for_each_input_that_can_be_read() -> None:
    ruleset = document(
        table(row("A", "1"), row("B", "1.5", "north"), row("C", "? +", "-"), inputs=["score", "region"])
    )
    assert said(ruleset) == [
        ("WRONG_WIDTH", "tables[0].rules[0].when"),
        ("BAD_CELL", "tables[0].rules[1].when[0]"),
        ("BAD_CELL", "tables[0].rules[2].when[0]"),
    ]
    first, second, _ = linter.lint(ruleset)
    assert first.message == "there are 1 cells for 2 inputs"
    assert second.message == "'1.5' cannot be read: 1.5 is no integer, and no other test of one"


def test_a_priority_table_names_every_action_that_it_gives() -> None:
    ruleset = document(table(*ALL["rules"], hit="PRIORITY", output_values=["STOP"]))
    assert said(ruleset) == [
        ("BAD_OUTPUT", "tables[0].rules[0].then.action"),
        ("BAD_OUTPUT", "tables[0].rules[1].then.action"),
    ]


@pytest.mark.parametrize(
    ("collect", "params", "action", "places"),
    [
        ("sum", {"n": 1.5}, "GO", []),
        ("count", {}, "GO", []),
        ("sum", {}, "GO", ["then.params"]),
        ("min", {"n": True}, "GO", ["then.params"]),
        ("max", {"n": "1"}, "STOP", ["then.action", "then.params"]),
        ("count", {}, "STOP", ["then.action"]),
    ],
)
def test_a_collected_number_is_of_one_action_and_in_every_rule(
    collect: str, params: dict[str, Any], action: str, places: list[str]
) -> None:
    rules = [row("A", "< 0", params={"n": 1}), row("B", ">= 0", params=params, action=action)]
    ruleset = document(table(*rules, hit="COLLECT", collect=collect, of="n"))
    assert said(ruleset) == [("BAD_OUTPUT", f"tables[0].rules[1].{place}") for place in places]


@pytest.mark.parametrize(
    ("value", "is_exact"),
    [
        (2**53 - 1, True),
        (1e15, True),
        ({"deep": [1, "text", None, True]}, True),
        (1e17, False),
        (-1e300, False),
        ({"deep": [1, 1e16]}, False),
    ],
)
def test_numbers_in_parameters_are_exact_for_every_reader(value: Any, is_exact: bool) -> None:
    rows = [row("A", "< 0", params={"n": value}), row("B", ">= 0")]
    ruleset = document(table(*rows), rules=[rule("P", "features.score > 1", params={"n": value})])
    places = ["tables[0].rules[0].then.params", "rules[0].then.params"]
    assert said(ruleset) == ([] if is_exact else [("BAD_OUTPUT", place) for place in places])


def test_what_is_proved_of_a_table_stands_at_its_place() -> None:
    ruleset = document(table(row("A", "> 1"), row("B", "> 2"), row("C", "(0..1)"), row("D", "? > 4")))
    assert [(one.code, one.severity, one.where) for one in linter.lint(ruleset)] == [
        ("UNREACHABLE", "warning", "tables[0].rules[2]"),
        ("OVERLAP", "warning", "tables[0].rules[1]"),
        ("NOT_KNOWN", "info", "tables[0]"),
    ]
    assert linter.errors(ruleset) == ()
    assert said(document(table(row("A", "1")))) == [("GAP", "tables[0]")]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("features.score > 1", None),
        ("features.colour == 'red'", "UNKNOWN_FEATURE"),
        ("params.score > 1", "BAD_EXPRESSION"),
        ("features.score >", "BAD_EXPRESSION"),
    ],
)
def test_expressions_read_features_and_nothing_else(source: str, code: str | None) -> None:
    rules = document(ALL, rules=[rule("P", source)])
    assert said(rules) == ([(code, "rules[0].when")] if code else [])
    guards = document(ALL, guardrails=[{"id": "G", "forbid": source}])
    assert said(guards) == ([(code, "guardrails[0].forbid")] if code else [])


def test_a_cell_in_cel_reads_its_input_and_features() -> None:
    def cell(text: str) -> list[tuple[str, str]]:
        ruleset = document(table(row("A", text), row("B", "-"), hit="FIRST"))
        return [one for one in said(ruleset) if one[0] != "NOT_KNOWN"]

    place = "tables[0].rules[0].when[0]"
    assert cell("? % 2 == 0 && features.region == 'x'") == []
    assert cell("? % 2 == 0 && features.colour == 'x'") == [("UNKNOWN_FEATURE", place)]
    assert cell("? > params.score") == [("BAD_EXPRESSION", place)]


def test_expressions_together_take_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linter, "MAX_TOTAL_WORK", 1)
    ruleset = document(ALL, rules=[rule("P", "features.score > 1")])
    (finding,) = linter.lint(ruleset)
    assert (finding.code, finding.where, finding.severity) == ("TOO_SLOW", "", LintSeverity.ERROR)
    assert "write more of them as cells" in finding.message


@pytest.mark.parametrize(
    ("body", "said_of_it"),
    [
        ({"tables": [table(row("A", "1"), hit="PRIORITY")]}, "output_values belongs"),
        ({"tables": [table(row("A", "1"), output_values=["GO"])]}, "output_values belongs"),
        ({"tables": [table(row("A", "1"), collect="sum", of="n")]}, "collect belongs"),
        ({"tables": [table(row("A", "1"), hit="COLLECT", collect="sum")]}, "of names the parameter"),
        ({"tables": [table(row("A", "1"), hit="COLLECT", of="n")]}, "of names the parameter"),
        ({"tables": []}, "needs tables, rules, guardrails or policies"),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(body: dict[str, Any], said_of_it: str) -> None:
    with pytest.raises(ValidationError, match=said_of_it):
        document(*body["tables"])


def test_a_cell_that_yaml_read_as_a_number_or_a_truth_is_the_literal_it_looks_like() -> None:
    ruleset = RulesetDocument.model_validate(
        {
            "ruleset": "cases",
            "version": "1.0.0",
            "features": FEATURES,
            "tables": (
                table(
                    {**row("A"), "when": (5, 0.5, True, False)}, inputs=("score", "rate") + ("member",) * 2
                ),
            ),
        },
        strict=False,
    )
    assert ruleset.tables[0].rules[0].when == ("5", "0.5", "true", "false")
    assert ruleset.name == "cases@1.0.0"
