"""Text with `${CEL}`: a value never leaves its segment."""

import re
import urllib.parse
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.kernel.rules import templates
from runtime.kernel.rules.language import ErrorCode, ExpressionError

PATH = re.compile(r"price\.[A-Za-z0-9_-]{1,64}")
VALUES = st.text(max_size=80) | st.sampled_from(
    ["..", ".", "a.b", "../x", "A\u202eB", "A/B", "\u0410", "", " ", "%2e%2e", "\ud800"]
)


def params(**given_params: Any) -> dict[str, Any]:
    return {"params": given_params}


def code_of(call: Any, *args: Any) -> ErrorCode:
    with pytest.raises(ExpressionError) as caught:
        call(*args)
    return caught.value.code


def test_splits_text_and_expressions() -> None:
    parts = templates.parse("a/${ params.x }/b/${ {'}': '${'}['}'] }")
    assert [(part.text, part.is_expression) for part in parts] == [
        ("a/", False),
        ("params.x", True),
        ("/b/", False),
        ("{'}': '${'}['}']", True),
    ]
    assert templates.expressions("plain $ {text}") == ()


@pytest.mark.parametrize("template", ["${", "${}", "${ }", "a${params.x", "${ {'a': 1 }", "${a // }"])
def test_refuses_an_expression_that_does_not_end(template: str) -> None:
    assert code_of(templates.parse, template) is ErrorCode.SYNTAX


def test_makes_fact_paths() -> None:
    assert templates.fact_path("price.${params.s}", params(s="BTC-USD")) == "price.BTC-USD"
    assert templates.fact_path("price.p_${params.s}_${params.n}", params(s="A", n=7)) == "price.p_A_7"
    assert templates.fact_path("market.state", {}) == "market.state"


@pytest.mark.parametrize(
    "template",
    [
        "",
        "price",
        "price.",
        ".x",
        "a.b.c",
        "${params.s}.x",
        "${params.s}",
        "pr${params.s}.x",
        "a b.c",
        "price.${params.s}.x",
    ],
)
def test_a_fact_has_two_segments_and_a_literal_first(template: str) -> None:
    assert code_of(templates.fact_path, template, params(s="A")) is ErrorCode.UNSAFE_VALUE


@pytest.mark.parametrize("value", ["A.B", "", "..", "a b", "A/B", "\u0410", "A\n", "x" * 65, "A\u200b"])
def test_a_hostile_symbol_reaches_no_other_fact(value: str) -> None:
    assert code_of(templates.fact_path, "price.${params.s}", params(s=value)) is ErrorCode.UNSAFE_VALUE


@settings(max_examples=300, deadline=None)
@given(value=VALUES | st.integers() | st.booleans() | st.none() | st.floats() | st.lists(st.text()))
def test_whatever_the_value_a_path_stays_in_its_namespace(value: Any) -> None:
    try:
        path = templates.fact_path("price.${params.s}", params(s=value))
    except ExpressionError:
        return
    assert PATH.fullmatch(path)
    assert path == f"price.{value}"


def test_knows_what_is_static() -> None:
    assert templates.static_selector("market.state") == "market.state"
    assert templates.static_selector("price.${params.s}") == "price."
    assert templates.static_selector("price.x_${params.s}") == "price."
    assert code_of(templates.static_selector, "market.a.b") is ErrorCode.UNSAFE_VALUE


def test_selectors_are_exact_or_namespaces() -> None:
    assert templates.selects("price.", "price.AAPL")
    assert templates.selects("market.state", "market.state")
    assert not templates.selects("market.state", "market.state2")
    assert not templates.selects("price.", "prices.AAPL")


def test_encodes_values_in_request_paths() -> None:
    made = templates.request_path("/orders/${params.s}?by=${params.n}", params(s="a/b ?é", n=3))
    assert made == "/orders/a%2Fb%20%3F%C3%A9?by=3"


@pytest.mark.parametrize("value", ["..", ".", "", "\ud800", "x" * 2001])
def test_a_value_cannot_lead_a_request_elsewhere(value: str) -> None:
    with pytest.raises(ExpressionError):
        templates.request_path("/orders/${params.s}/x", params(s=value))


def test_text_that_utf_8_cannot_hold_is_refused() -> None:
    assert code_of(templates.percent_encode, "\ud800") is ErrorCode.UNSAFE_VALUE


@pytest.mark.parametrize(
    "template", ["orders", "//other.example/x", "/a/../b", "/a b", "/a#b", "/a\\b", "/é", "/a//b"]
)
def test_a_literal_path_stays_on_its_target(template: str) -> None:
    assert code_of(templates.request_path, template, {}) is ErrorCode.UNSAFE_VALUE


@settings(max_examples=300, deadline=None)
@given(value=VALUES)
def test_an_encoded_value_is_one_segment_and_reads_back(value: str) -> None:
    try:
        path = templates.request_path("/orders/${params.s}/cancel", params(s=value))
    except ExpressionError:
        return
    _, orders, middle, cancel = path.split("/")
    assert (orders, cancel) == ("orders", "cancel")
    assert path.isascii()
    assert urllib.parse.unquote(middle) == value
    assert middle == urllib.parse.quote(value, safe="")


def test_a_name_is_made_of_its_values() -> None:
    assert templates.name("order:${params.id}", {"params": {"id": 881}}) == "order:881"
    assert templates.name("desk", {}) == "desk"


@pytest.mark.parametrize("value", ["", "x" * 200, "a\u202eb", "a\nb"])
def test_a_name_that_nobody_can_read_is_none(value: str) -> None:
    with pytest.raises(ExpressionError):
        templates.name("order:${params.id}", {"params": {"id": value}})
