"""Whatever an agent writes: an answer, the same each time, within a bound of work."""

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contracts.guard import GuardResult, bps
from runtime.kernel.guards import confidence, explanation_check, text_tokens

PARAMS: dict[str, Any] = {
    "action": "BUY",
    "symbol": "BTC-USD",
    "to": "user_42",
    "ids": [f"acc-{at}" for at in range(120)],
    "orders": [{"quantity": at, "amount_cents": at * 100} for at in range(40)],
}
PIECES = st.sampled_from(
    ["do not ", "buy", "SELL ", "rather than ", "$", "1,000", ".", "9" * 30, "AAPL", "user_43", "a" * 300]
).flatmap(
    lambda word: st.sampled_from(
        [word, "\u202e", "\u200b", "\u0456", "\ufdfa", "\ud800", "\U0001f600", "\x00", "'", "%", "\n", " in "]
    )
)
HOSTILE = st.one_of(
    st.text(max_size=400), st.lists(PIECES, max_size=60).map("".join), st.binary(max_size=99).map(bytes.hex)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | HOSTILE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(explain=HOSTILE, params=st.dictionaries(st.text(max_size=9), VALUES, max_size=5))
def test_any_text_gets_one_answer(explain: str, params: dict[str, Any]) -> None:
    found = explanation_check.examine(explain=explain, params=params)
    assert found == explanation_check.examine(explain=explain, params=params)
    assert GuardResult.from_bytes(found.to_bytes()) == found
    assert bool(found.findings) == (bps(found.confidence) > 0)
    assert bps(found.confidence) <= confidence.MOST_BPS
    assert len(found.findings) <= explanation_check.MAX_FINDINGS


LONGEST = 40 * text_tokens.MAX_CHARS
MOST_LINES = 1_500_000  # of Python; a few dozen for each character that is read


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "do not buy ",
        "A1",
        "$1,",
        "1.1",
        "ABC-DEF ",
        "\ufdfa",
        "a-",
        "'",
        "9",
        "x_1",
        "a",
        "A",
        "\u202e",
        "a.b ",
        "rather than ",
        "user_4",
        "$9 shares ",
        "pay in ",
        "\u0430\u0435 ",
        "0-",
    ],
)
def test_hostile_text_is_read_within_a_bound_of_work(piece: str) -> None:
    lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += 1
        return count

    explain = piece * (LONGEST // len(piece))
    before = sys.gettrace()
    sys.settrace(count)
    try:
        explanation_check.examine(explain=explain, params=PARAMS)
    finally:
        sys.settrace(before)
    assert lines < MOST_LINES
