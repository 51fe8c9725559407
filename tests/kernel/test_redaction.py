"""What a redaction rule finds, what it leaves in place of it, and what it leaves alone."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from audit import canonical
from runtime.contracts.redaction import RedactedIn, Redaction, TextPattern
from runtime.kernel import redaction

CARD = "4111 1111 1111 1111"
HIDDEN = "[redacted: r]"


def rule(**fields: Any) -> Redaction:
    return Redaction.from_bytes(canonical.encode({"id": "r", **fields}))


def redact(value: Any, *rules: Redaction, source: RedactedIn = RedactedIn.RECEIPT) -> Any:
    return redaction.redact(value, rules, source=source).value


@pytest.mark.parametrize(
    ("pattern", "text", "left"),
    [
        ("card_number", f"paid with {CARD}.", f"paid with {HIDDEN}."),
        ("card_number", "4111111111111111", HIDDEN),
        ("card_number", "378282246310005 and 5555-5555-5555-4444", f"{HIDDEN} and {HIDDEN}"),
        ("card_number", f"in 2024 {CARD} was used, at 09:30", f"in 2024 {HIDDEN} was used, at 09:30"),
        ("card_number", "4111111111111112", "4111111111111112"),
        ("card_number", "order 94111111111111111", "order 94111111111111111"),
        ("card_number", "1" * 5000, "1" * 5000),
        ("iban", "to DE89 3704 0044 0532 0130 00 from him", f"to {HIDDEN} from him"),
        ("iban", "GB82WEST12345698765432", HIDDEN),
        ("iban", "DE89 3704 0044 0532 0130 01", "DE89 3704 0044 0532 0130 01"),
        (
            "email",
            "ask jane.doe+x@mail.example.org, or nobody@localhost",
            f"ask {HIDDEN}, or nobody@localhost",
        ),
        ("us_ssn", "123-45-6789, 000-45-6789, 1123-45-6789", f"{HIDDEN}, 000-45-6789, 1123-45-6789"),
    ],
)
def test_a_pattern_finds_what_has_its_form(pattern: str, text: str, left: str) -> None:
    assert redact(text, rule(pattern=pattern)) == left
    assert redact([text, {text: None}], rule(pattern=pattern)) == [left, {left: None}]


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("card", {"card": HIDDEN}),
        ("payers.*.name", {"payers": [{"name": HIDDEN, "age": 7}, {"name": None}]}),
        ("payers.0.*", {"payers": [{"name": HIDDEN, "age": HIDDEN}, {"name": None}]}),
        ("ok", {"ok": HIDDEN}),
        ("ok.deeper", {}),
    ],
)
def test_a_field_is_replaced_wherever_its_path_leads(field: str, changes: dict[str, Any]) -> None:
    value = {"card": {"no": 1}, "payers": [{"name": "Ann", "age": 7}, {"name": None}], "ok": True}
    left = {**value, **changes}
    assert redact(value, rule(field=field)) == left
    # Applied again there is nothing left to replace.
    assert redaction.redact(left, [rule(field=field)], source=RedactedIn.RECEIPT).times == {}


def test_numbers_are_read_as_their_digits_and_the_last_four_stay_where_they_tell_little() -> None:
    last = rule(pattern="card_number", keep="last_4")
    assert redact({"a": 4111111111111111, "b": 4111111111111111.0, "c": 1.5, "d": True}, last) == {
        "a": "[redacted: r] 1111",
        "b": "[redacted: r] 1111",
        "c": 1.5,
        "d": True,
    }
    assert redact({"pin": "12345678", "no": "AB-1234567890"}, rule(field="*", keep="last_4")) == {
        "pin": HIDDEN,
        "no": "[redacted: r] 7890",
    }
    assert redaction.is_marker("[redacted: r] 7890")
    assert not redaction.is_marker("[redacted: r] and more")
    assert not redaction.is_marker(7)


def test_a_rule_is_asked_only_where_it_says_and_counts_what_it_replaced() -> None:
    of_answers = rule(pattern="email", of=["answer"])
    assert redact("a@b.example", of_answers, source=RedactedIn.EXPLANATION) == "a@b.example"
    assert redact("a@b.example", of_answers, source=RedactedIn.ANSWER) == HIDDEN
    assert redact({"card": CARD}, rule(field="card"), source=RedactedIn.ANSWER) == {"card": CARD}
    found = redaction.redact(
        [CARD, f"{CARD}, {CARD}"], [rule(pattern="card_number")], source=RedactedIn.RECEIPT
    )
    assert found.times == {"r": 3}


def test_a_text_that_is_no_json_is_left_out_where_its_fields_must_go() -> None:
    assert redaction.redact_document("<h1>no", [rule(field="card")]) is None
    told = redaction.redact_document(f"<h1>{CARD}", [rule(pattern="card_number")])
    assert told is not None
    assert told.value == f"<h1>{HIDDEN}"
    # Of a name that stands twice a reader sees one value, the text has both; what is cut hides escapes.
    for broken in ('{"card": "x", "card": null}', '{"note": "\\u0034111 1111', "[1, 2"):
        assert redaction.redact_document(broken, [rule(pattern="card_number")]) is None
        assert redaction.redact_document(broken, []) == redaction.Redacted(value=broken, times={})
    unchanged = redaction.redact_document('{ "ok": 1 }', [rule(field="card")])
    assert unchanged is not None
    assert (unchanged.value, unchanged.times) == ('{ "ok": 1 }', {})
    whole = redaction.redact_document('{"card": "x", "ok": "é"}', [rule(field="card")])
    assert whole is not None
    assert whole.value == '{"card": "[redacted: r]", "ok": "é"}'


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"field": "a", "pattern": "iban"},
        {"field": "a", "of": ["answer"]},
        {"field": "a..b"},
        {"pattern": "x"},
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        rule(**fields)


SCALARS = st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)


@given(value=SCALARS, before=st.text(alphabet="a -,;\n", max_size=5), deep=st.integers(0, 3))
def test_a_card_is_found_however_deep_and_among_whatever(value: Any, before: str, deep: int) -> None:
    hidden: Any = {"note": f"{before} {CARD};", "beside": value}
    for _ in range(deep):
        hidden = [value, hidden]
    every = [Redaction(id=pattern.value, pattern=pattern) for pattern in TextPattern]
    found = redaction.redact(hidden, every, source=RedactedIn.RECEIPT)
    assert CARD not in json.dumps(found.value)
    assert redaction.redact(found.value, every, source=RedactedIn.RECEIPT).times == {}
