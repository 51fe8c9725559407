"""Which way a new version of a kind goes, field by field."""

from typing import Any

import pytest

from runtime.kernel import kind_diff
from runtime.kernel.version_diff import Change
from tests.support import gate_cases

RULE = {"id": "R_NEW", "require": "params.quantity < 100"}


def told(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, Change]]:
    found = kind_diff.differences(gate_cases.kind(**before), gate_cases.kind(**{"version": "1.3.0", **after}))
    return [(item.path, item.change) for item in found]


def params(**changes: Any) -> dict[str, Any]:
    return {"params_schema": {**gate_cases.KIND["params_schema"], **changes}}


def quantity(**part: Any) -> dict[str, Any]:
    properties = {**gate_cases.KIND["params_schema"]["properties"], "quantity": {"type": "integer", **part}}
    return params(properties=properties)


def test_another_version_alone_is_no_difference() -> None:
    assert told({}, {}) == []


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ({}, {"rules": [*gate_cases.KIND["rules"], RULE]}, "rules.R_NEW"),
        ({"limits": []}, {}, "limits.max_notional"),
        ({"constraints": []}, {}, "constraints.max_price"),
        ({}, {"claims": [{"resource": "cash", "amount": "1"}]}, "claims.cash"),
        ({}, {"depends_on": [*gate_cases.KIND["depends_on"], "desk.mood"]}, "depends_on.desk.mood"),
        ({}, {"risk_tier": "T2"}, "risk_tier"),
        ({"on_unknown": "resend"}, {"on_unknown": "person"}, "on_unknown"),
        ({"on_unknown": "resend"}, {"on_unknown": "probe"}, "on_unknown"),
        ({"confidence_waiver": True}, {}, "confidence_waiver"),
        ({"allowed_outcomes": ["A", "B"]}, {"allowed_outcomes": ["A"]}, "allowed_outcomes"),
        ({}, {"allowed_outcomes": ["A"]}, "allowed_outcomes"),
        ({}, {"red_lines": ["Never twice"]}, "red_lines"),
        ({"sla_s": 600}, {"sla_s": 300}, "sla_s"),
        ({}, {"approvals": 2}, "approvals"),
        ({"cooling_s": 30}, {"cooling_s": 90}, "cooling_s"),
        (
            {"scorecard": {"targets": {"tokens": 9}}},
            {"scorecard": {"targets": {"tokens": 5}}},
            "scorecard.targets.tokens",
        ),
        (
            {"scorecard": {"minimum": {"policy": "0.5"}}},
            {"scorecard": {"minimum": {"policy": "0.75"}}},
            "scorecard.minimum.policy",
        ),
        ({"approval_mode": "person"}, {"approval_mode": "two_persons"}, "approval_mode"),
        ({}, {"gate_id": "GATE_DESK"}, "gate_id"),
        ({}, {"red_lines": [{"id": "L", "forbid": "false"}]}, "red_lines"),
        (params(required=[]), params(required=["symbol"]), "params_schema.required"),
        (
            params(additionalProperties=True),
            params(additionalProperties=False),
            "params_schema.additionalProperties",
        ),
        (quantity(minimum=1), quantity(minimum=2), "params_schema.properties.quantity.minimum"),
        (quantity(), quantity(maximum=9), "params_schema.properties.quantity.maximum"),
        (quantity(enum=[1, 2]), quantity(enum=[1]), "params_schema.properties.quantity.enum"),
    ],
)
def test_a_field_that_tightens_loosens_the_other_way(
    before: dict[str, Any], after: dict[str, Any], place: str
) -> None:
    assert told(before, after) == [(place, Change.TIGHTENED)]
    assert told(after, before) == [(place, Change.LOOSENED)]


def test_a_rule_that_rejects_where_it_asked_a_person_is_tighter() -> None:
    asking = [{**RULE, "on_fail": "ESCALATE"}]
    assert told({"rules": asking}, {"rules": [RULE]}) == [("rules.R_NEW.on_fail", Change.TIGHTENED)]


def test_a_fact_of_which_some_change_is_immaterial_now_is_looser() -> None:
    found = told({"depends_on": ["a.b"]}, {"depends_on": [{"fact": "a.b", "unless": "current == seen"}]})
    assert found == [("depends_on.a.b.unless", Change.LOOSENED)]


def test_an_expression_that_reads_otherwise_is_changed() -> None:
    limits = [{**gate_cases.KIND["limits"][0], "limit": "manifest.limits.other"}]
    assert told({}, {"limits": limits}) == [("limits.max_notional.limit", Change.CHANGED)]
    assert told({}, {"impact": "'LOW_IMPACT'"}) == [("impact", Change.CHANGED)]
    assert told({}, {"effect": "Do {action}"}) == [("effect", Change.CHANGED)]


def test_how_long_words_are_kept_neither_tightens_nor_loosens() -> None:
    thirty = {"retention_days": 30}
    assert told(thirty, {"retention_days": 9}) == [("retention_days", Change.CHANGED)]
    assert told({}, thirty) == [("retention_days", Change.ADDED)]
    assert told({}, {"steps": []}) == [("steps.order", Change.REMOVED)]


def test_a_parameter_that_comes_is_one_difference() -> None:
    properties = {
        **gate_cases.KIND["params_schema"]["properties"],
        "note": {"type": "string", "maxLength": 9},
    }
    assert told({}, params(properties=properties)) == [("params_schema.properties.note", Change.ADDED)]
    assert told({}, quantity(type="number")) == [
        ("params_schema.properties.quantity.minimum", Change.LOOSENED),
        ("params_schema.properties.quantity.type", Change.CHANGED),
    ]


def test_a_parameter_of_any_form_and_a_schema_without_any_can_be_compared() -> None:
    anything = params(properties={"note": True}, required=[])
    assert ("params_schema.properties.note.schema", Change.CHANGED) in told(
        anything, params(properties={"note": False}, required=[])
    )
    assert told({"outputs_schema": {"type": "object"}}, {}) == [("outputs_schema.type", Change.REMOVED)]
