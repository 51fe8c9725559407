"""What a hostile agent can send: any I-JSON value, and values that almost fit."""

from typing import Any

from hypothesis import strategies as st

from audit import canonical
from tests.support import gate_cases

MAX_INTEGER = canonical.MAX_SAFE_INTEGER

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40),
    st.sampled_from(
        [
            "",
            "AAPL",
            "AAPL\u202e",
            "\u0410APL",
            "NaN",
            "Infinity",
            "-0",
            "1e999999999",
            "1E+400",
            "\u0661\u0662",
            "1_000",
            "../..",
            "${params.symbol}",
            "{action|cents}",
            "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
            "2026-13-45",
            "x" * 5_000,
        ]
    ),
)
numbers = st.one_of(
    st.integers(-MAX_INTEGER, MAX_INTEGER),
    st.sampled_from([0, 1, -1, MAX_INTEGER, -MAX_INTEGER, 100_000, 100_001, 150_000]),
    st.floats(-1e15, 1e15, allow_nan=False).map(canonical.normalise),
    st.sampled_from([1e-300, 5e-324, 0.1, 100_000.5]),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=5)


def _mixed(plain: dict[str, Any], likely: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """What is as it should be, but for a likely change or a hostile member; now and then, anything."""
    fits = st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(given) for name, given in likely.items()}
    )
    hostile = st.dictionaries(st.sampled_from(sorted(plain)), values, max_size=1)
    return st.one_of(
        st.just(plain),
        st.builds(lambda change: {**plain, **change}, fits),
        st.builds(lambda change: {**plain, **change}, fits),
        st.builds(lambda change, member: {**plain, **change, **member}, fits, hostile),
        objects,
    )


AMOUNTS = [1, 100_000, 100_001, 150_000, 300_000, MAX_INTEGER]
LIKELY: dict[str, Any] = {
    "notional_cents": AMOUNTS,
    "quantity": [1, 5, 9_999, MAX_INTEGER],
    "action": ["BUY", "SELL"],
    "symbol": ["AAPL", "MSFT", "GOOG"],
}
OPEN_LIKELY: dict[str, Any] = {
    **LIKELY,
    "quantity": [1, 50, 0, -1, 0.25, MAX_INTEGER],
    "fee": ["0.1", "0.5", "0.50000", "0.51", "NaN", "1e999999999", "1_0", "\u0661"],
    "rate": [0.5, "0.6", 1e15, -1],
}
params = _mixed(gate_cases.PARAMS, LIKELY)
open_params = _mixed({**gate_cases.PARAMS, "rate": 0.5, "fee": "0.30", "live": True}, OPEN_LIKELY)
constraints = _mixed(
    gate_cases.CONSTRAINTS, {"max_slippage_bps": [0, 50, 1000], "max_price_cents": [1, 10**6]}
)
worlds = st.dictionaries(
    st.sampled_from(["price.AAPL", "price.MSFT", "market.state", "cash.main"]), values, max_size=4
)

# A kind whose schemas let everything through, so that every expression meets every value.
OPEN = gate_cases.kind(
    params_schema={"type": "object"},
    constraints_schema={"type": "object"},
    depends_on=[{"fact": "price.${params.symbol}", "unless": gate_cases.WITHIN_SLIPPAGE}],
    impact="params.notional_cents > 5 ? 'HIGH_IMPACT' : params.symbol",
    limits=[
        {"id": "amount", "value": "params.notional_cents", "limit": "manifest.limits.max_notional_cents"},
        {"id": "fee", "value": "params.fee", "limit": "params.rate"},
        {"id": "product", "value": "double(params.quantity) * 1e300", "limit": "params.quantity * 1000000"},
    ],
    rules=[
        {"id": "R_ANY", "require": "params.symbol in context.facts.price", "on_fail": "ESCALATE"},
        {"id": "R_TEXT", "require": "params.symbol.matches('^(a+)+$') || size(params.symbol) < 9"},
        {"id": "R_DIVIDE", "require": "100 / params.quantity > 0", "on_fail": "ESCALATE"},
    ],
    constraints=[{"id": "bound", "require": "constraints.max_slippage_bps < 1000 || params.live"}],
    predicts=[
        {"fact": "price.${params.symbol}", "value": "params.rate"},
        {"fact": "cash.main", "value": "double(params.quantity) * 1e18"},
    ],
    effect="{symbol} {quantity|number} {fee|cents} {rate|date} {action|upper}",
    steps=[
        {
            "id": "order",
            "target": "broker",
            "request": {
                "path": "/o/${params.symbol}",
                "body": "{'a': params.rate, 'b': [params], 'c': double(params.quantity) * 1e18}",
            },
        }
    ],
)
# Without what seldom holds, so that the later stages are reached.
LOOSE = OPEN.model_copy(
    update={
        "depends_on": (),
        "constraints": (),
        "limits": OPEN.limits[:2],
        "rules": OPEN.rules[:1],
        "steps": gate_cases.kind().steps,
    }
)
