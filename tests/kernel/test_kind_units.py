"""The units of a kind: read from its schemas and limits, linted, and without a part in any verdict."""

from typing import Any

import pytest

from audit import canonical
from runtime.contracts.facts import ResourceFacts
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import Decision
from runtime.contracts.units import AmountUnits
from runtime.contracts.verdict import Finding, FindingOutcome
from runtime.kernel import finding_words, kind_diff, schemas
from runtime.kernel.budget_rules import Spent
from runtime.kernel.gate import case_units
from runtime.kernel.gate.pipeline import Judgement
from runtime.kernel.rules import kind_linter, kind_units
from tests.support import gate_cases

AMOUNT = {"type": "integer", "minimum": 1, "x-unit": "cents USD"}
LIMIT = {"id": "most", "value": "params.amount", "limit": "manifest.limits.most"}
CASH = ResourceFacts(name="cash", unit="cents USD", capacity=10, reserved=0, committed=0)


def with_schema(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def kind(amount: Any = AMOUNT, **fields: Any) -> KindDocument:
    document = {
        "kind": "PAY",
        "version": "1.0.0",
        "title": "Pay",
        "risk_tier": "T1",
        "params_schema": with_schema({"amount": amount}),
        "limits": [LIMIT],
        "effect": "Pay {amount|cents}",
        **fields,
    }
    return KindDocument.from_bytes(canonical.encode(document))


def judged(amount: Any) -> Judgement:
    """The stored input of a verdict about this amount."""
    asked = gate_cases.proposal(params={"amount": amount}, execution_constraints={})
    return Judgement(proposal=asked, facts=gate_cases.facts(resources=None), now_ms=0, rules_digest="")


def lint(document: KindDocument) -> list[tuple[str, str]]:
    found = kind_linter.lint_kind(document)
    return [(".".join(map(str, one.place)), one.message) for one in found]


def test_every_part_of_a_kind_has_its_units() -> None:
    found = kind_units.of_kind(
        kind(
            constraints_schema=with_schema({"slippage": {"type": "integer", "x-unit": "bps"}, "note": {}}),
            limits=[
                LIMIT,
                {"id": "worth", "value": "params.amount * 2", "limit": "9", "unit": "USD"},
                {"id": "bound", "value": " constraints.slippage ", "limit": "9"},
                {"id": "figured", "value": "figures.amount", "limit": "9"},
                {"id": "made", "value": "params.amount * 2", "limit": "9"},
                {"id": "other", "value": "agent.amount", "limit": "9"},
            ],
        ),
        [CASH],
    )
    assert found == AmountUnits(
        params={"amount": "cents USD"},
        constraints={"slippage": "bps"},
        limits={"most": "cents USD", "worth": "USD", "bound": "bps", "figured": "cents USD"},
        resources={"cash": "cents USD"},
    )
    assert found.of_finding("limits", "most") == "cents USD"
    assert found.of_finding("resources", "cash") == "cents USD"
    assert found.of_finding("limits", "cash") == ""
    assert found.of_finding("confidence", "most") == ""
    assert {found.of_finding("budget", spent) for spent in Spent} == {"tokens", "micros USD", "calls", "s"}
    assert kind_units.of_kind(None, [CASH]) == AmountUnits()
    assert AmountUnits().model_dump() == {}


def test_a_unit_is_found_behind_a_reference_and_one_that_is_none_counts_as_none() -> None:
    schema = with_schema(
        {"amount": {"$ref": "#/$defs/money"}, "bad": {"type": "integer", "x-unit": "cents"}, "list": True},
        **{"$defs": {"money": AMOUNT}},
        allOf=[with_schema({"fee": {"type": ["integer", "null"], "x-unit": "cents EUR"}})],
    )
    assert kind_units.of_schema(schema) == {"amount": "cents USD", "fee": "cents EUR"}
    assert [place for place, _ in lint(kind(params_schema=schema))] == ["params_schema.properties.bad.x-unit"]


def test_the_limits_of_a_manifest_have_the_unit_of_what_they_are_compared_with() -> None:
    dollars = kind(
        amount={"type": "integer", "x-unit": "USD"},
        limits=[
            LIMIT,
            {"id": "more", "value": "params.amount", "limit": "manifest.limits.more"},
            {"id": "half", "value": "params.amount", "limit": "manifest.limits.half / 2"},
            {"id": "made", "value": "params.amount + 1", "limit": "manifest.limits.made"},
        ],
    )
    assert kind_units.of_manifest_limits([kind()]) == {"most": "cents USD"}
    # Two kinds that count it in different units: no page could say which.
    assert kind_units.of_manifest_limits([kind(), dollars]) == {"more": "USD", "half / 2": "USD"}
    assert kind_units.of_manifest_limits([]) == {}


def test_what_a_schema_compares_an_amount_with_is_found_by_its_path() -> None:
    before, after = kind(), kind(amount={**AMOUNT, "minimum": 5, "title": "Amount"})
    found = {item.path for item in kind_diff.differences(before, after)}
    assert found == {"params_schema.properties.amount.minimum", "params_schema.properties.amount.title"}
    known = kind_units.of_paths(after)
    assert known["params_schema.properties.amount.minimum"] == "cents USD"
    assert "params_schema.properties.amount.title" not in known


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ({"type": "integer", "x-unit": "cents"}, '"cents" has no currency: write cents USD'),
        (
            {"type": "integer", "x-unit": "cents JPY"},
            '"cents JPY" is wrong, since JPY has no cents: write JPY',
        ),
        ({"type": "integer", "x-unit": "per day"}, '"per day" is no unit'),
        ({"type": "integer", "x-unit": 2}, '"2" is no text'),
        ({"type": "string", "x-unit": "USD"}, "only a number has a unit"),
        ({"type": ["integer", "string"], "x-unit": "USD"}, "only a number has a unit"),
        ({"x-unit": "USD"}, "only a number has a unit"),
        ({"type": "null", "x-unit": "USD"}, "only a number has a unit"),
    ],
)
def test_a_unit_that_is_none_is_refused_with_its_place(amount: dict[str, Any], words: str) -> None:
    found = [(place, said) for place, said in lint(kind(amount=amount, limits=[])) if "x-unit" in place]
    assert [place for place, _ in found] == ["params_schema.properties.amount.x-unit"]
    assert words in found[0][1]


@pytest.mark.parametrize(
    "schema",
    [
        {"params_schema": with_schema({"amount": with_schema({"deep": AMOUNT})})},
        {"params_schema": with_schema({"amount": {"type": "array", "items": AMOUNT}})},
        {"params_schema": with_schema({"amount": {"type": "integer"}}, **{"x-unit": "USD"})},
        {"params_schema": with_schema({"amount": {"type": "integer"}}, **{"$defs": {"money": AMOUNT}})},
        {"outputs_schema": with_schema({"amount": AMOUNT})},
    ],
)
def test_a_unit_where_nothing_reads_it_is_refused(schema: dict[str, Any]) -> None:
    (name,) = schema
    found = [(place, said) for place, said in lint(kind(limits=[], **schema)) if "x-unit" in said]
    assert [place for place, _ in found] == [name]
    assert "elsewhere it has no effect" in found[0][1]


@pytest.mark.parametrize(
    ("watched", "expected", "place", "words"),
    [
        ({"unit": "cents USD"}, {"unit": "cents USD"}, "", ""),
        ({"unit": "cents USD"}, {}, "", ""),
        ({}, {"unit": "shares"}, "", ""),
        ({"unit": "cents"}, {}, "depends_on.0.unit", '"cents" has no currency'),
        ({}, {"unit": "cents JPY"}, "predicts.0.unit", "JPY has no cents"),
        ({"unit": "cents USD"}, {"unit": "USD"}, "predicts.0.unit", "is in cents USD elsewhere, not USD"),
    ],
)
def test_the_unit_of_a_fact_is_a_unit_and_one_only(
    watched: dict[str, Any], expected: dict[str, Any], place: str, words: str
) -> None:
    document = kind(
        depends_on=[{"fact": "cash.main", **watched}],
        predicts=[{"fact": "cash.main", "value": "1", **expected}],
    )
    found = [(at, said) for at, said in lint(document) if at.endswith(".unit")]
    assert [at for at, _ in found] == ([place] if place else [])
    assert all(words in said for _, said in found)


def test_the_facts_of_a_case_have_the_units_that_the_kind_names_by_path() -> None:
    document = kind(
        depends_on=[
            {"fact": "rate.${'x' + string(params.amount)}", "unit": "bps"},
            {"fact": "cash.main", "unit": "cents USD"},
            "market.state",
        ],
        predicts=[
            {"fact": "cash.main", "value": "1"},
            {"fact": "stock.main", "value": "1", "unit": "shares"},
            {"fact": "stock.${params.missing}", "value": "1", "unit": "shares"},
        ],
    )
    asked = judged(3)
    assert case_units.of_case(document, asked).facts == {
        "rate.x3": "bps",
        "cash.main": "cents USD",
        "stock.main": "shares",
    }
    assert case_units.of_case(document, asked).params == {"amount": "cents USD"}
    assert case_units.of_case(None, asked) == AmountUnits()
    # Over parameters that do not fit their schema nothing is evaluated.
    assert case_units.of_case(document, judged("3")).facts == {}
    plain = document.model_copy(update={"depends_on": (), "predicts": ()})
    assert plain.model_dump() == KindDocument.from_bytes(plain.to_bytes()).model_dump()


def test_a_kind_without_units_of_facts_has_the_bytes_it_had() -> None:
    assert b'"unit"' not in kind(depends_on=["market.state"]).to_bytes()


def test_a_property_may_be_called_like_the_keyword() -> None:
    schema = with_schema({"amount": AMOUNT, "x-unit": {"type": "string"}})
    assert lint(kind(params_schema=schema)) == []


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"unit": "cents"}, '"cents" has no currency'),
        ({"unit": "USD"}, "the value params.amount is in cents USD, not USD"),
        ({"unit": "cents USD"}, None),
        ({"unit": "USD", "value": "params.amount / 100"}, None),
    ],
)
def test_the_unit_of_a_limit_is_a_unit_and_that_of_its_value(
    limit: dict[str, Any], words: str | None
) -> None:
    found = [said for place, said in lint(kind(limits=[{**LIMIT, **limit}])) if place == "limits.0.unit"]
    assert len(found) == (words is not None)
    assert all(words in said for said in found if words)


def test_a_schema_that_cannot_be_read_is_not_searched_for_units() -> None:
    deep: dict[str, Any] = AMOUNT
    for _ in range(80):
        deep = {"type": "object", "not": deep}
    assert [place for place, _ in lint(kind(outputs_schema=deep))] == ["outputs_schema"]


def with_units() -> KindDocument:
    """The plain kind of the gate's tests, with a unit wherever one may stand."""
    document = gate_cases.kind().model_dump(mode="json")
    document["params_schema"]["properties"]["notional_cents"]["x-unit"] = "cents USD"
    document["constraints_schema"]["properties"]["validity_window_sec"]["x-unit"] = "s"
    document["limits"][0]["unit"] = "cents USD"
    return KindDocument.from_bytes(canonical.encode(document))


@pytest.mark.parametrize("cents", [94_750, 150_000, 300_000])
def test_units_change_no_byte_of_a_verdict(cents: int) -> None:
    given = gate_cases.proposal(params={**gate_cases.PARAMS, "notional_cents": cents})
    plain, measured = (
        gate_cases.judge(proposal=given, rules=gate_cases.rules(kind=document))
        for document in (gate_cases.kind(), with_units())
    )
    assert plain.to_bytes() == measured.to_bytes()
    assert plain.decision is (Decision.ACCEPT if cents < 100_000 else Decision.ESCALATE)


def test_a_kind_without_units_keeps_its_bytes() -> None:
    plain = gate_cases.kind()
    assert b"unit" not in plain.to_bytes()
    assert with_units().digest != plain.digest


@pytest.mark.parametrize("value", [5, 0, "5"])
def test_a_schema_refuses_the_same_with_a_unit_and_without(value: Any) -> None:
    plain = {name: what for name, what in AMOUNT.items() if name != "x-unit"}
    with_one, without = with_schema({"amount": AMOUNT}), with_schema({"amount": plain})
    assert schemas.check_schema(with_one) == ()
    assert schemas.violations(with_one, {"amount": value}) == schemas.violations(without, {"amount": value})


def finding(message: str, value: str | None = "473382") -> Finding:
    return Finding(
        check="limits",
        outcome=FindingOutcome.REFER,
        code="RISK_LIMIT_EXCEEDED",
        subject="most",
        message=message,
        proposed_value=value,
        limit="100000",
    )


def test_a_finding_says_its_amounts_with_their_unit() -> None:
    known, plain = kind_units.of_kind(kind(), ()), finding("most: 473382 is above the limit of 100000")
    said = "most: 4,733.82 USD is above the limit of 1,000.00 USD"
    assert finding_words.message_of(plain, known) == said
    assert finding_words.is_excess(plain)
    for other, units in (
        (plain, AmountUnits()),
        (finding("most: Ask the desk"), known),
        (finding("most: could not be evaluated: OVERFLOW", value=None), known),
        (finding("most: 1e3 is above the limit of 100000", value="1e3"), known),
    ):
        assert finding_words.message_of(other, units) == other.message


def test_the_gate_says_so_where_the_kind_has_no_message_of_its_own() -> None:
    given = gate_cases.proposal(params={**gate_cases.PARAMS, "notional_cents": 150_000})
    (found,) = gate_cases.judge(proposal=given).reasons
    assert finding_words.is_excess(found)


def test_the_amounts_that_limits_bound_are_added_up_by_unit() -> None:
    other = {"type": "integer", "x-unit": "cents USD"}
    schema = with_schema({"amount": AMOUNT, "fee": other, "parts": {"type": "integer", "x-unit": "parts"}})
    limits = [
        LIMIT,
        {"id": "again", "value": "figures.amount", "limit": "5"},
        {"id": "fee", "value": "params.fee", "limit": "5"},
        {"id": "both", "value": "params.amount + params.parts", "limit": "5"},
        {"id": "seen", "value": "context.facts.parts", "limit": "5"},
    ]
    known = kind(params_schema=schema, limits=limits)
    stated = {"amount": 1_200, "fee": 34, "parts": 7}
    assert kind_units.list_amounts(known, stated) == {"cents USD": 1_234}
    for unfit in (True, "12", 1.5, None):
        assert kind_units.list_amounts(known, {"amount": unfit, "fee": 1}) == {"cents USD": 1}
    assert kind_units.list_amounts(kind({"type": "integer"}), stated) == {}
