"""What may be asked of rulesets and of the recommender: bounded, and every number one that JSON holds."""

from typing import Any

import pytest
from pydantic import ValidationError

from audit import canonical
from runtime.contracts.advice import DecideRequest, RulesRequest
from runtime.contracts.decision import MAX_OBJECTIVES, MAX_OPTIONS
from runtime.contracts.ruleset import MAX_FEATURES

OBJECTIVE = {"id": "margin", "weight": 0.5}
OPTION = {"id": "a", "action": {"name": "GO"}}


def pointers(caught: pytest.ExceptionInfo[ValidationError]) -> set[str | int]:
    """The fields of the body that are refused."""
    return {error["loc"][0] for error in caught.value.errors()}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"ruleset": ""}, "ruleset"),
        ({"ruleset": "r", "ages_s": {"score": -1}}, "ages_s"),
        ({"ruleset": "r", "ages_s": {"score": 1.5}}, "ages_s"),
        ({"ruleset": "r", "features": {f"f{at}": 1 for at in range(MAX_FEATURES + 1)}}, "features"),
        ({"ruleset": "r", "colour": "red"}, "colour"),
    ],
)
def test_a_body_of_rules_is_bounded(body: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RulesRequest.model_validate_json(canonical.encode(body))
    assert pointers(caught) == {field}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"objectives": [{"id": "margin", "weight": 100_001}]}, "objectives"),
        ({"objectives": [{"id": "margin", "weight": -0.5}]}, "objectives"),
        ({"objectives": [OBJECTIVE] * (MAX_OBJECTIVES + 1)}, "objectives"),
        ({"options": [OPTION] * (MAX_OPTIONS + 1)}, "options"),
        ({"options": [{**OPTION, "confidence": 1.1}]}, "options"),
        ({"options": [{**OPTION, "utilities": {"margin": 10**9 + 1}}]}, "options"),
        ({"options": [{**OPTION, "utilities": {"margin": "1"}}]}, "options"),
    ],
)
def test_a_body_of_decide_is_bounded(body: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        DecideRequest.model_validate_json(canonical.encode(body))
    assert pointers(caught) == {field}


def test_what_a_body_leaves_out_is_nothing() -> None:
    assert DecideRequest.model_validate_json(b"{}").options is None
    asked = RulesRequest.model_validate_json(b'{"ruleset":"r"}')
    assert (asked.features, asked.ages_s) == ({}, {})
    decide = DecideRequest.model_validate_json(
        canonical.encode({"objectives": [OBJECTIVE], "options": [OPTION]})
    )
    assert decide.options is not None
    assert decide.options[0].utilities == {}
