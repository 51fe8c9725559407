"""The lexical guard: what it finds, how sure it is, and what it leaves alone."""

from typing import Any

import pytest

from runtime.contracts.guard import FindingCode, bps
from runtime.kernel.guards import actions, antonyms, explanation_check, text_tokens
from runtime.kernel.guards import confidence as weights

PARAMS: dict[str, Any] = {"symbol": "AAPL", "action": "BUY", "quantity": 4, "notional_cents": 75_800}
CHOICES = {"symbol": ["AAPL", "MSFT"]}


def codes(explain: str, params: dict[str, Any] | None = None) -> list[str]:
    found = explanation_check.examine(explain=explain, params=params or PARAMS, choices=CHOICES)
    return [finding.code.value for finding in found.findings]


def confidence(explain: str, params: dict[str, Any] | None = None) -> str:
    return explanation_check.examine(explain=explain, params=params or PARAMS, choices=CHOICES).confidence


@pytest.mark.parametrize("explain", ["", "   ", "\n.,;", "\u200b\u202e", "Buying 4 shares of AAPL for $758."])
def test_nothing_said_and_nothing_wrong_is_no_finding(explain: str) -> None:
    found = explanation_check.examine(explain=explain, params=PARAMS)
    assert (found.findings, found.confidence) == ((), "0")


@pytest.mark.parametrize(
    ("explain", "code"),
    [
        ("Do not buy AAPL; selling it is right.", "ACTION_REVERSED"),
        ("AAPL is weak and I am selling it.", "ACTION_OPPOSED"),
        ("We don\u2019t buy AAPL now.", "ACTION_NEGATED"),
        ("Rather than buy AAPL we wait.", "ACTION_NEGATED"),
        ("Holding AAPL instead of buying.", "ACTION_NEGATED"),
        ("AAPL sold off this morning.", "ACTION_DOUBTFUL"),
        ("This reduces the AAPL exposure.", "ACTION_DOUBTFUL"),
        ("AAPL was cut by analysts.", "ACTION_DOUBTFUL"),
    ],
)
def test_words_against_the_action(explain: str, code: str) -> None:
    assert codes(explain) == [code]


@pytest.mark.parametrize(
    "explain",
    [
        "Not only buy AAPL but hold it.",
        "I do not hesitate to buy AAPL.",
        "Sell MSFT later, buy AAPL now.",
        "Never mind the rest. Buy AAPL.",
        "AAPL is close to its target weight.",
        "AAPL was bought yesterday and is bought again.",
    ],
)
def test_words_for_the_action(explain: str) -> None:
    assert codes(explain) == []


@pytest.mark.parametrize(
    ("value", "explain", "code"),
    [
        ("BUY_LEVERAGE", "I am reducing risk", "ACTION_DOUBTFUL"),  # DIR paper, 6.3
        ("payIn", "paying out to the client", "ACTION_OPPOSED"),
        ("PAY-OUT", "Pay in what we owe", "ACTION_OPPOSED"),
        ("open", "closing this ticket", "ACTION_OPPOSED"),
        ("INCREASE", "Reduce the limit", "ACTION_OPPOSED"),
        ("DECREASE", "We buy more of it", "ACTION_DOUBTFUL"),
        ("DISABLE", "Turning on the account", "ACTION_OPPOSED"),
        ("GRANT", "Revoke the right", "ACTION_OPPOSED"),
    ],
)
def test_every_row_speaks_for_itself(value: str, explain: str, code: str) -> None:
    assert codes(explain, {"nested": [{"do": value}]}) == [code]


@pytest.mark.parametrize("value", ["BUY_OR_SELL", "a b c d e f buy", "nothing of it", "buy " * 40, "", "7"])
def test_a_value_that_names_no_action_or_both_sides_contradicts_nothing(value: str) -> None:
    assert codes("selling, reducing, closing", {"do": value}) == []


@pytest.mark.parametrize(
    ("params", "explain", "expected"),
    [
        (PARAMS, "MSFT is strong.", ["OTHER_CHOICE"]),
        (PARAMS, "NVDA is strong.", ["OTHER_SYMBOL"]),
        (PARAMS, "AAPL beats NVDA and MSFT.", []),
        (PARAMS, "The RSI and the CEO say so in USD.", []),
        (PARAMS, "NVDA LOOKS STRONG TO ALL OF US", []),
        ({"symbol": "BTC-USD"}, "BTC rises with ETHX.", []),
        ({"symbol": "BTC-USD"}, "ETHX rises.", ["OTHER_SYMBOL"]),
        ({"to": "user_42"}, "for user_43, as asked", ["OTHER_ID"]),
        ({"to": "user_42"}, "for user_42, not user_43", []),
        ({"to": "user_42"}, "for item_43 and user_x", []),
        ({"to": "u_4"}, "u_5", []),
        ({"to": "reserve"}, "for user_43", []),
        ({"to": "user_42", "from": "user_43"}, "from user_43", []),
        (
            {"case": "019b7c00-0000-7000-8000-000000000001"},
            "as in 019B7C00-0000-7000-8000-00000000000f",
            ["OTHER_ID"],
        ),
    ],
)
def test_names(params: dict[str, Any], explain: str, expected: list[str]) -> None:
    assert codes(explain, params) == expected


@pytest.mark.parametrize(
    ("explain", "expected"),
    [
        ("4 shares for $758", []),
        ("4 shares for 1,250 USD", ["AMOUNT_DIFFERS"]),
        ("about $800", []),
        ("about $900", ["AMOUNT_DIFFERS"]),
        ("\u20ac 758,00", []),
        ("0.758k EUR", []),
        ("0.758 thousand EUR", []),
        ("758.000 USD", []),
        ("758.000.000 USD", ["AMOUNT_DIFFERS"]),
        ("1.000,00 EUR", ["AMOUNT_DIFFERS"]),
        ("2 million dollars", ["AMOUNT_DIFFERS"]),
        ("$189.50 a piece", []),
        ("below the limit of $1,000", []),
        ("$99999999999999999999", ["AMOUNT_DIFFERS"]),
        ("71 % of the time", []),
        ("in 2026 and 30 days", []),
        ("40 shares", ["COUNT_DIFFERS"]),
        ("quantity 4", []),
        ("at most 40 shares", []),
        ("3 units too few, 4 shares right", []),
    ],
)
def test_amounts_and_counts(explain: str, expected: list[str]) -> None:
    assert codes(f"AAPL {explain}") == expected


@pytest.mark.parametrize(
    ("params", "explain", "expected"),
    [
        ({"amount": "12.50"}, "$12.50", []),
        ({"amount": "12.50"}, "$19", ["AMOUNT_DIFFERS"]),
        ({"amount": "much"}, "$19", []),
        ({"amount": -12.5}, "$12.50", []),
        ({"note": 3, "flag": True, "none": None}, "$12.50 and 7 units", []),
        ({"quantity": 0, "amount": 10}, "$10", []),
        ({"": 3}, "$10", []),
    ],
)
def test_amounts_of_other_parameters(params: dict[str, Any], explain: str, expected: list[str]) -> None:
    assert codes(explain, params) == expected


def test_findings_of_two_sorts_are_surer_than_either() -> None:
    assert confidence("I am selling AAPL") == "0.9"
    assert confidence("I am selling MSFT") == "0.95"
    assert confidence("Do not buy MSFT, sell it") == "0.97"


def test_every_finding_has_a_weight_with_its_reason_and_none_reaches_a_stop_by_default() -> None:
    assert set(weights.WEIGHTS) == set(FindingCode) - {FindingCode.TARGET_SAYS}
    assert all(weight.why.endswith(".") for weight in weights.WEIGHTS.values())
    assert weights.combined(()) == 0
    assert bps("0.99") > weights.MOST_BPS


def test_the_same_input_gives_the_same_bytes() -> None:
    once = explanation_check.examine(explain="Selling 40 MSFT", params=PARAMS, choices=CHOICES)
    assert (
        once.to_bytes()
        == explanation_check.examine(explain="Selling 40 MSFT", params=PARAMS, choices=CHOICES).to_bytes()
    )


def test_a_finding_quotes_without_invisible_characters() -> None:
    found = explanation_check.examine(explain="MS\u200bFT\u202e is strong", params=PARAMS, choices=CHOICES)
    assert [finding.code for finding in found.findings] == [FindingCode.OTHER_CHOICE]
    shown = explanation_check.examine(explain="sell", params={"do\u202e": "BUY\u202e"}).findings[0].message
    assert "\u202e" not in shown


def test_compatibility_forms_are_read_as_what_they_look_like() -> None:
    assert codes("\uff33\uff25\uff2c\uff2c AAPL") == ["ACTION_OPPOSED"]


def test_more_findings_than_a_person_reads_are_cut() -> None:
    params = {f"n{at}": f"user_{at}" for at in range(50)}
    found = explanation_check.examine(explain="for user_99", params=params)
    assert len(found.findings) == explanation_check.MAX_FINDINGS


def test_parameters_are_read_up_to_a_bound() -> None:
    deep: Any = "BUY"
    for _ in range(20):
        deep = [deep]
    assert codes("selling", {"deep": deep}) == []
    assert codes("selling", {"many": [*range(300), "BUY"]}) == []


def test_text_is_read_up_to_a_bound() -> None:
    tokens = text_tokens.read("a " * 50_000)
    assert len(tokens) == text_tokens.MAX_TOKENS
    assert len(text_tokens.fold("\ufdfa" * 50_000)) <= text_tokens.MAX_CHARS


def test_every_word_of_the_table_means_one_thing() -> None:
    listed = [
        word for sides in antonyms.ROWS.values() for side in sides for cell in side for word in cell.split()
    ]
    assert sorted(listed) == sorted(set(listed))
    assert all(actions.is_action(word) for word in listed)
    assert set(antonyms.NEIGHBOURS.values()) == set(antonyms.NEIGHBOURS)
