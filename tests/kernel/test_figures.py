"""Figures: what the runtime works out for itself, beside what the agent states of it."""

from typing import Any

import pytest

from audit import canonical
from runtime.contracts.states import Decision, Impact
from runtime.contracts.verdict import VerdictDocument
from runtime.kernel.gate import pipeline
from runtime.kernel.rules import figures, language
from tests.support import gate_cases

LIVE = "params.quantity * context.facts.price[params.symbol]"
BY_FIGURE: dict[str, Any] = {
    "figures": [{"param": "notional_cents", "value": LIVE}],
    "impact": "figures.notional_cents > 250000 ? 'HIGH_IMPACT' : 'LOW_IMPACT'",
    "limits": [
        {
            "id": "max_notional",
            "value": "figures.notional_cents",
            "limit": "manifest.limits.max_notional_cents",
        }
    ],
    "claims": [{"resource": "cash", "amount": "figures.notional_cents"}],
}


def judged(price: Any, stated: int = 94_750, **fields: Any) -> VerdictDocument:
    """The verdict on five shares at `price` cents, for which the agent states `stated` cents."""
    facts = gate_cases.facts(world={**gate_cases.WORLD, "price.AAPL": price})
    kind = gate_cases.kind(**{**BY_FIGURE, "claims": [], "depends_on": [], "constraints": [], **fields})
    return pipeline.judge(
        gate_cases.proposal(params={**gate_cases.PARAMS, "notional_cents": stated}),
        facts,
        gate_cases.rules(kind=kind),
        gate_cases.NOW_MS,
    )


def test_the_headline_is_what_the_runtime_works_out_and_the_agents_figure_stands_beside() -> None:
    verdict = judged(60_000)
    assert verdict.effect_text == "BUY 5 AAPL for 3,000.00"
    (figure,) = verdict.figures
    assert (figure.stated, figure.live) == (94_750, 300_000)
    assert (figure.stated_text, figure.live_text) == ("947.50", "3,000.00")


@pytest.mark.parametrize(
    ("price", "stated", "impact", "value"),
    [
        (60_000, 94_750, Impact.HIGH_IMPACT, "300000"),
        (18_950, 300_000, Impact.HIGH_IMPACT, "300000"),
        (18_950, 94_750, Impact.LOW_IMPACT, None),
        (22_000, 1, Impact.LOW_IMPACT, "110000"),
    ],
)
def test_impact_and_limits_take_the_greater(
    price: int, stated: int, impact: Impact, value: str | None
) -> None:
    verdict = judged(price, stated)
    assert verdict.impact is impact
    assert [item.proposed_value for item in verdict.reasons] == ([value] if value else [])


def test_a_figure_that_cannot_be_worked_out_fails_closed() -> None:
    verdict = judged("dear")
    assert verdict.figures == ()
    assert verdict.impact is Impact.HIGH_IMPACT
    assert {item.check for item in verdict.reasons} == {"limits"}
    assert verdict.effect_text == "BUY 5 AAPL for 947.50"


def test_a_verdict_without_figures_has_the_bytes_of_before() -> None:
    verdict = judged(18_950, figures=[], impact="'LOW_IMPACT'", limits=[])
    assert "figures" not in canonical.decode(verdict.to_bytes())


@pytest.mark.parametrize(
    ("stated", "greater"), [(None, 7), ("9", "9"), ("6.9", 7), (8, 8), (6, 7), (7.5, 7.5)]
)
def test_a_greater_amount_outweighs_the_live_one(stated: Any, greater: Any) -> None:
    assert figures.Figured(param="n", stated=stated, live=7).greater == greater


@pytest.mark.parametrize("stated", [True, "many", "NaN", [9], {}])
def test_what_is_stated_and_no_amount_leaves_no_figure(stated: Any) -> None:
    kind = gate_cases.kind(figures=[{"param": "quantity", "value": "1"}])
    assert figures.work_out(kind, language.Names({"params": {"quantity": stated}})) == ()


@pytest.mark.parametrize(
    ("stated", "decision", "impact"),
    [
        ("999999999", Decision.ESCALATE, Impact.HIGH_IMPACT),
        ("40", Decision.ACCEPT, Impact.LOW_IMPACT),
        ("forty", Decision.REJECT, Impact.HIGH_IMPACT),
    ],
)
def test_an_amount_in_text_fails_closed(stated: str, decision: Decision, impact: Impact) -> None:
    base = gate_cases.KIND["params_schema"]
    amount = {**base["properties"], "amount": {"type": "string", "maxLength": 20}}
    kind = gate_cases.kind(
        params_schema={**base, "properties": amount},
        figures=[{"param": "amount", "value": "params.quantity * 10"}],
        impact="figures.amount > 250000 ? 'HIGH_IMPACT' : 'LOW_IMPACT'",
        limits=[{"id": "m", "value": "figures.amount", "limit": "manifest.limits.max_notional_cents"}],
    )
    proposal = gate_cases.proposal(params={**gate_cases.PARAMS, "amount": stated})
    verdict = gate_cases.judge(proposal=proposal, rules=gate_cases.rules(kind=kind))
    assert (verdict.decision, verdict.impact) == (decision, impact)


def test_a_decimal_text_is_no_figure() -> None:
    kind = gate_cases.kind(figures=[{"param": "quantity", "value": "'1.5'"}])
    assert figures.work_out(kind, language.Names({"params": {}})) == ()
    assert figures.work_out(None, language.Names({})) == ()
