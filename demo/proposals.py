"""What the demo agents say: proposal bodies for the paper brokerage, and the words that go with them."""

import random
from collections.abc import Mapping
from typing import Any, Final

from demo.client import Context
from demo.market import BASE_CENTS

# One coin is worth more than any of these agents may spend.
SYMBOLS: Final = tuple(symbol for symbol in BASE_CENTS if symbol != "BTC-USD")
ACCOUNTS: Final = ("operations", "settlement", "reserve")
_BEYOND_CENTS: Final = 240_000_000  # more than the pack's cash:USD

_SMALL = (
    "{symbol} has held its range since the morning; {quantity} shares keep it near its target weight.",
    "The short average of {symbol} crossed the long one: a step of {quantity} shares, as the mission asks.",
    "Spread in {symbol} is tight and volume is normal: a routine adjustment of {quantity} shares.",
    "{symbol} drifted from its target weight. {quantity} shares bring it back.",
)
_LARGE = (
    "Momentum in {symbol} is the strongest of the list. I want {quantity} shares before others do.",
    "{symbol} broke out of its range on double volume; the trend carries {quantity} shares.",
    "My backtest gives {symbol} a 71 % hit rate from here. {quantity} shares use the free cash well.",
)
_DOUBTFUL = (
    "The figures for {symbol} point both ways; I lean towards {quantity} shares but would not insist.",
    "News on {symbol} is thin and my two signals disagree. {quantity} shares seem right, more or less.",
    "Yesterday's volume in {symbol} does not fit the price move. Proposing {quantity} shares anyway.",
)
_MUDDLED = (
    "{symbol} must be bought now, the price I noted is surely still good.",
    "I am certain about {symbol}. The form asked for a number, but a word says it better.",
    "As I said before, {symbol}. The earlier view of the market will do.",
)
_CONTRARY = {
    "BUY": (
        "The rise of {symbol} is over. I am selling {quantity} shares before the others do.",
        "Do not buy {symbol} at this price: selling {quantity} shares brings the risk down.",
    ),
    "SELL": (
        "{symbol} is cheap today, so I am buying {quantity} shares while it lasts.",
        "Never sell {symbol} before the figures: buying {quantity} shares is the better step.",
    ),
}
_TRANSFER = (
    "Cash in {destination} is below what next week's settlements need; moving part of the surplus there.",
    "The {destination} account should carry a larger cushion before the month ends.",
)


def adjust(
    *,
    context: Context,
    rng: random.Random,
    symbol: str,
    notional_cents: int,
    explain: str,
    slippage_bps: int = 50,
) -> dict[str, Any]:
    """An ``ADJUST_POSITION`` worth about ``notional_cents`` at the price in the context."""
    price = context.fact(f"price.{symbol}")
    price_cents = price if isinstance(price, int) and price > 0 else BASE_CENTS[symbol]
    quantity = max(1, notional_cents // price_cents)
    return body_of(
        kind="ADJUST_POSITION",
        context=context,
        params={
            "symbol": symbol,
            "action": rng.choice(("BUY", "BUY", "SELL")),
            "quantity": quantity,
            "notional_cents": quantity * price_cents,
        },
        constraints={"validity_window_sec": 60, "max_slippage_bps": slippage_bps},
        explain=explain.format(symbol=symbol, quantity=quantity),
        confidence=round(rng.uniform(0.78, 0.97), 2),
    )


def order(*, context: Context, symbol: str, quantity: int) -> dict[str, Any]:
    """The parameters of a purchase at the price in the context."""
    price = context.fact(f"price.{symbol}")
    price_cents = price if isinstance(price, int) and price > 0 else BASE_CENTS[symbol]
    return {"symbol": symbol, "action": "BUY", "quantity": quantity, "notional_cents": quantity * price_cents}


def recommended(package: Mapping[str, Any], *, context: Context) -> dict[str, Any]:
    """What a decision package selects, with the confidence that it leaves."""
    params = package["selected_action"]["parameters"]
    consensus = package.get("consensus") or {}
    body = body_of(
        kind="ADJUST_POSITION",
        context=context,
        params=params,
        constraints={"validity_window_sec": 60, "max_slippage_bps": 100},
        explain=(
            f"I asked about {params['quantity']} shares of {params['symbol']}: of "
            f"{consensus.get('answered', 0)} voices, {len(consensus.get('dissent', ()))} chose otherwise."
        ),
        confidence=package["confidence_score"],
    )
    return {**body, "decision_id": package["decision_id"]}


def watch(*, context: Context, rng: random.Random) -> dict[str, Any]:
    """An ``UPDATE_WATCHLIST``."""
    symbol = rng.choice(SYMBOLS)
    return body_of(
        kind="UPDATE_WATCHLIST",
        context=context,
        params={"symbol": symbol, "action": rng.choice(("ADD", "REMOVE"))},
        constraints={"validity_window_sec": 120},
        explain=f"{symbol} moved enough this hour to change what deserves attention.",
        confidence=round(rng.uniform(0.85, 0.99), 2),
    )


def transfer(*, context: Context, rng: random.Random) -> dict[str, Any]:
    """A ``TRANSFER_FUNDS`` between the firm's own accounts."""
    source, destination = rng.sample(ACCOUNTS, 2)
    return body_of(
        kind="TRANSFER_FUNDS",
        context=context,
        params={
            "amount_cents": rng.randrange(20_000, 300_000, 5_000),
            "from_account": source,
            "to_account": destination,
        },
        constraints={"validity_window_sec": 120},
        explain=rng.choice(_TRANSFER).format(destination=destination),
        confidence=round(rng.uniform(0.8, 0.95), 2),
    )


def critical(*, context: Context, rng: random.Random) -> dict[str, Any]:
    """A transfer so large that two people must decide alike."""
    body = transfer(context=context, rng=rng)
    return {**body, "params": {**body["params"], "amount_cents": rng.randrange(1_000_000, 1_500_000, 50_000)}}


def small(*, context: Context, rng: random.Random) -> dict[str, Any]:
    """A step that most manifests allow."""
    notional = rng.randrange(20_000, 80_000, 1_000)
    symbol = rng.choice(SYMBOLS)
    return adjust(
        context=context, rng=rng, symbol=symbol, notional_cents=notional, explain=rng.choice(_SMALL)
    )


def large(*, context: Context, rng: random.Random, above_cents: int) -> dict[str, Any]:
    """A step past the agent's own limit."""
    notional = round(above_cents * rng.uniform(1.3, 3.5))
    symbol = rng.choice(SYMBOLS)
    return adjust(
        context=context, rng=rng, symbol=symbol, notional_cents=notional, explain=rng.choice(_LARGE)
    )


def beyond(*, context: Context, rng: random.Random) -> dict[str, Any]:
    """A purchase that is larger than all that the desk may spend."""
    body = adjust(
        context=context,
        rng=rng,
        symbol="MSFT",
        notional_cents=_BEYOND_CENTS,
        explain="The signal is so strong that {quantity} shares of {symbol} are not too many.",
    )
    return {**body, "params": {**body["params"], "action": "BUY"}}


def doubtful(*, context: Context, rng: random.Random, confident: bool) -> dict[str, Any]:
    """A modest step whose author is, or is not, sure enough of it."""
    symbol = rng.choice(SYMBOLS)
    body = adjust(
        context=context,
        rng=rng,
        symbol=symbol,
        notional_cents=rng.randrange(20_000, 70_000, 1_000),
        explain=rng.choice(_DOUBTFUL),
    )
    return {**body, "confidence": round(rng.uniform(0.74, 0.85) if confident else rng.uniform(0.35, 0.66), 2)}


def contrary(body: Mapping[str, Any], *, rng: random.Random) -> dict[str, Any]:
    """The same step, explained by its opposite: what a guard is there to see."""
    params = body["params"]
    words = rng.choice(_CONTRARY[params["action"]])
    return {**body, "explain": words.format(symbol=params["symbol"], quantity=params["quantity"])}


def muddled(*, context: Context, rng: random.Random, symbol: str, attempt: int) -> dict[str, Any]:
    """What a model in a loop sends: a word for a number, or an old view of the world."""
    body = adjust(
        context=context,
        rng=rng,
        symbol=symbol,
        notional_cents=40_000,
        explain=_MUDDLED[attempt % len(_MUDDLED)],
        slippage_bps=1,
    )
    if attempt % 2 == 0:
        params: Mapping[str, Any] = {**body["params"], "quantity": rng.choice(("a few", "many", "all of it"))}
        return {**body, "params": params}
    return body


def account(proposal: Mapping[str, Any]) -> str:
    """What an agent can say of its proposal when a person asks: the figures it stands on, and no more."""
    params = ", ".join(f"{name} {value}" for name, value in sorted(proposal["params"].items()))
    return (
        f"I proposed {proposal['policy_kind']} with {params}. Every figure is from the context I named "
        f"({str(proposal['context_ref'])[:12]}). My confidence was {proposal['confidence']}. "
        "I have no other source."
    )


def body_of(
    *,
    kind: str,
    context: Context,
    params: Mapping[str, Any],
    constraints: Mapping[str, Any],
    explain: str,
    confidence: float,
) -> dict[str, Any]:
    """A proposal as the API takes it, on the context that the agent was given."""
    return {
        "policy_kind": kind,
        "params": dict(params),
        "execution_constraints": dict(constraints),
        "context_ref": context.ref,
        "confidence": confidence,
        "explain": explain,
    }
