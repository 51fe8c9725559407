"""What the demo agents say fits what they do, but for the one that now and then says the opposite."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import house_rules, proposals
from demo.client import Context
from demo.market import BASE_CENTS
from runtime.contracts.guard import GuardResult, bps
from runtime.kernel.guards import explanation_check

DEMO = Path(__file__).parents[2] / "demo"
PACK, HOUSE = (
    yaml.safe_load((DEMO / name).read_text()) for name in ("paper-brokerage.yaml", "house-rules.yaml")
)
KINDS = {kind["kind"]: kind for kind in (*PACK["policy_kinds"], *HOUSE["policy_kinds"])}
SEEDS = range(60)


def context() -> Context:
    return Context(ref="0" * 64, facts={"price": dict(BASE_CENTS)}, raw={})


def look(body: dict[str, Any]) -> GuardResult:
    """What the demo's guard says of a body."""
    properties = KINDS[body["policy_kind"]]["params_schema"]["properties"]
    choices = {name: schema["enum"] for name, schema in properties.items() if "enum" in schema}
    return explanation_check.examine(explain=body["explain"], params=body["params"], choices=choices)


Make = Callable[[random.Random], dict[str, Any]]


def package(rng: random.Random) -> dict[str, Any]:
    """What the decider says of an order of the conductor."""
    shares = rng.randint(1, 9)
    params = proposals.order(context=context(), symbol=rng.choice(proposals.SYMBOLS), quantity=shares)
    return {
        "decision_id": "d",
        "confidence_score": 0.6667,
        "selected_action": {"name": "ADJUST_POSITION", "parameters": params},
        "consensus": {"answered": 3, "dissent": [{"provider": "voice-caution"}]},
    }


def routed(orders: Mapping[str, str], venue: str) -> dict[str, Any]:
    """What the decider selects of such orders."""
    params = {**orders, "venue": venue}
    return {"decision_id": "d", "confidence_score": 0.9, "selected_action": {"parameters": params}}


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: proposals.small(context=context(), rng=rng),
        lambda rng: proposals.watch(context=context(), rng=rng),
        lambda rng: proposals.transfer(context=context(), rng=rng),
        lambda rng: proposals.critical(context=context(), rng=rng),
        lambda rng: proposals.beyond(context=context(), rng=rng),
        lambda rng: proposals.large(context=context(), rng=rng, above_cents=100_000),
        lambda rng: proposals.doubtful(context=context(), rng=rng, confident=True),
        lambda rng: proposals.recommended(package(rng), context=context()),
        lambda rng: house_rules.note(context=context(), symbol=rng.choice(proposals.SYMBOLS)),
        lambda rng: house_rules.route(routed(house_rules.DISPUTED, "block-desk"), context=context()),
        lambda rng: house_rules.route(routed(house_rules.UNCLEAR, "auction"), context=context()),
        lambda rng: house_rules.borrow(context=context(), rng=rng, shares=400),
        lambda rng: house_rules.block(context=context(), rng=rng, shares=5_000),
        lambda rng: house_rules.listing(context=context(), number=rng.randrange(9)),
    ],
)
def test_no_ordinary_story_is_flagged(make: Make) -> None:
    for seed in SEEDS:
        body = make(random.Random(seed))
        assert look(body).findings == (), body


def test_the_opposite_is_flagged_and_stops_nobody() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        body = proposals.doubtful(context=context(), rng=rng, confident=False)
        told = proposals.contrary(body, rng=rng)
        assert told["params"] == body["params"]
        assert bps("0.9") <= bps(look(told).confidence) < bps("0.99")
    assert not any(guard.get("emergency_stop") for guard in PACK["guards"])
