"""What follows from a verdict beside its decision: obligations, and by which codes it allows (DARE)."""

from collections.abc import Iterator

from runtime.contracts.obligation import Obligation
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.redaction import RedactedIn
from runtime.contracts.states import Decision
from runtime.contracts.verdict import FindingOutcome, VerdictDocument
from runtime.kernel.gate.gate_input import PolicyBundle


def list_obligations(
    verdict: VerdictDocument, *, proposal: ProposalDocument, rules: PolicyBundle
) -> Iterator[Obligation]:
    """What the runtime owes for a verdict, in the order of their enumeration. A REJECT is only recorded."""
    yield Obligation.AUDIT_LOG
    if verdict.decision is Decision.REJECT or rules.kind is None:
        return
    if proposal.by_person:
        yield Obligation.SIGN_ACTION
    if needs_approval(verdict, proposal=proposal):
        yield Obligation.HITL_APPROVAL
    if any(rule.covers(RedactedIn.RECEIPT) for rule in rules.kind.redact):
        yield Obligation.REDACT
    if rules.kind.limits or rules.kind.claims:
        yield Obligation.LIMIT


def needs_approval(verdict: VerdictDocument, *, proposal: ProposalDocument) -> bool:
    """Whether a person has to decide before anything is called, or has decided."""
    return verdict.decision is Decision.ESCALATE or proposal.by_person


def list_codes(verdict: VerdictDocument) -> list[str]:
    """By which codes a verdict says what it says, each once: `BUDGET_OK` for a check that passed.

    What rejects or asks a person says only why; what allows says what was asked and held, and what a person
    has lifted (`LIMITS_LIFTED`).
    """
    if verdict.decision is not Decision.ACCEPT:
        return list(dict.fromkeys(finding.code for finding in verdict.reasons))
    words = {FindingOutcome.PASS: "OK", FindingOutcome.LIFTED: "LIFTED"}
    said = (f"{finding.check.upper()}_{words[finding.outcome]}" for finding in verdict.findings)
    return list(dict.fromkeys(said))
