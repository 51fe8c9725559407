"""What would follow from an ACCEPT: impact, sentence, difference and calls, or why no call can be made."""

from typing import Any

import pytest

from runtime.contracts.states import Decision, Impact
from runtime.contracts.verdict import Verdict
from runtime.kernel.gate import consequence
from tests import builders


def judged(**kind: Any) -> Verdict:
    """The verdict on the plain proposal under a kind with these fields."""
    return builders.judge(rules=builders.rules(kind=builders.kind(**kind)))


def test_the_sentence_is_the_kinds_with_the_values_apart() -> None:
    verdict = builders.judge()
    assert verdict.effect_text == "BUY 5 AAPL for 947.50"
    assert [piece.text for piece in verdict.effect if piece.value] == ["BUY", "5", "AAPL", "947.50"]


def test_the_difference_shows_live_and_expected_values() -> None:
    (item,) = judged(predicts=[{"fact": "price.${params.symbol}", "value": "params.quantity"}]).predicted
    assert (item.fact, item.current, item.proposed) == ("price.AAPL", 18950, 5)


@pytest.mark.parametrize(("amount", "impact"), [(250_000, Impact.LOW_IMPACT), (250_001, Impact.HIGH_IMPACT)])
def test_the_impact_is_the_kinds(amount: int, impact: Impact) -> None:
    asked = builders.proposal(params={**builders.PARAMS, "notional_cents": amount})
    assert builders.judge(proposal=asked).impact is impact


@pytest.mark.parametrize("source", ["'HUGE'", "params.nothing", "1", "true", "1 / 0"])
def test_an_impact_that_cannot_be_told_is_high(source: str) -> None:
    assert judged(impact=source).impact is Impact.HIGH_IMPACT


@pytest.mark.parametrize("missing", ["kind", "manifest"])
def test_without_rules_the_impact_is_high_and_nothing_is_promised(missing: str) -> None:
    verdict = builders.judge(rules=builders.rules(**{missing: None}))
    assert verdict.impact is Impact.HIGH_IMPACT
    assert verdict.predicted == ()
    assert bool(verdict.effect) is (missing == "manifest")


def test_a_call_is_rendered_once_with_a_key_of_its_own() -> None:
    (step,) = builders.judge().steps
    assert (step.step, step.target, step.method, step.path) == ("order", "broker", "POST", "/orders/AAPL")
    assert step.body["params"] == builders.PARAMS
    assert step.timeout_s == consequence.DEFAULT_TIMEOUT_S
    (other,) = builders.judge(proposal=builders.proposal(intent_id="another")).steps
    assert other.key != step.key


@pytest.mark.parametrize(
    "request_of",
    [
        {"path": "/orders/${params.nothing}"},
        {"path": "/orders/${params.action == 'BUY' ? '' : 'x'}"},
        {"path": "/orders", "body": "params.nothing"},
        {"path": "/orders", "body": "1"},
        {"path": "/orders", "body": "{'n': 1.0 / 0.0}"},
        {"path": "/orders", "body": "{'n': [double(params.quantity) * 1e18]}"},
    ],
)
def test_what_cannot_be_made_into_a_call_is_rejected(request_of: dict[str, Any]) -> None:
    step = {"id": "order", "target": "broker", "request": request_of}
    verdict = judged(steps=[step])
    assert verdict.decision is Decision.REJECT
    assert builders.codes(verdict) == ["RENDERING_FAILED"]
    assert verdict.reasons[0].message.startswith("The request cannot be made: ")


@pytest.mark.parametrize("value", ["double(params.quantity) * 1e18", "{'a': [1e19]}"])
def test_a_number_that_json_would_not_keep_is_not_predicted(value: str) -> None:
    verdict = judged(predicts=[{"fact": "price.AAPL", "value": value}])
    assert verdict.predicted == ()
    assert Verdict.from_bytes(verdict.to_bytes()) == verdict


def test_a_rejected_proposal_makes_no_calls() -> None:
    assert builders.judge(proposal=builders.proposal(params={})).steps == ()


def test_a_kind_without_steps_is_accepted_without_calls() -> None:
    verdict = judged(steps=[])
    assert (verdict.decision, verdict.steps) == (Decision.ACCEPT, ())
