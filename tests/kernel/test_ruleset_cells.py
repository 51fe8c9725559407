"""The cells of decision tables: what each of them allows, and what cannot be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts.ruleset import FeatureType
from runtime.kernel.rulesets import cells
from runtime.kernel.rulesets.cells import CellError, Interval, Value

INTEGER, NUMBER = FeatureType.INTEGER, FeatureType.NUMBER
STRING, BOOLEAN = FeatureType.STRING, FeatureType.BOOLEAN


@pytest.mark.parametrize(
    ("cell", "kind", "allowed", "excluded"),
    [
        ("-", INTEGER, [0, -5], []),
        (" - ", STRING, ["", "north"], []),
        ("700", INTEGER, [700], [699, 701]),
        ("-7", INTEGER, [-7], [7]),
        ("0.5", NUMBER, [0.5], [0, 1]),
        ("1e2", NUMBER, [100, 100.0], [1]),
        ("2.0", NUMBER, [2], [2.5]),
        ("< 5", INTEGER, [4], [5]),
        ("<=5", INTEGER, [5], [6]),
        ("> 5", NUMBER, [5.1], [5]),
        (">= -5", NUMBER, [-5], [-5.1]),
        ("[600..700)", INTEGER, [600, 699], [599, 700]),
        ("(600..700]", INTEGER, [601, 700], [600, 701]),
        ("(0..1)", NUMBER, [0.5], [0, 1]),
        ("[1..1]", INTEGER, [1], [0, 2]),
        ("( 1 .. 3 )", NUMBER, [2], [1, 3]),
        ("1, 2, [5..6]", INTEGER, [1, 2, 5, 6], [3, 7]),
        ("< 1, > 3", INTEGER, [0, 4], [1, 3]),
        ("not(1, [3..5])", INTEGER, [0, 2, 6], [1, 3, 5]),
        ("not (> 3)", INTEGER, [3], [4]),
        ("north", STRING, ["north"], ["south"]),
        ("'north', \"south\"", STRING, ["north", "south"], ["'north'", "east"]),
        ("''", STRING, [""], [" "]),
        ("'a, b'", STRING, ["a, b"], ["a", "b"]),
        ("not('north')", STRING, ["south"], ["north"]),
        ("'?'", STRING, ["?"], ["!"]),
        ("'\"a\"'", STRING, ['"a"'], ["a"]),
        ('"it\'s"', STRING, ["it's"], ["its"]),
        ('"its\'"', STRING, ["its'"], ["its"]),
        ("true", BOOLEAN, [True], [False]),
        ("not(true)", BOOLEAN, [False], [True]),
        ("true, false", BOOLEAN, [True, False], []),
    ],
)
def test_a_cell_holds_for_what_it_says(
    cell: str, kind: FeatureType, allowed: list[Value], excluded: list[Value]
) -> None:
    test = cells.parse(cell, kind)
    assert [value for value in allowed if not test.holds(value)] == []
    assert [value for value in excluded if test.holds(value)] == []
    assert test.expression == ""


@pytest.mark.parametrize(
    ("cell", "kind", "said"),
    [
        ("", INTEGER, "no literal"),
        ("1,", INTEGER, "no literal"),
        (",1", INTEGER, "no literal"),
        ("1,,2", INTEGER, "no literal"),
        ("'north", STRING, "no literal"),
        ("north'", STRING, "does not end"),
        ("1.5", INTEGER, "1.5 is no integer"),
        ("01", INTEGER, "01 is no integer"),
        ("one", NUMBER, "one is no number"),
        ("7", STRING, "7 is no string"),
        ("yes", BOOLEAN, "yes is no boolean"),
        ("> 'a'", STRING, "> 'a' is no string"),
        ("> 5", STRING, "only numbers have an order, and the feature is a string"),
        ("[0..1]", BOOLEAN, "only numbers have an order, and the feature is a boolean"),
        ("[2..1]", INTEGER, "empty"),
        ("(1..1]", INTEGER, "empty"),
        ("[1..1)", INTEGER, "empty"),
        ("not()", INTEGER, "no literal"),
        ("not(1), not(2)", INTEGER, "is no integer"),
        ("? +", INTEGER, "cannot be read as CEL"),
        ("9007199254740992", INTEGER, "no number that is exact everywhere"),
        (">= 1e999", NUMBER, "no number that is exact everywhere"),
        ("[0..1e308]", NUMBER, "no number that is exact everywhere"),
        ("1" * 900, NUMBER, "no number that is exact everywhere"),
    ],
)
def test_what_is_no_test_of_the_feature_is_refused(cell: str, kind: FeatureType, said: str) -> None:
    with pytest.raises(CellError) as caught:
        cells.parse(cell, kind)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "expression"),
    [
        ("? % 2 == 0", "input  % 2 == 0"),
        ("?%2==0", "input %2==0"),
        ("10 > ?", "10 > input"),
        # The mark may stand alone in front of an expression over features.
        ("? features.score > 5", "features.score > 5"),
        ("?features.score > 5", "features.score > 5"),
        # In a text it is a character.
        ("? == 'why?'", "input  == 'why?'"),
        ("not(? == 1)", "not(input  == 1)"),
    ],
)
def test_everything_else_is_cel_with_the_input_as_a_question_mark(cell: str, expression: str) -> None:
    assert cells.parse(cell, INTEGER).expression == expression


@given(
    low=st.integers(-50, 50),
    high=st.integers(-50, 50),
    brackets=st.tuples(st.sampled_from("[("), st.sampled_from("])")),
    value=st.integers(-60, 60),
)
def test_an_interval_holds_what_lies_between_and_is_refused_where_that_is_nothing(
    low: int, high: int, brackets: tuple[str, str], value: int
) -> None:
    first, last = brackets
    above = value >= low if first == "[" else value > low
    below = value <= high if last == "]" else value < high
    try:
        test = cells.parse(f"{first}{low}..{high}{last}", NUMBER)
    except CellError:
        assert low > high or (low == high and brackets != ("[", "]"))
    else:
        assert test.holds(value) == (above and below)


def test_a_half_line_is_never_empty() -> None:
    assert not cells.is_empty(Interval(None, False, 1, False))
    assert not cells.is_empty(Interval(1, False, None, False))


@given(st.one_of(st.integers(-(2**53) + 1, 2**53 - 1), st.floats(-1e15, 1e15)))
def test_a_number_is_read_as_json_readers_read_it(value: float) -> None:
    found = cells.number(repr(value))
    assert found == value
    assert isinstance(found, int) == (value == int(value))
