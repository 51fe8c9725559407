"""What the linter proves of tables: overlaps, rules that never fire, and inputs that no rule covers."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contracts.ruleset import HitPolicy, RulesetDocument
from runtime.kernel.rulesets import coverage, evaluate
from tests.kernel.test_ruleset_tables import INPUTS, ROWS, VALUES, rows
from tests.support.ruleset_cases import compiled, document, row, table

MANY = 1_000


def said(one: dict[str, Any]) -> list[tuple[str, int | None]]:
    """The codes of a table's findings, each with the rule that it is about."""
    return [(finding.code, finding.rule) for finding in coverage.inspect(compiled(one), most=MANY)]


@pytest.mark.parametrize(
    ("cells", "kind", "found"),
    [
        (["< 5", ">= 5"], "score", []),
        (["<= 5", ">= 5"], "score", [("OVERLAP", 1)]),
        (["< 5", "> 5"], "score", [("GAP", None)]),
        # No integer lies between 4 and 5, but a number does.
        (["<= 4", ">= 5"], "score", []),
        (["<= 4", ">= 5"], "rate", [("GAP", None)]),
        (["< 4.5", "> 4.5"], "score", []),
        (["(4..5)", "-"], "score", [("UNREACHABLE", 0)]),
        (["not(true, false)", "-"], "member", [("UNREACHABLE", 0)]),
        (["true", "false"], "member", []),
        (["north", "not(north)"], "region", []),
        (["north", "south"], "region", [("GAP", None)]),
        (["north", "-"], "region", [("OVERLAP", 1)]),
        (["? == 'x'", "-"], "region", [("NOT_KNOWN", None)]),
        (["? == 'x'", "north", "north"], "region", [("OVERLAP", 2), ("NOT_KNOWN", None)]),
    ],
)
def test_a_unique_table(cells: list[str], kind: str, found: list[tuple[str, int | None]]) -> None:
    assert said(table(*[row(f"R{at}", cell) for at, cell in enumerate(cells)], inputs=[kind])) == found


def test_rules_of_an_any_table_overlap_where_they_say_different_things() -> None:
    rules = [row("A", "> 1"), row("B", "> 2"), row("C", "-", params={"n": 1})]
    assert said(table(*rules, hit="ANY")) == [("OVERLAP", 2), ("OVERLAP", 2)]


@pytest.mark.parametrize("hit", ["COLLECT", "RULE ORDER"])
def test_where_all_rules_count_none_covers_another(hit: str) -> None:
    assert said(table(row("A", "-"), row("B", "1"), hit=hit)) == []


def test_a_rule_after_those_that_cover_it_never_fires_in_a_first_table() -> None:
    rules = [row("A", "< 5"), row("B", ">= 5"), row("C", "[3..8]"), row("D", "? > 1")]
    assert said(table(*rules, hit="FIRST")) == [("UNREACHABLE", 2), ("NOT_KNOWN", None)]
    # What CEL allows is not known, so it covers nothing.
    assert said(table(row("A", "? > 1"), row("B", "1"), row("C", "-"), hit="FIRST")) == [("NOT_KNOWN", None)]


def test_a_rule_below_those_that_cover_it_never_fires_in_a_priority_table() -> None:
    rules = [row("A", "1"), row("B", "-", action="STOP"), row("C", "2", action="STOP")]
    found = said(table(*rules, hit="PRIORITY", output_values=["STOP", "GO"]))
    assert found == [("UNREACHABLE", 0), ("UNREACHABLE", 2)]
    assert said(table(*rules, hit="PRIORITY", output_values=["GO", "STOP"])) == [("UNREACHABLE", 2)]


def test_the_message_names_what_it_is_about() -> None:
    rules = [row("A", "1", "north"), row("B", "1", "-"), row("C", "(0..1)", "-")]
    found = coverage.inspect(compiled(table(*rules, inputs=["score", "region"])), most=MANY)
    assert [finding.message for finding in found] == [
        "C can never fire: its cells exclude each other",
        "A and B can both match, and the hit policy is UNIQUE",
        "no rule matches for example score -1",
    ]


def test_an_example_of_a_gap_names_every_column_that_it_needs() -> None:
    rules = [row("A", "1", "-"), row("B", "-", "north")]
    found = [*coverage.inspect(compiled(table(*rules, inputs=["score", "region"], hit="ANY")), most=MANY)]
    assert [finding.message for finding in found] == ["no rule matches for example score 0, region 'other'"]


def test_of_each_sort_there_is_a_bounded_number() -> None:
    rules = [row(f"R{at}", "-") for at in range(10)]
    found = [finding.code for finding in coverage.inspect(compiled(table(*rules)), most=3)]
    assert found == ["OVERLAP"] * 3


@pytest.mark.parametrize("hit", ["FIRST", "UNIQUE"])
def test_a_proof_that_takes_too_long_stays_open(hit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "MAX_PARTS", 1)
    rules = [row("A", "< 1", "-"), row("B", ">= 1", "-")]
    rules += [row("C", "1", "north")] if hit == "FIRST" else []
    found = said(table(*rules, inputs=["score", "region"], hit=hit))
    assert found == [("NOT_KNOWN", None)]


POLICIES = st.sampled_from([HitPolicy.FIRST, HitPolicy.PRIORITY, HitPolicy.UNIQUE, HitPolicy.ANY])
ACTIONS = ("GO", "STOP", "ASK")


# 500 of them here; 10,000 with `--hypothesis-profile long`, which takes minutes.
@settings(max_examples=5 * settings().max_examples, deadline=None)
@given(
    cells=ROWS,
    hit=POLICIES,
    actions=st.lists(st.sampled_from(ACTIONS), min_size=8, max_size=8),
    values=VALUES,
)
def test_what_the_linter_says_is_so(
    cells: list[tuple[str, ...]], hit: HitPolicy, actions: list[str], values: dict[str, Any]
) -> None:
    ruled = [{**one, "then": {"action": actions[at]}} for at, one in enumerate(rows(cells))]
    order = {"output_values": list(ACTIONS)} if hit is HitPolicy.PRIORITY else {}
    ruleset = document(table(*ruled, inputs=INPUTS, hit=hit, **order))
    one = compiled(table(*ruled, inputs=INPUTS, hit=hit, **order))
    found = list(coverage.inspect(one, most=MANY))
    matching = one.matching(values)
    # A rule that can never fire never counts.
    never = {f"R{finding.rule}" for finding in found if finding.code == "UNREACHABLE"}
    counted = {match.rule_id for match in evaluate.evaluate(ruleset, values).matches}
    assert not never & counted
    # Rules of the cells alone that overlap are named, and where none is named, none overlap.
    plain = [at for at in matching if not any("?" in cell for cell in cells[at])]
    overlaps = {finding.message for finding in found if finding.code == "OVERLAP"}
    for first, second in itertools.combinations(plain, 2):
        if hit is HitPolicy.UNIQUE or (hit is HitPolicy.ANY and actions[first] != actions[second]):
            assert f"R{first} and R{second} can both match, and the hit policy is {hit}" in overlaps
    # Where inputs have no rule, a gap is found, unless cells in CEL may cover it.
    if not matching and not any("?" in cell for when in cells for cell in when):
        assert "GAP" in {finding.code for finding in found}
    # What is stored of it is judged again, byte for byte.
    stored = RulesetDocument.from_bytes(ruleset.to_bytes())
    assert evaluate.evaluate(stored, values).to_bytes() == evaluate.evaluate(ruleset, values).to_bytes()
