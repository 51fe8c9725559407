"""Does it stand on a context of this flow, and is the world still as it was? (DIR paper, 6.2, 8.3)"""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from audit import canonical
from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.rules import evaluate
from runtime.kernel.rules.evaluate import Move

NAME = "context_freshness"


def check(case: Case) -> Iterable[Finding]:
    """CONTEXT_UNKNOWN, CONTEXT_EXPIRED, or STALE_CONTEXT for each fact that moved materially."""
    snapshot = case.facts.snapshot
    if snapshot is None:
        yield findings.fail(
            NAME,
            Reason.CONTEXT_UNKNOWN,
            "The context_ref is not a snapshot issued to this flow. Ask for a context first.",
        )
        return
    if case.now_ms > snapshot.expires_at_ms:
        yield findings.fail(
            NAME, Reason.CONTEXT_EXPIRED, "The snapshot is past its time to live. Ask for a fresh context."
        )
    yield from stale(case, seen=snapshot.facts)


def stale(case: Case, *, seen: Mapping[str, Any]) -> Iterable[Finding]:
    """STALE_CONTEXT for each fact of `depends_on` that is missing or moved materially since it was `seen`."""
    for fact in evaluate.judge_freshness(
        case.kind,
        params=case.proposal.params,
        constraints=case.proposal.execution_constraints,
        seen=seen,
        current=case.facts.world,
    ):
        match fact.move:
            case Move.SAME | Move.WITHIN_BOUNDS:
                continue
            case Move.MOVED:
                message = f"{fact.fact} has moved since the context was made."
            case Move.MISSING:
                message = f"{fact.fact} is missing from the context or from the world."
            case Move.UNREADABLE:
                message = f"The fact {fact.fact} cannot be named with these parameters."
            case _:
                assert_never(fact.move)
        yield findings.fail(
            NAME,
            Reason.STALE_CONTEXT,
            f"{message} Ask for a fresh context.",
            proposed_value=_shown(fact.seen),
            limit=_shown(fact.current),
        )


def _shown(value: Any) -> str | None:
    return None if value is None else canonical.encode(value).decode()[:64]
