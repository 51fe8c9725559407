"""What would follow from an ACCEPT: impact, sentence, difference and calls, or why no call can be made."""

from typing import Any

import pytest

from runtime.contracts.states import Decision, Impact
from runtime.contracts.verdict import VerdictDocument
from runtime.kernel.gate import calls
from runtime.kernel.gate.gate_input import GateVersion
from tests.support import gate_cases


def judged(**kind: Any) -> VerdictDocument:
    """The verdict on the plain proposal under a kind with these fields."""
    return gate_cases.judge(rules=gate_cases.rules(kind=gate_cases.kind(**kind)))


def test_the_sentence_is_the_kinds_with_the_values_apart() -> None:
    verdict = gate_cases.judge()
    assert verdict.effect_text == "BUY 5 AAPL for 947.50"
    assert [piece.text for piece in verdict.effect if piece.value] == ["BUY", "5", "AAPL", "947.50"]


def test_the_difference_shows_live_and_expected_values() -> None:
    (item,) = judged(predicts=[{"fact": "price.${params.symbol}", "value": "params.quantity"}]).predicted
    assert (item.fact, item.current, item.proposed) == ("price.AAPL", 18950, 5)


@pytest.mark.parametrize(("amount", "impact"), [(250_000, Impact.LOW_IMPACT), (250_001, Impact.HIGH_IMPACT)])
def test_the_impact_is_the_kinds(amount: int, impact: Impact) -> None:
    asked = gate_cases.proposal(params={**gate_cases.PARAMS, "notional_cents": amount})
    assert gate_cases.judge(proposal=asked).impact is impact


@pytest.mark.parametrize("source", ["'HUGE'", "params.nothing", "1", "true", "1 / 0"])
def test_an_impact_that_cannot_be_told_is_high(source: str) -> None:
    assert judged(impact=source).impact is Impact.HIGH_IMPACT


def test_a_kind_may_say_that_two_people_are_needed() -> None:
    assert judged(impact="'CRITICAL'").impact is Impact.CRITICAL


def test_the_first_gate_knew_two_categories() -> None:
    rules = gate_cases.rules(kind=gate_cases.kind(impact="'CRITICAL'"))
    assert gate_cases.judge(rules=rules, gate=GateVersion.V1_0).impact is Impact.HIGH_IMPACT


@pytest.mark.parametrize("fields", [{"impact": "'CRITICAL'"}, {"approvals": 2}])
def test_what_two_people_must_let_run_never_runs_by_itself(fields: dict[str, Any]) -> None:
    """The proposal is within every limit."""
    verdict = judged(**fields)
    assert verdict.decision is Decision.ESCALATE
    assert [finding.code for finding in verdict.reasons] == ["TWO_PEOPLE_REQUIRED"]
    assert verdict.steps == ()
    rules = gate_cases.rules(kind=gate_cases.kind(**fields))
    # The people are asked then, and not once more of what they decided; the first gate knew of no such thing.
    by_person = gate_cases.proposal(by_person=True, author="user:1")
    assert gate_cases.judge(proposal=by_person, rules=rules).decision is Decision.ACCEPT
    assert gate_cases.judge(rules=rules, gate=GateVersion.V1_0).decision is Decision.ACCEPT


@pytest.mark.parametrize("missing", ["kind", "manifest"])
def test_without_rules_the_impact_is_high_and_nothing_is_promised(missing: str) -> None:
    verdict = gate_cases.judge(rules=gate_cases.rules(**{missing: None}))
    assert verdict.impact is Impact.HIGH_IMPACT
    assert verdict.predicted == ()
    assert bool(verdict.effect) is (missing == "manifest")


def test_a_call_is_rendered_once_with_a_key_of_its_own() -> None:
    (step,) = gate_cases.judge().steps
    assert (step.step, step.target, step.method, step.path) == ("order", "broker", "POST", "/orders/AAPL")
    assert step.body["params"] == gate_cases.PARAMS
    assert step.timeout_s == calls.DEFAULT_TIMEOUT_S
    (other,) = gate_cases.judge(proposal=gate_cases.proposal(intent_id="another")).steps
    assert other.key != step.key


def test_a_call_has_the_time_that_its_step_gives_it() -> None:
    (step,) = judged(
        steps=[{"id": "order", "target": "broker", "request": {"path": "/orders"}, "timeout_s": 3}]
    ).steps
    assert step.timeout_s == 3


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
    assert gate_cases.codes(verdict) == ["RENDERING_FAILED"]
    assert verdict.reasons[0].message.startswith("The request cannot be made: ")


@pytest.mark.parametrize(
    "value", ["double(params.quantity) * 1e18", "double(params.quantity) * -1e18", "{'a': [1e19]}"]
)
def test_a_number_that_json_would_not_keep_is_not_predicted(value: str) -> None:
    verdict = judged(predicts=[{"fact": "price.AAPL", "value": value}])
    assert verdict.predicted == ()
    assert VerdictDocument.from_bytes(verdict.to_bytes()) == verdict


def test_a_rejected_proposal_makes_no_calls() -> None:
    assert gate_cases.judge(proposal=gate_cases.proposal(params={})).steps == ()


def test_a_kind_without_steps_is_accepted_without_calls() -> None:
    verdict = judged(steps=[])
    assert (verdict.decision, verdict.steps) == (Decision.ACCEPT, ())


SAGA: list[dict[str, Any]] = [
    {
        "id": "sell",
        "target": "broker",
        "request": {"path": "/orders"},
        "compensate": {"path": "/orders/undo/${key}"},
        "probe": {"path": "/orders/by-key/${key}"},
    },
    {"id": "buy", "target": "broker", "request": {"path": "/orders"}, "compensate": {"path": "/undo"}},
]


def test_what_undoes_a_step_is_made_with_it_and_has_a_key_of_its_own() -> None:
    sell, buy = judged(steps=SAGA).steps
    assert sell.probe == f"/orders/by-key/{sell.key}"
    undo = sell.compensation
    assert undo is not None
    assert (undo.path, undo.target, undo.executor) == (f"/orders/undo/{sell.key}", "broker", "http")
    assert undo.body == {**sell.body, "compensates": sell.key}
    assert undo.probe == f"/orders/by-key/{undo.key}"
    assert undo.compensation is None
    assert (buy.probe, len({sell.key, undo.key, buy.key})) == (None, 3)


def test_a_step_that_only_a_route_runs_is_rendered_with_the_others_and_marked() -> None:
    routes = [{"when": "true", "action": "FALL_BACK", "step": "buy"}]
    sell, buy = judged(steps=SAGA, routes=routes).steps
    assert (sell.fallback, buy.fallback) == (False, True)
    assert "fallback" not in sell.model_dump(mode="json")
    assert buy.path == "/orders"


def test_the_last_step_may_have_nothing_that_undoes_it() -> None:
    _, buy = judged(steps=[SAGA[0], {**SAGA[1], "compensate": None}]).steps
    assert buy.compensation is None


def test_a_single_step_is_not_undone_so_its_bytes_stay() -> None:
    (sell,) = judged(steps=[{**SAGA[0], "probe": None}]).steps
    assert sell.model_dump(mode="json").keys() & {"compensation", "probe"} == set()


def test_a_compensation_may_have_a_body_of_its_own() -> None:
    own = {**SAGA[0], "compensate": {"path": "/x", "method": "PUT", "body": "{'undoes': key}"}}
    sell = judged(steps=[own, SAGA[1]]).steps[0]
    assert sell.compensation is not None
    assert (sell.compensation.method, sell.compensation.body) == ("PUT", {"undoes": sell.key})


@pytest.mark.parametrize(
    "undo", [{"path": "/${params.nothing}"}, {"path": "/x", "body": "{'n': double(params.quantity) * 1e18}"}]
)
def test_a_proposal_that_could_not_be_undone_is_rejected(undo: dict[str, Any]) -> None:
    verdict = judged(steps=[{**SAGA[0], "compensate": undo}, SAGA[1]])
    assert gate_cases.codes(verdict) == ["RENDERING_FAILED"]
