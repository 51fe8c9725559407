"""What it takes: compute, calls a minute, resources, and a person's attention. Is there enough left?"""

from collections.abc import Iterable
from typing import assert_never

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding, ResourceClaim
from runtime.kernel import budget_rules, reservation_rules
from runtime.kernel.gate import findings
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.reservation_rules import Shortage, Unreadable


def check_budget(case: Case) -> Iterable[Finding]:
    """Has the flow's reasoning stayed inside its compute budget? (DIR paper, 9.3)

    BUDGET_EXCEEDED for each bound that is passed; a person's decision is not the agent's reasoning.
    """
    compute = case.facts.compute
    if compute is None or case.proposal.by_person:
        return
    opened_at_ms = case.facts.flow.opened_at_ms
    for item in budget_rules.overspent(compute, opened_at_ms=opened_at_ms, now_ms=case.now_ms):
        yield findings.fail(
            CheckName.BUDGET,
            Reason.BUDGET_EXCEEDED,
            f"The flow has used more {item.what.value} than it may and is aborted. Open a new flow.",
            subject=item.what.value,
            proposed_value=item.used,
            limit=item.cap,
        )


def check_rate(case: Case) -> Iterable[Finding]:
    """Is the agent within its manifest's rate limit? Without one there is none.

    RATE_LIMITED when this proposal would be one too many in the last minute.
    """
    allowed = case.manifest.proposals_per_minute
    if allowed is None or case.proposal.by_person:
        return
    sent = (case.facts.history or {}).get("proposals_1m")
    if sent is None or sent >= allowed:
        yield findings.fail(
            CheckName.RATE,
            Reason.RATE_LIMITED,
            "The agent proposes faster than its manifest allows. Wait a minute.",
            proposed_value=None if sent is None else sent + 1,
            limit=allowed,
        )


def check_resources(case: Case) -> Iterable[Finding]:
    """Can what the action takes be reserved? Decided on facts, then taken in the same transaction (ADR 0010).

    INSUFFICIENT_LIQUIDITY, RESOURCE_CONTENTION, or CLAIM_FAILED; one finding per resource.
    """
    known = reservation_rules.by_name(case.facts.resources or ())
    for item in case.wanted:
        name = item.resource
        if isinstance(item, Unreadable) or name not in known:
            said = item.message if isinstance(item, Unreadable) else "there is no such resource"
            yield findings.fail(CheckName.RESOURCES, Reason.CLAIM_FAILED, f"{name}: {said}", subject=name)
            continue
        match reservation_rules.shortage(item, known[name]):
            case Shortage.LIQUIDITY:
                yield findings.fail(
                    CheckName.RESOURCES,
                    Reason.INSUFFICIENT_LIQUIDITY,
                    f"{name} does not have this much left. Propose less.",
                    subject=name,
                    proposed_value=item.amount,
                    limit=reservation_rules.available(known[name], even_reserved=True),
                )
            case Shortage.CONTENTION:
                yield findings.fail(
                    CheckName.RESOURCES,
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
    if case.facts.resources is None:
        return ()
    return tuple(item for item in case.wanted if isinstance(item, ResourceClaim))


def check_escalation_budget(case: Case) -> Iterable[Finding]:
    """Can the agent still pay for a person's attention? (DIR paper, 9.3: the escalation budget)

    ESCALATION_BUDGET_EXHAUSTED; the pipeline asks only when everything else would escalate.
    """
    if case.facts.escalation_tokens < 1 and not case.proposal.by_person:
        yield findings.fail(
            CheckName.ESCALATION_BUDGET,
            Reason.ESCALATION_BUDGET_EXHAUSTED,
            "The agent has no escalation left this hour: it becomes PASSIVE and the flow is aborted.",
            proposed_value=1,
            limit=case.facts.escalation_tokens,
        )
