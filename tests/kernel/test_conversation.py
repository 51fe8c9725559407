"""The rules of a conversation: versions that its agents share, and when it has gone on too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel import conversation as rules
from runtime.kernel.conversation import Bound, Span

VERSIONS = st.builds(lambda major, minor: f"{major}.{minor}.0", st.integers(0, 3), st.integers(0, 4))
RANGES = st.tuples(VERSIONS, VERSIONS).filter(lambda pair: rules.is_ordered(*pair))


def span(low: str, high: str) -> Span:
    return Span(rules.parsed(low), rules.parsed(high))


@pytest.mark.parametrize(
    ("known", "asked", "agreed"),
    [
        (None, ("1", "1.2"), ">=1.0.0 <=1.2.0"),
        (None, ("0.9", "1.1"), ">=1.0.0 <=1.1.0"),
        (None, ("1.1", "2.0"), ">=1.1.0 <=1.1.0"),
        (None, ("2.0", "3.0"), None),
        (None, ("0.1", "0.9"), None),
        (("1.0", "1.2"), ("1.1", "1.4"), ">=1.1.0 <=1.2.0"),
        (("1.0", "1.2"), ("1.1", "2.0"), ">=1.1.0 <=1.2.0"),
        (("1.0", "1.2"), ("1.3", "1.4"), None),
        (("1.0", "1.2"), ("1.3", "2.0"), None),
    ],
)
def test_the_highest_common_version(
    known: tuple[str, str] | None, asked: tuple[str, str], agreed: str | None
) -> None:
    found = rules.agree(None if known is None else span(*known), *asked)
    assert (None if found is None else str(found)) == agreed


@given(st.lists(RANGES, min_size=1, max_size=5))
def test_what_is_agreed_suits_everybody_and_only_narrows(asked: list[tuple[str, str]]) -> None:
    known: Span | None = None
    for low, high in asked:
        agreed = rules.agree(known, low, high)
        if agreed is None:
            continue
        assert agreed.low <= agreed.high
        assert agreed.high.major == rules.MAJOR
        assert rules.parsed(low) <= agreed.high <= rules.parsed(high)
        assert known is None or (known.low <= agreed.low and agreed.high <= known.high)
        known = agreed


def test_the_earliest_day_that_was_announced() -> None:
    announced = [{"1.2": "2027-03-01", "1.1": "2026-01-01"}, {"1.2.0": "2027-01-31"}, {}]
    assert rules.deprecated_on("1.2.0", announced) == "2027-01-31"
    assert rules.deprecated_on("1.3.0", announced) is None


@pytest.mark.parametrize(
    ("sent", "lately", "bound"),
    [
        (0, 0, None),
        (rules.MOST_MESSAGES - 1, rules.MOST_AT_ONCE - 1, None),
        (rules.MOST_MESSAGES, 0, Bound.TOO_MANY_MESSAGES),
        (rules.MOST_MESSAGES, rules.MOST_AT_ONCE, Bound.TOO_MANY_MESSAGES),
        (5, rules.MOST_AT_ONCE, Bound.TOO_FAST),
    ],
)
def test_a_conversation_goes_on_up_to_a_bound(sent: int, lately: int, bound: Bound | None) -> None:
    assert rules.bound_of(sent=sent, lately=lately) is bound
