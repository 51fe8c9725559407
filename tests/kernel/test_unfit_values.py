"""Values that do not fit their schema: the cost of an expression is bounded for none of them."""

from typing import Any

import pytest

from runtime.contracts.states import Decision, Impact
from runtime.contracts.verdict import Finding, FindingOutcome
from runtime.kernel import schemas
from runtime.kernel.gate import recheck
from runtime.kernel.gate.gate_input import FIRST, PolicyBundle
from runtime.kernel.gate.pipeline import Judgement
from runtime.kernel.gate.recheck import Withdrawn
from runtime.kernel.rules import evaluate, language, safety
from tests.support import gate_cases

# One item more than their schema allows.
LISTED: dict[str, Any] = {
    **gate_cases.KIND["params_schema"],
    "properties": {
        **gate_cases.KIND["params_schema"]["properties"],
        "xs": {"type": "array", "maxItems": 2, "items": {"type": "integer"}},
    },
}
UNFIT = {**gate_cases.PARAMS, "xs": [1, 2, 3]}
OVER_XS = "params.xs.filter(x, x > 0).size()"
READING: dict[str, Any] = {
    "params_schema": LISTED,
    "impact": f"{OVER_XS} > 0 ? 'LOW_IMPACT' : 'HIGH_IMPACT'",
    "figures": [{"param": "notional_cents", "value": f"{OVER_XS} * 10"}],
    "depends_on": ["market.state", f"price.${{{OVER_XS} > 0 ? 'AAPL' : 'MSFT'}}"],
    "predicts": [{"fact": "price.AAPL", "value": OVER_XS}],
    "limits": [{"id": "most", "value": OVER_XS, "limit": "1"}],
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every expression that is evaluated, from now on."""
    evaluated: list[str] = []
    evaluates = language.Expression.evaluate

    def evaluate_and_keep(expression: language.Expression, names: Any) -> Any:
        evaluated.append(expression.source)
        return evaluates(expression, names)

    monkeypatch.setattr(language.Expression, "evaluate", evaluate_and_keep)
    return evaluated


def reading(**fields: Any) -> PolicyBundle:
    return gate_cases.rules(kind=gate_cases.kind(**{**READING, **fields}))


@pytest.mark.parametrize(
    "fields",
    [
        {"params": UNFIT},
        {"params": UNFIT, "policy_version": "9.0.0"},
        {"params": {**UNFIT, "xs": [1]}, "execution_constraints": {"validity_window_sec": "x"}},
    ],
)
def test_the_gate_evaluates_nothing_over_what_it_refuses(fields: dict[str, Any], asked: list[str]) -> None:
    verdict = gate_cases.judge(rules=reading(), proposal=gate_cases.proposal(**fields))
    assert (verdict.decision, verdict.impact) == (Decision.REJECT, Impact.HIGH_IMPACT)
    assert (verdict.predicted, verdict.figures) == ((), ())
    assert asked == []


def test_another_version_that_fits_is_refused_and_still_shown() -> None:
    proposal = gate_cases.proposal(policy_version="9.0.0", params={**UNFIT, "xs": [1]})
    verdict = gate_cases.judge(rules=reading(), proposal=proposal)
    assert (verdict.decision, verdict.impact) == (Decision.REJECT, Impact.LOW_IMPACT)
    assert [item.proposed for item in verdict.predicted] == [1]


def test_what_the_first_gate_judged_comes_out_as_it_was() -> None:
    proposal = gate_cases.proposal(params=UNFIT)
    verdict = gate_cases.judge(rules=reading(figures=[]), proposal=proposal, gate=FIRST)
    assert (verdict.decision, verdict.impact) == (Decision.REJECT, Impact.LOW_IMPACT)
    assert [item.proposed for item in verdict.predicted] == [3]


def test_no_fact_is_named_by_parameters_that_do_not_fit(asked: list[str]) -> None:
    kind = gate_cases.kind(**READING)
    assert evaluate.required_facts(kind, UNFIT) == ()
    assert evaluate.required_facts(kind, None) == ()
    assert asked == []
    assert evaluate.required_facts(kind, {**UNFIT, "xs": [1]}) == ("market.state", "price.AAPL")


def test_nothing_moves_under_a_kind_that_what_was_shown_does_not_fit(asked: list[str]) -> None:
    seen, current = {"price.AAPL": 1, "market.state": 1}, {"price.AAPL": 2, "market.state": 2}
    shown = {"constraints": gate_cases.CONSTRAINTS, "seen": seen, "current": current}
    assert evaluate.list_moved(gate_cases.kind(**READING), params=UNFIT, **shown) == ()
    assert asked == []
    moved = evaluate.list_moved(gate_cases.kind(**READING), params={**UNFIT, "xs": [1]}, **shown)
    assert moved == ("market.state", "price.AAPL")


def test_a_value_too_large_to_be_checked_does_not_fit() -> None:
    wide = {"items": {"properties": {f"p{number}": {"type": "integer"} for number in range(60)}}}
    assert schemas.fits(wide, [{"p0": 1}] * 100)
    assert not schemas.fits(wide, [{"p0": 1}] * 10_000)
    assert not schemas.fits(wide, [{"p0": "1"}])


def test_why_a_kind_is_not_asked_about_a_value() -> None:
    kind, bounds = gate_cases.kind(**READING), gate_cases.CONSTRAINTS
    assert safety.why_not_asked(kind, params=gate_cases.PARAMS, constraints=bounds) == ""
    assert safety.why_not_asked(kind, params=UNFIT, constraints=bounds) == safety.MISFIT
    assert safety.why_not_asked(kind, params=gate_cases.PARAMS, constraints={}) == safety.MISFIT
    unsafe = gate_cases.kind(impact="params.action.matches(params.symbol) ? 'LOW_IMPACT' : 'HIGH_IMPACT'")
    assert "pattern" in safety.why_not_asked(unsafe, params=UNFIT, constraints=bounds)


def withdrawn(in_force: PolicyBundle, *, lifted: tuple[Finding, ...] = ()) -> Withdrawn:
    """What `in_force` withdraws of three items that a kind without a bound accepted."""
    before = {**LISTED, "properties": {**LISTED["properties"], "xs": {"type": "array"}}}
    then = gate_cases.rules(kind=gate_cases.kind(params_schema=before))
    case = gate_cases.case(proposal=gate_cases.proposal(params=UNFIT), rules=then)
    assert gate_cases.judge(proposal=case.proposal, rules=then).decision is Decision.ACCEPT
    stored, _ = gate_cases.judgement(case)
    return recheck.withdrawn(
        Judgement.from_bytes(stored),
        in_force,
        known=gate_cases.facts(),
        lifted=lifted,
        now_ms=gate_cases.NOW_MS,
    )


def test_limits_are_not_asked_about_what_no_longer_fits_and_a_person_is(asked: list[str]) -> None:
    found = withdrawn(reading(version="2.0.0"))
    assert (found.code, found.is_final) == ("INVALID_SCHEMA", False)
    (finding,) = found.findings
    assert (finding.check, finding.outcome) == ("schema", FindingOutcome.REFER)
    assert finding.subject == "ADJUST_POSITION 2.0.0"
    assert finding.message == (
        "What was accepted no longer fits ADJUST_POSITION 2.0.0: its limits cannot be checked."
    )
    assert [source for source in asked if "params.xs" in source] == []


def test_a_person_lifts_it_for_the_version_that_was_shown() -> None:
    lifted = withdrawn(reading(version="2.0.0")).findings
    assert withdrawn(reading(version="2.0.0"), lifted=lifted).findings == ()
    assert gate_cases.codes(withdrawn(reading(version="3.0.0"), lifted=lifted).findings) == ["INVALID_SCHEMA"]


def test_a_kind_without_limits_withdraws_nothing_by_its_schema(asked: list[str]) -> None:
    assert withdrawn(reading(version="2.0.0", limits=[])).findings == ()
    assert [source for source in asked if "params.xs" in source] == []


def test_a_right_that_is_gone_is_final_whatever_fits() -> None:
    in_force = reading(version="2.0.0").model_copy(
        update={"manifest": gate_cases.manifest(policy_kinds=["X"])}
    )
    found = withdrawn(in_force)
    assert (found.code, found.is_final) == ("UNAUTHORIZED", True)
