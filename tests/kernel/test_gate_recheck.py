"""The second look, inside the worker's claim: what may have changed since the verdict."""

from typing import Any

import pytest

from runtime.kernel.gate import recheck
from runtime.kernel.gate.pipeline import Judgement
from tests import builders


def looked(*, now_ms: int = builders.NOW_MS, world: dict[str, Any] | None = None, **fields: Any) -> list[str]:
    """The codes of a second look on a case, in a world that has moved by `world`."""
    asked = builders.case(**fields)
    stored, _ = builders.judgement(asked)
    found = recheck.recheck(
        Judgement.from_bytes(stored),
        asked.rules,
        world={**builders.WORLD, **(world or {})},
        now_ms=now_ms,
    )
    return builders.codes(found)


def test_nothing_has_changed() -> None:
    assert looked() == []


def test_a_price_within_its_bounds_is_no_reason() -> None:
    assert looked(world={"price.AAPL": 18_951}) == []


def test_a_price_past_its_bounds_is_stale() -> None:
    assert looked(world={"price.AAPL": 20_000}) == ["STALE_CONTEXT"]


@pytest.mark.parametrize(("late_ms", "codes"), [(0, []), (1, ["EXPIRED"])])
def test_the_window_is_asked_again(late_ms: int, codes: list[str]) -> None:
    assert looked(now_ms=builders.NOW_MS + builders.WINDOW_MS + late_ms) == codes


def test_the_agents_own_bound_is_asked_again() -> None:
    asked = builders.proposal(execution_constraints={**builders.CONSTRAINTS, "max_price_cents": 18_950})
    assert looked(proposal=asked) == []
    assert looked(proposal=asked, world={"price.AAPL": 18_951}) == ["CONSTRAINT_VIOLATED"]


def test_a_persons_condition_is_an_obligation() -> None:
    asked = builders.proposal(conditions=("context.facts.price.AAPL <= 18960",), by_person=True)
    assert looked(proposal=asked) == []
    assert looked(proposal=asked, world={"price.AAPL": 18_961}) == ["CONDITION_FAILED"]


def test_everything_that_no_longer_holds_is_said_at_once() -> None:
    asked = builders.proposal(
        execution_constraints={**builders.CONSTRAINTS, "max_price_cents": 18_950},
        conditions=("context.facts.market.state == 'OPEN'",),
    )
    world = {"price.AAPL": 30_000, "market.state": "CLOSED"}
    assert looked(proposal=asked, world=world, now_ms=builders.NOW_MS * 2) == [
        "EXPIRED",
        "CONSTRAINT_VIOLATED",
        "CONDITION_FAILED",
        "STALE_CONTEXT",
        "STALE_CONTEXT",
    ]


def test_a_verdict_without_a_snapshot_has_nothing_to_compare() -> None:
    assert looked(facts=builders.facts(snapshot=None), world={"price.AAPL": 1}) == []
