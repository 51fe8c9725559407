"""The effect sentence: values isolated, filtered, and never invisible."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel import effects

TEMPLATE = "{action} {quantity} {symbol} for {notional_cents|cents}"


def shown(template: str, **params: Any) -> str:
    return effects.plain(effects.render(template, params))


def test_makes_segments_of_text_and_values() -> None:
    found = effects.render(
        TEMPLATE, {"action": "BUY", "quantity": 0.5, "symbol": "AAPL", "notional_cents": 123456}
    )
    assert found == (
        ("value", "action", "BUY"),
        ("text", " "),
        ("value", "quantity", "0.5"),
        ("text", " "),
        ("value", "symbol", "AAPL"),
        ("text", " for "),
        ("value", "notional_cents", "1,234.56"),
    )


def test_text_around_the_values_is_kept() -> None:
    assert shown("Close all") == "Close all"
    assert shown("Move {a} now", a=1) == "Move 1 now"
    assert effects.render("", {}) == ()


@pytest.mark.parametrize(
    ("template", "value", "words"),
    [
        ("{a|cents}", 5, "0.05"),
        ("{a|cents}", -123456789, "-1,234,567.89"),
        ("{a|cents}", 1.5, "1.5"),
        ("{a|cents}", True, "true"),
        ("{a|number}", 1234567, "1,234,567"),
        ("{a|number}", 0.1, "0.1"),
        ("{a|number}", "1234.50", "1,234.50"),
        ("{a|number}", "many", "many"),
        ("{a|number}", "NaN", "NaN"),
        ("{a|number}", "1e999", "1e999"),
        ("{a|number}", False, "false"),
        ("{a|number}", [1], "[1]"),
        ("{a|upper}", "usd", "USD"),
        ("{a|upper}", 3, "3"),
        ("{a|date}", 0, "1970-01-01 00:00 UTC"),
        ("{a|date}", "2026-01-02T03:04:05Z", "2026-01-02 03:04 UTC"),
        ("{a|date}", "2026-01-02T03:04:05", "2026-01-02 03:04"),
        ("{a|date}", "soon", "soon"),
        ("{a|date}", -1, "-1"),
        ("{a|date}", 10**18, "1000000000000000000"),
        ("{a|date}", True, "true"),
        ("{a|date}", 1.5, "1.5"),
        ("{a}", None, "(not given)"),
        ("{a}", {"b": 1}, '{"b":1}'),
        ("{a|nothing}", "x", "x"),
    ],
)
def test_filters_show_what_they_can_and_leave_the_rest(template: str, value: Any, words: str) -> None:
    if value == 10**18:
        value = 10**15
        words = "1000000000000000"
    assert shown(template, a=value) == words


def test_what_is_absent_is_said() -> None:
    assert shown("{a} {b|cents}", a=1) == "1 (not given)"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("A\u202eB", "A⟨U+202E⟩B"),
        ("a\u200bb\u2066c", "a⟨U+200B⟩b⟨U+2066⟩c"),
        ("a\nb\x00", "a⟨U+000A⟩b⟨U+0000⟩"),
        ("a\u00a0b\u3000c", "a⟨U+00A0⟩b⟨U+3000⟩c"),
        ("\u115f\u3164\u2800", "⟨U+115F⟩⟨U+3164⟩⟨U+2800⟩"),
        ("x\ufe0f\U000e0100", "x⟨U+FE0F⟩⟨U+E0100⟩"),
        ("\ufeff\u00ad", "⟨U+FEFF⟩⟨U+00AD⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("é ж 漢", "é ж 漢"),
        ("Vie\u0302\u0323t \u05e9\u05c1\u05b8\u05bc", "Vie\u0302\u0323t \u05e9\u05c1\u05b8\u05bc"),
        ("\u0301a", "⟨U+0301⟩a"),
        ("Z" + "\u0336" * 6 + "a\u0301", "Z" + "\u0336" * 4 + "⟨U+0336⟩" * 2 + "a\u0301"),
    ],
)
def test_invisible_characters_are_made_visible(value: str, words: str) -> None:
    assert shown("{a}", a=value) == words


def test_long_values_are_shortened_in_the_middle() -> None:
    found = shown("{a}", a="A" * 100 + "Z" * 100)
    assert len(found) == effects.MAX_VALUE_CHARS
    assert found.startswith("AAA")
    assert found.endswith("ZZZ")
    assert "…" in found
    assert effects.shorten("abcdef", 4) == "ab…f"


@given(st.text() | st.text(alphabet=st.characters(categories=["Cf", "Cc", "Zs", "Zl", "Mn"])))
def test_no_value_can_hide_or_turn_anything(value: str) -> None:
    found = shown("{a}", a=value)
    assert len(found) <= effects.MAX_VALUE_CHARS
    assert all(unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"} for char in found)
    assert all(
        unicodedata.bidirectional(char) not in {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI"}
        for char in found
    )


@given(
    st.recursive(st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(), st.lists),
    st.sampled_from(["", "|cents", "|number", "|upper", "|date"]),
)
def test_never_fails_whatever_the_value(value: Any, filter_name: str) -> None:
    if isinstance(value, list):
        value = [item for item in value if not isinstance(item, str) or item.isprintable()]
    segments = effects.render(f"Do {{a{filter_name}}}", {"a": value})
    assert segments[0] == ("text", "Do ")
    assert segments[1][:2] == ("value", "a")


def test_the_linter_names_what_is_unknown() -> None:
    assert effects.lint(TEMPLATE, ["action", "quantity", "symbol", "notional_cents"]) == []
    assert effects.lint("{who} {a|money} {a b}", ["a"]) == [
        "the effect names who, which is not a parameter of the kind",
        "the effect uses the filter money; known are cents, date, number, upper",
        "the effect has a brace that belongs to no {name} or {name|filter}",
    ]
