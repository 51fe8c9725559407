"""The second look, inside the worker's claim: what may have changed since the verdict (DIR paper, 3.3)."""

from collections.abc import Mapping
from typing import Any

from runtime.contracts.verdict import Finding
from runtime.kernel.gate.case import Case, Rules
from runtime.kernel.gate.checks import conditions, constraints, context_freshness, validity
from runtime.kernel.gate.pipeline import Judgement


def recheck(
    judgement: Judgement, rules_in_force: Rules, *, world: Mapping[str, Any], now_ms: int
) -> tuple[Finding, ...]:
    """What no longer holds: the window, the agent's bounds, the facts it stood on. Empty when all does.

    The rules are those of the verdict; only the world and the moment are new.
    """
    facts = judgement.facts.model_copy(update={"world": dict(world)})
    case = Case(proposal=judgement.proposal, facts=facts, rules=rules_in_force, now_ms=now_ms)
    stale = () if facts.snapshot is None else context_freshness.stale(case, seen=facts.snapshot.facts)
    return (*validity.check(case), *constraints.check(case), *conditions.check(case), *stale)
