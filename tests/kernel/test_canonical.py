"""Canonical JSON: one byte form per value, whichever road wrote it."""

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from audit import canonical

SAFE = canonical.MAX_SAFE_INTEGER

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
documents = st.recursive(
    scalars,
    lambda members: (
        st.lists(members) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), members)
    ),
    max_leaves=40,
)
anything = st.recursive(
    scalars | st.floats() | st.integers() | st.text(),
    lambda members: st.lists(members) | st.dictionaries(st.text(), members),
    max_leaves=20,
)


@given(documents)
@example({"\U0001f600": 1, "￿": 2})
@example({"a": [1.0, -0.0, 1e-6, 1e16, 1e21, 2.0**60]})
@example({"\x7f\x00 \u2028": '\x7f\x1f\u2028"\\/\b\f\n\r\t'})
def test_fast_path_writes_what_rfc8785_writes(document: Any) -> None:
    assert canonical.encode(document) == rfc8785.dumps(document)


@given(st.floats(1e-5, 1e16) | st.decimals(0, 10_000, places=4).map(float))
@example(0.9)
@example(1e-4)
@example(9.999999999999999e-05)
@example(999999999999999.9)
@example(1e15)
@example(4503599627370497.5)
def test_floats_of_everyday_are_written_alike(number: float) -> None:
    assert canonical.encode([number, -number]) == rfc8785.dumps([number, -number])


@given(documents)
@example([2.0**60, -(2.0**60), 1e20, 123456789012345680.0, "1234567890123456"])
def test_what_was_encoded_reads_back_to_the_same_bytes(document: Any) -> None:
    encoded = canonical.encode(document)
    assert canonical.encode(canonical.decode(encoded)) == encoded


@given(documents)
def test_normalised_values_have_the_same_bytes_and_no_integral_floats(document: Any) -> None:
    normalised = canonical.normalise(document)
    assert canonical.encode(normalised) == canonical.encode(document)
    assert canonical.normalise(normalised) == normalised


@given(anything)
def test_refuses_with_its_own_error_only(document: Any) -> None:
    try:
        encoded = canonical.encode(document)
    except canonical.CanonicalError:
        return
    assert encoded == rfc8785.dumps(document)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        [1.5, float("inf")],
        {"a": float("-inf")},
        SAFE + 1,
        -SAFE - 1,
        {"a": 2**64},
        "\ud800",
        {"\ud800": 1},
        {1: 2},
        {"é": 1, 2: 3},
        b"bytes",
        {"a": {1, 2}},
        object(),
    ],
)
def test_refuses_what_has_no_canonical_form(value: Any) -> None:
    with pytest.raises(canonical.CanonicalError):
        canonical.encode(value)


@pytest.mark.parametrize("leaf", [1, 1.5, "é"])
def test_refuses_nesting_beyond_its_bound_on_both_roads(leaf: Any) -> None:
    for _ in range(canonical.MAX_DEPTH):
        leaf = {"é": 0.5, "a": [leaf]}
    with pytest.raises(canonical.CanonicalError, match="nested deeper"):
        canonical.encode(leaf)


def test_accepts_nesting_up_to_its_bound() -> None:
    value: Any = 1
    for _ in range(canonical.MAX_DEPTH):
        value = [value]
    assert canonical.decode(canonical.encode(value)) == value


def test_a_copy_has_the_same_bytes_and_shares_nothing() -> None:
    value = {"a": [{"b": 1}, "c"], "d": 0.5}
    copy = canonical.copied(value)
    assert canonical.encode(copy) == canonical.encode(value)
    copy["a"][0]["b"] = 2
    copy["a"].append("e")
    assert value == {"a": [{"b": 1}, "c"], "d": 0.5}


def test_tuples_are_written_as_lists() -> None:
    assert canonical.encode((1, ("a",))) == b'[1,["a"]]'


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"{",
        b"nan",
        b"\xff",
        b"[1",
        b"\xef\xbb\xbf1",
        b"NaN1234567890123456",
        b"[NaN,1234567890123456]",
        b"[" * 100_000,
    ],
)
def test_refuses_bytes_that_are_not_json(encoded: bytes) -> None:
    with pytest.raises(canonical.CanonicalError):
        canonical.decode(encoded)


def test_reads_long_integers_as_the_floats_that_they_were() -> None:
    assert canonical.decode(b"[9007199254740991,9007199254740992]") == [SAFE, float(SAFE + 1)]
    assert isinstance(canonical.decode(b"9007199254740992"), float)
    assert isinstance(canonical.decode(b"9007199254740991"), int)


@pytest.mark.parametrize(
    "encoded",
    [
        b"12345678901234567890",
        b"-12345678901234567890",
        b'{"a":12345678901234567890}',
        b'{"a": 12345678901234567890}',
        b"[12345678901234567890]",
        b"[0,-12345678901234567890]",
        b"[\n12345678901234567890\n]",
    ],
)
def test_finds_a_long_integer_wherever_it_stands(encoded: bytes) -> None:
    assert "1.2345678901234567e+19" in str(canonical.decode(encoded))  # read as the float that it was


def test_digits_of_a_hash_do_not_take_the_slow_road(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.canonical.json", None)
    digits = "1234567890" * 7
    document = {"hash": digits, digits: [f"a{digits}", f":{digits[:15]}"], "n": 0.12345678901234567}
    assert canonical.decode(canonical.encode(document)) == document


def test_a_number_of_five_thousand_digits_is_no_integer() -> None:
    with pytest.raises(canonical.CanonicalError):
        canonical.encode(canonical.decode(b"9" * 5000))


def test_normalise_turns_integral_floats_into_integers() -> None:
    value = canonical.normalise({"a": 100.0, "b": [-0.0, 1.5, (2.0,)], "c": "1.0", "d": True})
    assert json.dumps(value) == '{"a": 100, "b": [0, 1.5, [2]], "c": "1.0", "d": true}'


def test_normalise_keeps_floats_past_the_safe_integers() -> None:
    assert isinstance(canonical.normalise(2.0**60), float)


def test_digest_is_lower_case_hexadecimal_sha256() -> None:
    assert canonical.digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
