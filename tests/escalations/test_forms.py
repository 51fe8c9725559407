"""The decision form, read: what was typed as the schema has it, or a sentence that says what to correct."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from django.http import QueryDict

from escalations import forms
from escalations.contracts import Action
from escalations.services.decision_request import DecisionRequest, StatementRequest
from runtime.contracts.problem import Problem
from runtime.contracts.states import Effect

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "symbol": {"type": "string"},
        "quantity": {"type": "integer"},
        "price": {"type": "number"},
        "live": {"type": "boolean"},
        "tags": {"type": "array"},
        "legs": {"type": "object"},
        "note": {"type": ["string", "null"]},
        "size": {"type": ["null", "integer"]},
        "mixed": {"type": ["integer", "string"]},
        "level": {"enum": [1, 2, "high"]},
        "anything": True,
    },
}
PLAIN = {"action": "OVERRIDE", "version": "3", "evidence_hash": "a" * 64, "impact": "LOW_IMPACT"}


def read(**fields: str) -> DecisionRequest | Problem:
    """The form with these fields, as a browser posts it."""
    return forms.DecisionForm(
        QueryDict(urlencode({**PLAIN, **fields})), params_schema=SCHEMA, proposed={}
    ).read()


def decision(**fields: str) -> DecisionRequest:
    """The decision that the form states."""
    found = read(**fields)
    assert isinstance(found, DecisionRequest), found
    return found


def problem(**fields: str) -> Problem:
    """What has to be corrected."""
    found = read(**fields)
    assert isinstance(found, Problem), found
    assert found.status == 400
    return found


def typed(name: str, text: str) -> Any:
    """What one typed parameter becomes; "(absent)" where it becomes none."""
    params = decision(**{f"param:{name}": text, "param:symbol": "X"}).params
    assert params is not None
    return params.get(name, "(absent)")


def test_a_plain_form_becomes_a_wish() -> None:
    assert decision(
        justification="  Agreed. ", conditions="a == 1\n\n  b == 2 \n", typed_again="1"
    ) == DecisionRequest(
        action=Action.OVERRIDE,
        evidence_hash="a" * 64,
        version=3,
        impact="LOW_IMPACT",
        justification="Agreed.",
        conditions=("a == 1", "b == 2"),
        typed_again="1",
    )


@pytest.mark.parametrize("action", ["", "override", "APPROVE", "OVERRIDE "])
def test_an_action_is_one_of_those_offered(action: str) -> None:
    assert problem(action=action).code == "ACTION_UNKNOWN"


@pytest.mark.parametrize("version", ["", "-1", "1.0", "x", "\u0663", "1e3", "9" * 11, " 1"])
def test_a_version_is_a_whole_number(version: str) -> None:
    assert problem(version=version).code == "VERSION_UNREADABLE"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("quantity", "5", 5),
        ("quantity", " 5 ", 5),
        ("quantity", "5.0", 5),
        ("quantity", "5.5", 5.5),
        ("quantity", "five", "five"),
        ("quantity", "1,000", "1,000"),
        ("quantity", "1e400", "1e400"),
        ("quantity", "NaN", "NaN"),
        ("quantity", "9" * 30, "9" * 30),
        ("quantity", "", "(absent)"),
        ("price", "0.1", 0.1),
        ("live", "on", True),
        ("live", "TRUE", True),
        ("live", "false", False),
        ("live", "maybe", False),
        ("tags", '["a", 1]', ["a", 1]),
        ("tags", "a, b", "a, b"),
        ("legs", '{"a": 1}', {"a": 1}),
        ("legs", '{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ("note", "5", "5"),
        ("size", "5", 5),
        ("mixed", "5", "5"),
        ("level", "2", 2),
        ("level", "high", "high"),
        ("level", "3", "3"),
        ("anything", "5", "5"),
        ("hidden", "5", "5"),
    ],
)
def test_a_typed_field_is_read_as_its_schema_says(name: str, text: str, value: Any) -> None:
    found = typed(name, text)
    assert (type(found), found) == (type(value), value)


def test_a_field_that_the_page_did_not_show_goes_on_to_the_gate() -> None:
    assert decision(**{"param:__admin": "1"}).params == {"__admin": "1"}


def test_json_comes_before_typed_fields_and_replaces_all_of_them() -> None:
    assert decision(**{"params": '{"quantity": 1.0}', "param:symbol": "X"}).params == {"quantity": 1}


def test_without_params_there_are_none() -> None:
    assert decision(params="  ").params is None


@pytest.mark.parametrize("text", ["[1]", "1", "{", '{"a":1,"a":2}', '{"a":1e999}', '{"a":NaN}', "null"])
def test_json_that_is_no_plain_object_is_refused(text: str) -> None:
    assert problem(params=text).code == "JSON_UNREADABLE"


def test_the_receipt_is_json_or_words() -> None:
    assert decision(receipt="order 17 at the desk").receipt == {"reference": "order 17 at the desk"}
    assert decision(receipt='{"order": 17}').receipt == {"order": 17}
    assert decision(receipt=" ").receipt is None
    assert problem(receipt='{"order":').code == "JSON_UNREADABLE"


@pytest.mark.parametrize(
    "name", ["justification", "conditions", "receipt", "params", "param:symbol", "impact"]
)
def test_a_nul_is_refused_before_it_reaches_the_database(name: str) -> None:
    assert problem(**{name: "a\x00b"}).code == "TEXT_UNREADABLE"


@pytest.mark.parametrize("name", ["justification", "receipt"])
def test_a_text_is_taken_whole_or_not_at_all(name: str) -> None:
    whole = ("x" * 79 + "\r\n") * 49  # a browser counts an end of line once
    assert len(whole) > 3_900
    full = whole + "x" * (forms.LONGEST_TEXT - len(whole.replace("\r\n", "\n")))
    assert len(full) > forms.LONGEST_TEXT
    taken = decision(**{name: full})
    assert full in {taken.justification, *(taken.receipt or {}).values()}
    assert problem(**{name: full + "x"}).code == "TEXT_TOO_LONG"


def test_the_reason_of_a_statement_is_taken_whole_or_not_at_all() -> None:
    def said(reason: str) -> StatementRequest | Problem:
        post = QueryDict(urlencode({"effect": "HAPPENED", "reason": reason}))
        return forms.StatementForm(post).read(intent_id=UUID(int=1), number=1)

    taken = said("x" * forms.LONGEST_TEXT)
    assert isinstance(taken, StatementRequest)
    assert len(taken.reason) == forms.LONGEST_TEXT
    refused = said("x" * (forms.LONGEST_TEXT + 1))
    assert isinstance(refused, Problem)
    assert refused.code == "TEXT_TOO_LONG"


@pytest.mark.parametrize("text", ["", *Effect.values()])
def test_what_became_of_a_call_is_one_of_three_or_left_open(text: str) -> None:
    assert decision(effect=text).effect == (Effect(text) if text else None)


@pytest.mark.parametrize("text", ["happened", "PROBABLY", " HAPPENED", "on"])
def test_another_effect_is_refused_with_those_that_may_be_said(text: str) -> None:
    found = read(effect=text)
    assert isinstance(found, Problem)
    assert (found.status, found.code) == (400, "EFFECT_UNREADABLE")
    assert "HAPPENED, NOT_HAPPENED, UNKNOWN" in found.detail


def test_the_first_field_that_is_wrong_is_named_and_a_nul_before_all() -> None:
    wrong = {"action": "OVERRIDE ", "version": "x", "effect": "on"}
    assert problem(**wrong, justification="x" * 5_000).code == "ACTION_UNKNOWN"
    assert problem(**{**wrong, "action": "ABORT"}).code == "VERSION_UNREADABLE"
    assert problem(**wrong, conditions="a\x00b").code == "TEXT_UNREADABLE"


def test_a_question_has_a_field_of_its_own() -> None:
    asked = {"action": "REQUEST_INFO", "justification": "x" * 5_000}
    assert decision(**asked, question=" Why\r\nnow? ").justification == "Why\nnow?"
    found = problem(**asked)
    assert (found.code, found.detail) == (
        "TEXT_TOO_LONG",
        "The question exceeds 4000 characters. Shorten it.",
    )


def test_conditions_are_taken_whole_or_not_at_all() -> None:
    # Cut at the limit, `params.n < 100` could become `params.n < 10`.
    assert problem(conditions="1 == 1\n" * 1_000).code == "TEXT_TOO_LONG"
