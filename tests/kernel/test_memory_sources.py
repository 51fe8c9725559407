"""What a source of memory names, and when recorded bytes hold a value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts.memory import QuarantineReason, SourceCheck, SourceKind
from runtime.kernel import memory_sources

RECEIPT = {"fill": {"price": 189.5, "lots": [100, 20]}, "note": "done", "ok": True, "none": None, "a/b": []}
leaves = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=12)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("agent", SourceKind.AGENT),
        ("agent:", SourceKind.UNLABELLED),
        ("agent:other", SourceKind.OUTSIDE),
        ("flow:x", SourceKind.FLOW),
        ("fact:price.AAPL@1", SourceKind.FACT),
        ("web:https://example.org/a:b", SourceKind.OUTSIDE),
        ("rumour:x", SourceKind.UNLABELLED),
        ("web", SourceKind.UNLABELLED),
        ("flow", SourceKind.UNLABELLED),
        ("", SourceKind.UNLABELLED),
    ],
)
def test_reads_what_a_source_names(source: str, kind: SourceKind) -> None:
    assert memory_sources.kind_of(source) is kind


def test_ranks_a_fact_before_a_flow_before_an_agent_before_all_else() -> None:
    ranks = [memory_sources.strength(source) for source in ("fact:a.b@1", "flow:x", "agent", "web:x", "x")]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks[:4])) == 4


def test_every_check_but_the_good_ones_is_a_reason() -> None:
    good = {SourceCheck.OWN_CLAIM, SourceCheck.MATCHED}
    assert set(memory_sources.REASONS) == set(SourceCheck) - good
    assert set(memory_sources.REASONS.values()) < set(QuarantineReason)


@pytest.mark.parametrize("value", [RECEIPT, RECEIPT["fill"], 189.5, [100, 20], 100, "done"])
def test_finds_the_whole_and_its_members(value: Any) -> None:
    assert memory_sources.matches(RECEIPT, value)


@pytest.mark.parametrize(
    "value",
    [
        190,
        "don",  # part of a text
        {"price": 189.5},  # part of an object
        [20, 100],
        [100],
        "189.5",
        {"note": "done", "price": 189.5},  # put together
        # In almost every document.
        True,
        None,
        [],
        20,
    ],
)
def test_finds_nothing_else(value: Any) -> None:
    assert not memory_sources.matches(RECEIPT, value)


@pytest.mark.parametrize("value", [True, None, [], "", 1])
def test_a_value_of_no_weight_matches_a_whole_document(value: Any) -> None:
    assert memory_sources.matches(value, value)


def test_a_number_and_a_flag_are_not_the_same() -> None:
    assert not memory_sources.matches([True], 1)
    assert not memory_sources.matches(1, True)
    assert memory_sources.matches({"a": [1234, {"b": 1}]}, 1234)


@given(values)
def test_every_document_matches_itself(value: Any) -> None:
    assert memory_sources.matches(value, value)


@given(values, values)
def test_what_matches_stands_in_the_document(recorded: Any, value: Any) -> None:
    if memory_sources.matches(recorded, value):
        assert value in list(parts(recorded))


@given(st.text(min_size=3, max_size=9), values, values)
def test_what_is_put_into_a_document_is_found(text: str, before: Any, after: Any) -> None:
    assert memory_sources.matches({"deep": [before, {"kept": [text, after]}]}, text)


def parts(value: Any) -> Any:
    yield value
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in below:
        yield from parts(part)
