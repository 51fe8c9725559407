"""Units of amounts: which there are, and numbers written with them, exactly."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel import units
from runtime.kernel.units import InvalidUnit, Unit

MONEY = [f"minor {code}" for code in sorted(units.CURRENCIES)]


def written(number: int | str, unit: str) -> str:
    return units.write(Decimal(number), unit)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("cents USD", Unit("USD", shift=2, decimals=2)),
        ("cents EUR", Unit("EUR", shift=2, decimals=2)),
        ("minor USD", Unit("USD", shift=2, decimals=2)),
        ("minor KWD", Unit("KWD", shift=3, decimals=3)),
        ("minor JPY", Unit("JPY")),
        ("micros USD", Unit("USD", shift=6, decimals=2)),
        ("USD", Unit("USD", decimals=2)),
        ("JPY", Unit("JPY")),
        ("bps", Unit("bps")),
        ("%", Unit("%")),
        ("s", Unit("s")),
        ("ms", Unit("ms")),
        ("shares", Unit("shares")),
        ("a" * 20, Unit("a" * 20)),
    ],
)
def test_reads_what_a_schema_may_write(text: str, unit: Unit) -> None:
    assert units.parse(text) == unit


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cents", "has no currency: write cents USD"),
        ("micros", "has no currency: write micros USD"),
        ("cents ", "names no currency code of ISO 4217"),
        ("cents usd", "names no currency code of ISO 4217"),
        ("minor XXX", "names no currency code of ISO 4217"),
        ("cents  USD", "names no currency code of ISO 4217"),
        ("cents JPY", "JPY has no cents: write JPY"),
        ("cents KWD", "KWD has no cents: write minor KWD"),
        ("", "is no unit"),
        ("a" * 21, "is no unit"),
        ("per day", "is no unit"),
        ("shares\n", "is no unit"),
        ("m2", "is no unit"),
        ("%%", "is no unit"),
        ("größe", "is no unit"),
    ],
)
def test_says_why_a_text_is_no_unit(text: str, words: str) -> None:
    found = units.parse(text)
    assert isinstance(found, InvalidUnit)
    assert words in found.why


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (473_382, "cents USD", "4,733.82 USD"),
        (5, "cents USD", "0.05 USD"),
        (-5, "cents EUR", "-0.05 EUR"),
        (0, "cents USD", "0.00 USD"),
        ("-0", "cents USD", "0.00 USD"),
        (100_000, "cents USD", "1,000.00 USD"),
        ("0.5", "cents USD", "0.005 USD"),
        ("50000.0", "cents USD", "500.00 USD"),
        (1_234, "minor KWD", "1.234 KWD"),
        (473_382, "minor JPY", "473,382 JPY"),
        (500_000, "micros USD", "0.50 USD"),
        (123, "micros USD", "0.000123 USD"),
        (4_733, "USD", "4,733 USD"),
        ("12.5", "USD", "12.50 USD"),
        (25, "bps", "25 bps"),
        ("2.50", "%", "2.5 %"),
        (90, "s", "90 s"),
        (1_500, "ms", "1,500 ms"),
        (10**23, "cents USD", "1,000,000,000,000,000,000,000.00 USD"),
        (7, "tool calls", "7 tool calls"),
        (7, "cents", "7 cents"),
    ],
)
def test_writes_a_number_with_its_unit(number: int | str, unit: str, text: str) -> None:
    assert written(number, unit) == text


@given(st.integers(-(10**24) + 1, 10**24 - 1), st.sampled_from(MONEY))
def test_money_reads_back_as_the_same_integer(number: int, unit: str) -> None:
    text, _, name = written(number, unit).rpartition(" ")
    decimals = units.CURRENCIES[name]
    whole, _, fraction = text.partition(".")
    assert len(fraction) == decimals
    assert int(f"{whole}{fraction}".replace(",", "")) == number


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**12), max_value=10**12),
    st.sampled_from([*MONEY, "USD", "micros USD", "bps", "s", "shares", "tool calls"]),
)
def test_no_digit_is_lost_or_made_up(number: Decimal, unit: str) -> None:
    parsed = units.parse(unit)
    shift = parsed.shift if isinstance(parsed, Unit) else 0
    text = units.write(number, unit)
    name = parsed.name if isinstance(parsed, Unit) else unit
    assert text.endswith(f" {name}")
    assert Decimal(text.removesuffix(f" {name}").replace(",", "")).scaleb(shift) == number


@given(st.integers(-(10**24) + 1, 10**24 - 1))
def test_thousands_are_grouped(number: int) -> None:
    assert written(number, "shares") == f"{number:,} shares"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, Decimal(5)),
        (-5, Decimal(-5)),
        (0.1, Decimal("0.1")),
        (2.5, Decimal("2.5")),
        (True, None),
        ("5", None),
        (None, None),
        ([5], None),
        (1e300, None),
        (float("nan"), None),
        (10**24, None),
    ],
)
def test_a_json_number_is_taken_as_it_was_sent(value: Any, number: Decimal | None) -> None:
    assert units.number_of(value) == number


def test_an_integer_of_any_length_is_none_or_a_number() -> None:
    assert units.number_of(10**5000) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("473382", Decimal(473382)),
        ("-4.50", Decimal("-4.50")),
        ("1e3", None),
        ("4,733", None),
        ("", None),
        ("NaN", None),
        ("٣", None),
        ("9" * 25, None),
    ],
)
def test_a_text_is_a_number_in_plain_digits(text: str, number: Decimal | None) -> None:
    assert units.number_in(text) == number


@pytest.mark.parametrize(
    ("value", "limit", "words"),
    [
        ("473382", "100000", "373 % above"),
        ("155169", "100000", "55 % above"),
        ("100001", "100000", "less than 1 % above"),
        ("999999", "100000", "899 % above"),
        ("1000000", "100000", "10 times the limit"),
        ("123456789", "1", "123,456,789 times the limit"),
        ("0.3", "0.2", "50 % above"),
        ("100000", "100000", ""),
        ("1", "2", ""),
        ("1", "0", ""),
        ("1", "-1", ""),
    ],
)
def test_says_by_how_much_a_value_exceeds_a_limit(value: str, limit: str, words: str) -> None:
    assert units.share_above(Decimal(value), Decimal(limit)) == words


@given(st.integers(1, 10**24), st.integers(1, 10**24))
def test_a_share_never_overstates(value: int, limit: int) -> None:
    words = units.share_above(Decimal(value), Decimal(limit))
    assert bool(words) is (value > limit)
    if words.endswith("times the limit"):
        factor = int(words.split()[0].replace(",", ""))
        assert factor >= 10
        assert factor * limit <= value < (factor + 1) * limit
    elif words and not words.startswith("less"):
        percent = int(words.split()[0])
        assert limit * (100 + percent) <= value * 100 < limit * (101 + percent)


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("1,551.69 USD", "cents USD", 155_169),
        ("1551.69", "cents USD", 155_169),
        (" 1,551.69usd ", "cents USD", 155_169),
        ("-0.01", "cents USD", -1),
        ("12", "bps", 12),
        ("12 bps", "bps", 12),
        ("1,000,000", "JPY", 1_000_000),
    ],
)
def test_reads_an_amount_as_people_write_it(text: str, unit: str, number: int) -> None:
    parsed = units.parse(unit)
    assert isinstance(parsed, Unit)
    assert parsed.read(text) == number


@pytest.mark.parametrize(
    "text", ["", "USD", "a lot", "1551,69", "1,55", ",5", "1,0000", "1.5.5", "1e3", "٣", "9" * 25]
)
def test_reads_nothing_of_what_states_no_number(text: str) -> None:
    assert Unit("USD", shift=2, decimals=2).read(text) is None


def test_reads_what_is_finer_than_its_unit_as_a_fraction() -> None:
    assert Unit("USD", shift=2).read("0.005") == Decimal("0.5")
    assert Unit("").read("1,000.5") == Decimal("1000.5")


@given(number=st.integers(-(10**20), 10**20), unit=st.sampled_from([*MONEY, "micros USD", "bps", "shares"]))
def test_reads_back_what_it_wrote(number: int, unit: str) -> None:
    parsed = units.parse(unit)
    assert isinstance(parsed, Unit)
    assert parsed.read(parsed.write(Decimal(number))) == number
    assert parsed.read(parsed.digits(Decimal(number))) == number
