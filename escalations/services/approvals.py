"""Whether a person's signed decision stands behind a proposal: asked before anything of it is called."""

from uuid import UUID

from audit import canonical, queries
from audit.events import Kind
from escalations.models import Decision
from escalations.services import comparing
from runtime.core import mismatches
from runtime.core.mismatches import Mismatch


def compare(
    *, tenant: str, dfid: UUID, proposal_id: UUID, author: str, evidence_hash: str
) -> Mismatch | None:
    """What does not match of the decision that made a proposal; None where it stands.

    It must be in the ledger, signed by the runtime, of the proposal's author, and on the evidence that the
    proposal names.
    """
    told = queries.list_payloads(tenant=tenant, stream=str(dfid), kinds=[Kind.ESCALATION_DECIDED])
    said = next((payload for _, payload in told if payload["proposal_id"] == str(proposal_id)), None)
    if said is None:
        return _missing(proposal_id)
    row = Decision.objects.filter(
        escalation_id=said["escalation_id"], sequence=said.get("sequence", 1)
    ).first()
    if row is None:
        return _missing(proposal_id, recorded=said["statement_digest"])
    for wrong in comparing.compare_signed(said, row):
        # By digests: the values may be words of a person.
        return mismatches.of_values(wrong.row, wrong.row_id, wrong.recorded, wrong.found)
    stated = canonical.decode(bytes(row.statement))
    for name, asked in (("approver", author), ("evidence_hash", evidence_hash)):
        if stated[name] != asked:
            return mismatches.of_values(f"decision.{name}", str(row.pk), stated[name], asked)
    return None


def _missing(proposal_id: UUID, *, recorded: str = mismatches.NOT_RECORDED) -> Mismatch:
    return Mismatch(row="decision", row_id=str(proposal_id), recorded=recorded, found="")
