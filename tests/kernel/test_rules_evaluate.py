"""A kind's expressions judged: results, never exceptions."""

from typing import Any

import pytest

from audit import canonical
from runtime.contracts.kind_types import OnFail
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import Impact
from runtime.contracts.verdict import StepRequest
from runtime.kernel.gate import calls
from runtime.kernel.rules import evaluate, language
from runtime.kernel.rules.evaluate import FRESH, EvaluationStatus, Move
from runtime.kernel.rules.language import ExpressionError
from tests.support import gate_cases

NAMES = language.Names(
    {
        "params": {"symbol": "AAPL", "n": 5, "rate": "0.50"},
        "constraints": {"max_slippage_bps": 50},
        "context": {"facts": {"price": {"AAPL": 100}, "market": {"state": "OPEN"}}},
        "manifest": {"limits": {"max": 4, "rate": "0.5"}},
        "flow": {"dfid": "d1"},
    }
)
UNLESS = "current * 10000 <= seen * (10000 + constraints.max_slippage_bps)"


def make_kind(**fields: Any) -> KindDocument:
    base = {"kind": "TRADE", "version": "1.0.0", "title": "Trade", "risk_tier": "T1", "effect": "Trade"}
    return KindDocument.from_bytes(canonical.encode({**base, "params_schema": {"type": "object"}, **fields}))


def test_rules_pass_fail_and_err_with_their_words() -> None:
    kind = make_kind(
        rules=[
            {"id": "R_OPEN", "require": "context.facts.market.state == 'OPEN'"},
            {"id": "R_SMALL", "require": "params.n < 2", "on_fail": "ESCALATE", "message": "Too many"},
            {"id": "R_PLAIN", "require": "params.n < 2"},
            {"id": "R_BROKEN", "require": "params.nothing < 2"},
            {"id": "R_NUMBER", "require": "params.n"},
        ]
    )
    found = evaluate.judge_rules(kind, NAMES)
    assert [(one.id, one.status, one.on_fail) for one in found] == [
        ("R_OPEN", EvaluationStatus.PASSED, OnFail.REJECT),
        ("R_SMALL", EvaluationStatus.FAILED, OnFail.ESCALATE),
        ("R_PLAIN", EvaluationStatus.FAILED, OnFail.REJECT),
        ("R_BROKEN", EvaluationStatus.ERROR, OnFail.REJECT),
        ("R_NUMBER", EvaluationStatus.ERROR, OnFail.REJECT),
    ]
    assert [one.message for one in found] == [
        "",
        "Too many",
        "R_PLAIN does not hold",
        "R_BROKEN could not be evaluated: the expression reads a field that is not there",
        "R_NUMBER could not be evaluated: the expression did not give true or false",
    ]


def test_constraints_are_the_agents_own_bounds() -> None:
    kind = make_kind(
        constraints=[{"id": "cheap", "require": "context.facts.price.AAPL < 50", "message": "Dear"}]
    )
    (found,) = evaluate.judge_constraints(kind, NAMES)
    assert (found.status, found.message, found.on_fail) == (EvaluationStatus.FAILED, "Dear", OnFail.REJECT)


def test_limits_show_both_numbers() -> None:
    kind = make_kind(
        limits=[
            {"id": "within", "value": "params.n", "limit": "double(params.n)"},
            {"id": "above", "value": "params.n", "limit": "manifest.limits.max"},
            {"id": "words", "value": "params.n", "limit": "1", "message": "Too much", "on_exceed": "REJECT"},
            {"id": "decimal", "value": "params.rate", "limit": "manifest.limits.rate"},
        ]
    )
    within, above, words, decimal = evaluate.judge_limits(kind, NAMES)
    assert (within.status, within.value, within.limit) == (EvaluationStatus.PASSED, 5, 5)
    assert (above.status, above.value, above.limit, above.on_exceed) == (
        EvaluationStatus.FAILED,
        5,
        4,
        OnFail.ESCALATE,
    )
    assert above.message == "5 is above the limit of 4"
    assert (words.message, words.on_exceed) == ("Too much", OnFail.REJECT)
    assert (decimal.status, decimal.value, decimal.limit) == (EvaluationStatus.PASSED, "0.50", "0.5")


@pytest.mark.parametrize(
    ("value", "limit", "words"),
    [
        ("params.nothing", "1", "a field that is not there"),
        ("1", "manifest.limits.nothing", "a field that is not there"),
        ("true", "1", "did not give a number"),
        ("[1]", "1", "did not give a number"),
        ("'many'", "1", "did not give a number"),
        ("'NaN'", "1", "did not give a number"),
    ],
)
def test_a_limit_without_a_number_is_an_error(value: str, limit: str, words: str) -> None:
    (found,) = evaluate.judge_limits(make_kind(limits=[{"id": "x", "value": value, "limit": limit}]), NAMES)
    assert found.status is EvaluationStatus.ERROR
    assert words in found.message


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'LOW_IMPACT'", Impact.LOW_IMPACT),
        ("params.n > 3 ? 'HIGH_IMPACT' : 'LOW_IMPACT'", Impact.HIGH_IMPACT),
        ("params.nothing > 3 ? 'LOW_IMPACT' : 'LOW_IMPACT'", Impact.HIGH_IMPACT),
        ("'TINY'", Impact.HIGH_IMPACT),
        ("true", Impact.HIGH_IMPACT),
    ],
)
def test_impact_is_high_when_it_cannot_be_told(expression: str, expected: Impact) -> None:
    assert evaluate.impact(make_kind(impact=expression), NAMES) is expected


def freshness(seen: Any, current: Any, **fields: Any) -> Move:
    kind = make_kind(depends_on=[fields or "price.${params.symbol}"])
    (found,) = evaluate.judge_freshness(
        kind, params=NAMES["params"], constraints=NAMES["constraints"], seen=seen, current=current
    )
    return found.move


@pytest.mark.parametrize(
    ("seen", "current", "move"),
    [
        (10000, 10000, Move.SAME),
        (10000, 10001, Move.MOVED),
        (1, True, Move.MOVED),
        ({"a": [1]}, {"a": [1]}, Move.SAME),
    ],
)
def test_without_a_test_any_change_is_material(seen: Any, current: Any, move: Move) -> None:
    assert freshness({"price.AAPL": seen}, {"price.AAPL": current}) is move


@pytest.mark.parametrize(
    ("unless", "move"),
    [
        (UNLESS, Move.WITHIN_BOUNDS),
        ("false", Move.MOVED),
        ("constraints.nothing == 1", Move.MOVED),
        ("1", Move.MOVED),
    ],
)
def test_only_a_test_that_is_true_keeps_a_moved_fact_fresh(unless: str, move: Move) -> None:
    fact = {"fact": "price.${params.symbol}", "unless": unless}
    assert freshness({"price.AAPL": 10000}, {"price.AAPL": 10050}, **fact) is move
    assert (move in FRESH) == (unless == UNLESS)


def test_a_missing_or_unreadable_fact_is_stale() -> None:
    assert freshness({}, {"price.AAPL": 1}) is Move.MISSING
    assert freshness({"price.AAPL": 1}, {}) is Move.MISSING
    assert freshness({}, {}, fact="price.${params.nothing}") is Move.UNREADABLE


def test_names_the_facts_to_load() -> None:
    kind = make_kind(
        depends_on=["price.${params.symbol}", "market.state", "price.${params.nothing}", "a.b.c"],
        predicts=[{"fact": "position.${params.symbol}", "value": "1"}],
    )
    assert evaluate.required_facts(kind, {"symbol": "AAPL"}) == (
        "market.state",
        "position.AAPL",
        "price.AAPL",
    )
    assert evaluate.required_facts(kind, {"symbol": "../market"}) == ("market.state",)
    assert evaluate.static_prefixes(kind) == ("market.state", "price.")


def test_predicts_what_it_can() -> None:
    kind = make_kind(
        predicts=[
            {"fact": "position.${params.symbol}", "value": "double(params.n) + 1.0"},
            {"fact": "position.${params.nothing}", "value": "1"},
            {"fact": "cash.x", "value": "params.nothing"},
        ]
    )
    (found,) = evaluate.predictions(kind, NAMES)
    assert (found.fact, found.value, type(found.value)) == ("position.AAPL", 6, int)


def test_nests_facts_by_namespace() -> None:
    assert evaluate.nest({"a.x": 1, "a.y": 2, "b.x": 3}) == {"a": {"x": 1, "y": 2}, "b": {"x": 3}}


def render(**fields: Any) -> StepRequest:
    asked = gate_cases.proposal(params=NAMES["params"], dfid="d1", intent_id="i1")
    (call,) = calls.render(make_kind(steps=[fields]), asked, NAMES)
    return call


def test_the_standard_body_names_the_intent() -> None:
    found = render(id="order", target="broker", request={"path": "/orders/${params.symbol}"}, timeout_s=3)
    assert (found.method, found.path, found.target, found.executor) == (
        "POST",
        "/orders/AAPL",
        "broker",
        "http",
    )
    assert found.timeout_s == 3
    assert found.body == {
        "dfid": "d1",
        "intent_id": "i1",
        "policy_kind": "TRADE",
        "step": "order",
        "params": NAMES["params"],
    }


def test_a_body_is_a_map_with_whole_numbers_as_integers() -> None:
    body = "{'id': intent.intent_id, 'step': intent.step, 'n': double(params.n)}"
    found = render(id="order", target="broker", request={"method": "PUT", "path": "/x", "body": body})
    assert found.method == "PUT"
    assert found.body == {"id": "i1", "step": "order", "n": 5}
    assert type(found.body["n"]) is int


@pytest.mark.parametrize("body", ["[1]", "'x'", "params.nothing"])
def test_a_body_that_is_no_map_is_not_sent(body: str) -> None:
    with pytest.raises(ExpressionError):
        render(id="order", target="broker", request={"path": "/x", "body": body})


def test_a_simulated_step_needs_no_request() -> None:
    found = render(id="dry", executor="simulated")
    assert (found.executor, found.target, found.method, found.path) == ("simulated", "", "POST", "/dry")


@pytest.mark.parametrize(
    ("prediction", "seen", "current", "moves"),
    [
        ({"fact": "cash.x"}, {"cash.x": 1}, {"cash.x": 1}, [Move.SAME]),
        ({"fact": "cash.x"}, {"cash.x": 1}, {"cash.x": 2}, [Move.MOVED]),
        ({"fact": "cash.x"}, {}, {"cash.x": 2}, [Move.MISSING]),
        ({"fact": "cash.x"}, {"cash.x": 1}, {}, [Move.MISSING]),
        ({"fact": "cash.x"}, {}, {}, [Move.SAME]),
        ({"fact": "cash.x", "unless": "current < 9"}, {"cash.x": 1}, {"cash.x": 2}, [Move.WITHIN_BOUNDS]),
        ({"fact": "cash.${params.nothing}"}, {}, {}, []),
        # The kind depends on it as well: that rule has the word, but for an `unless` of the prediction's own.
        ({"fact": "price.${params.symbol}"}, {"price.AAPL": 1}, {"price.AAPL": 2}, []),
        (
            {"fact": "price.${params.symbol}", "unless": "false"},
            {"price.AAPL": 1},
            {"price.AAPL": 2},
            [Move.MOVED],
        ),
    ],
)
def test_a_predicted_fact_moves_like_one_that_is_depended_on(
    prediction: dict[str, str], seen: dict[str, Any], current: dict[str, Any], moves: list[Move]
) -> None:
    kind = make_kind(
        depends_on=[{"fact": "price.AAPL", "unless": "true"}], predicts=[{**prediction, "value": "1"}]
    )
    judged = evaluate.judge_predicted(
        kind, params={"symbol": "AAPL"}, constraints={}, seen=seen, current=current
    )
    assert [item.move for item in judged] == moves
