"""What a verdict must prove before its call: its entry, and the decision of the person who proposed it."""

from runtime.contracts.reasons import Reason
from runtime.core import ports
from runtime.flows.models import Intent, Verdict
from runtime.flows.queries.recorded_flow import RecordedFlow
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel.gate.pipeline import Judgement


def refuse_unproved(
    journal: Journal, intent: Intent, verdict: Verdict, recorded: RecordedFlow
) -> Reason | None:
    """What a verdict is obliged to: its entry, and for a person's proposal the decision as it was signed."""
    mismatch = recorded.compare_verdict(verdict)
    if mismatch is not None:
        journal.add(mismatch.event())
        return Reason.TAMPERED
    asked = Judgement.from_bytes(bytes(verdict.input)).proposal
    if not asked.by_person:
        return None
    unmet = ports.compare_approval(
        tenant=intent.tenant,
        dfid=intent.flow_id,
        proposal_id=intent.proposal_id,
        author=asked.author,
        evidence_hash=asked.context_ref or "",
    )
    if unmet is None:
        return None
    journal.add(unmet.event())
    return Reason.APPROVAL_UNPROVED
