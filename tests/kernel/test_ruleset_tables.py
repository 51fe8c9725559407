"""Compiled decision tables, beside a naive reading of them: every cell by itself, with plain comparisons."""

import operator
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contracts.ruleset import FeatureType, RulesetDocument
from runtime.kernel.rulesets import tables
from runtime.kernel.rulesets.cells import CellError
from runtime.kernel.rulesets.tables import CellFailedError
from tests.support import ruleset_cases
from tests.support.ruleset_cases import compiled, row, table

# Cells of each feature. The numbers are few, so that cells meet at their bounds.
WHOLE = st.integers(-3, 3).map(str)
DECIMAL = st.sampled_from(["-2.5", "-1", "0", "0.5", "1e0", "2.25"])
NAMES = st.sampled_from(["north", "'north'", '"south"', "''", "'a, b'"])
TRUTHS = st.sampled_from(["true", "false"])


def _numeric(numbers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    compared = st.builds("{}{}".format, st.sampled_from(["<", "<= ", ">", ">= "]), numbers)
    pairs = st.tuples(numbers, numbers).filter(lambda pair: float(pair[0]) < float(pair[1]))
    between = st.builds(
        lambda pair, first, last: f"{first}{pair[0]}..{pair[1]}{last}",
        pairs,
        st.sampled_from("[("),
        st.sampled_from("])"),
    )
    return st.one_of(numbers, compared, between)


def _cells(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A part, a list of them, `not(...)` of one, or anything."""
    lists = st.lists(parts, min_size=1, max_size=3).map(", ".join)
    return st.one_of(st.just("-"), lists, lists.map("not({})".format))


CELLS = {
    "score": _cells(_numeric(WHOLE)) | st.sampled_from(["? % 2 == 0", "? > features.rate"]),
    "rate": _cells(_numeric(DECIMAL)),
    "region": _cells(NAMES),
    "member": _cells(TRUTHS),
}
INPUTS = tuple(CELLS)
ROWS = st.lists(st.tuples(*CELLS.values()), min_size=1, max_size=8)
VALUES = st.fixed_dictionaries(
    {
        "score": st.integers(-5, 5),
        "rate": st.sampled_from([-3, -2.5, -1, -0.75, 0, 0.25, 0.5, 1, 1.5, 2.25, 3]),
        "region": st.sampled_from(["north", "south", "", "a, b", "a", "elsewhere"]),
        "member": st.booleans(),
    }
)

# The longer signs first: a cell that starts with `<=` starts with `<` too.
COMPARED = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


def naive_part(part: str, value: Any) -> bool:
    """Whether one comparison, interval or literal holds, as a reader with a pencil would say."""
    if isinstance(value, bool):
        return part == ("true" if value else "false")
    if isinstance(value, str):
        return bool(part.strip("'\"") == value)
    if between := re.fullmatch(r"([\[(])(.+)\.\.(.+)([\])])", part):
        first, low, high, last = between.groups()
        above = value >= float(low) if first == "[" else value > float(low)
        return bool(above and (value <= float(high) if last == "]" else value < float(high)))
    for sign, compare in COMPARED.items():
        if part.startswith(sign):
            return bool(compare(value, float(part.removeprefix(sign))))
    return bool(value == float(part))


def naive_cell(cell: str, value: Any, features: Mapping[str, Any]) -> bool:
    """Whether one cell holds."""
    if cell == "-":
        return True
    if cell == "? % 2 == 0":
        return bool(value % 2 == 0)
    if cell == "? > features.rate":
        return bool(value > features["rate"])
    inner = cell.removeprefix("not(").removesuffix(")") if cell.startswith("not(") else cell
    parts = re.findall(r"'[^']*'|\"[^\"]*\"|[^,'\" ][^,]*", inner)
    return any(naive_part(part.strip(), value) for part in parts) != cell.startswith("not(")


def rows(cells: list[tuple[str, ...]]) -> list[dict[str, Any]]:
    """Rules with these cells."""
    return [row(f"R{at}", *when) for at, when in enumerate(cells)]


@settings(max_examples=400)
@given(cells=ROWS, values=VALUES)
def test_a_table_matches_as_its_cells_do_one_by_one(
    cells: list[tuple[str, ...]], values: dict[str, Any]
) -> None:
    expected = tuple(
        at
        for at, when in enumerate(cells)
        if all(naive_cell(cell, values[name], values) for name, cell in zip(INPUTS, when, strict=True))
    )
    assert compiled(table(*rows(cells), inputs=INPUTS)).matching(values) == expected


@given(cells=ROWS)
def test_a_sample_of_a_segment_is_within_it(cells: list[tuple[str, ...]]) -> None:
    for column in compiled(table(*rows(cells), inputs=INPUTS)).columns:
        for at, allowed in enumerate(column.segments):
            sample = column.sample(at)
            assert sample is None or column.allowed(sample) == allowed
            assert sample is None or column.type is not FeatureType.INTEGER or isinstance(sample, int)


@pytest.mark.parametrize(
    ("inputs", "cells", "empty"),
    [
        # Between neighbouring integers there is none, and none is at a half.
        ("score", ["1", "2"], [2]),
        ("score", ["< 0.5"], [1]),
        ("rate", ["1", "2"], []),
        ("member", ["true"], []),
        ("member", ["true", "false"], [2]),
        ("region", ["other", "other_"], []),
    ],
)
def test_a_segment_without_a_value_has_no_sample(inputs: str, cells: list[str], empty: list[int]) -> None:
    ruled = [row(f"R{at}", cell) for at, cell in enumerate(cells)]
    (column,) = compiled(table(*ruled, inputs=[inputs])).columns
    assert [at for at in range(len(column.segments)) if column.sample(at) is None] == empty


def test_a_text_that_no_cell_names_is_any_other() -> None:
    (column,) = compiled(table(row("A", "other"), row("B", "not(other)"), inputs=["region"])).columns
    assert column.sample(1) == "other_"
    assert [column.allowed(text) for text in ("other", "other_", "elsewhere")] == [0b01, 0b10, 0b10]


def test_an_input_without_a_value_is_missing() -> None:
    one = compiled(table(row("A", "-", "-"), inputs=["score", "region"]))
    assert one.missing({"score": 1}) == ("region",)
    assert one.missing({"score": 1, "region": ""}) == ()


def test_a_cell_that_gives_no_truth_names_its_rule() -> None:
    one = compiled(table(row("A", "-"), row("B", "? + 1"), row("C", "? / 0 == 1")))
    with pytest.raises(CellFailedError) as caught:
        one.matching({"score": 1})
    assert (caught.value.rule, caught.value.message) == (1, "the expression did not give true or false")


def test_cel_is_asked_only_where_every_other_cell_holds() -> None:
    one = compiled(table(row("A", "? / 0 == 1", "north"), row("B", "-", "-"), inputs=["score", "region"]))
    assert one.matching({"score": 1, "region": "south"}) == (1,)


def test_how_specific_a_rule_is_counts_its_cells() -> None:
    one = compiled(
        table(
            row("A", "-", "-"), row("B", "1", "? == 'x'"), row("C", "-", "north"), inputs=["score", "region"]
        )
    )
    assert one.specificity == (0, 2, 1)


def test_tables_are_compiled_once_for_the_same_bytes() -> None:
    ruleset = ruleset_cases.document(table(row("A", "1")))
    again = RulesetDocument.from_bytes(ruleset.to_bytes())
    other = ruleset_cases.document(table(row("A", "2")))
    first = tables.compiled(ruleset)
    assert tables.compiled(ruleset) is first
    assert tables.compiled(again) == first
    assert tables.compiled(other) != first


def test_a_cell_that_cannot_be_read_is_not_compiled() -> None:
    with pytest.raises(CellError):
        tables.compiled(ruleset_cases.document(table(row("A", "1.5"))))
