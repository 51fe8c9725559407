"""Can what the action takes be reserved? Decided on facts, then taken in the same transaction (ADR 0010)."""

from collections.abc import Iterable
from typing import assert_never

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding, ResourceClaim
from runtime.kernel import reservation_rules
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.reservation_rules import Shortage, Unreadable

NAME = "resources"


def applies(case: Case) -> bool:
    """Only where the kind claims anything and its resources were read."""
    return case.facts.resources is not None


def check(case: Case) -> Iterable[Finding]:
    """INSUFFICIENT_LIQUIDITY, RESOURCE_CONTENTION, or CLAIM_FAILED; one finding per resource."""
    known = reservation_rules.by_name(case.facts.resources or ())
    for item in reservation_rules.wanted(case.kind, case.names):
        name = item.resource
        if isinstance(item, Unreadable) or name not in known:
            said = item.message if isinstance(item, Unreadable) else "there is no such resource"
            yield findings.fail(NAME, Reason.CLAIM_FAILED, f"{name}: {said}", subject=name)
            continue
        match reservation_rules.shortage(item, known[name]):
            case Shortage.LIQUIDITY:
                yield findings.fail(
                    NAME,
                    Reason.INSUFFICIENT_LIQUIDITY,
                    f"{name} does not have this much left. Propose less.",
                    subject=name,
                    proposed_value=item.amount,
                    limit=reservation_rules.available(known[name], even_reserved=True),
                )
            case Shortage.CONTENTION:
                yield findings.fail(
                    NAME,
                    Reason.RESOURCE_CONTENTION,
                    f"{name} is held by other flows just now. Try again later, or propose less.",
                    subject=name,
                    proposed_value=item.amount,
                    limit=reservation_rules.available(known[name]),
                )
            case None:
                continue
            case _ as never:
                assert_never(never)


def claims(case: Case) -> tuple[ResourceClaim, ...]:
    """What an accepted case takes, in the order of names."""
    if not applies(case):
        return ()
    return tuple(
        item for item in reservation_rules.wanted(case.kind, case.names) if isinstance(item, ResourceClaim)
    )
