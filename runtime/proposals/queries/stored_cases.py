"""A stored verdict as the case that the gate saw, with its rules; and what its proposal would change now."""

from dataclasses import replace
from uuid import UUID

from audit.verification.verify import UNREADABLE
from runtime.contracts.verdict import Difference
from runtime.flows.models import Proposal, Verdict
from runtime.kernel.gate import preview
from runtime.kernel.gate.gate_input import Case, PolicyBundle
from runtime.kernel.gate.pipeline import Judgement
from runtime.kernel.rules import safety
from runtime.proposals.queries import gate_facts


def get_case(*, proposal_id: UUID) -> Case:
    """Proposal, facts, rules and moment of the verdict on a proposal, whatever is active now.

    Raises:
        Verdict.DoesNotExist: when the proposal was never judged.
    """
    row = Verdict.objects.select_related("bundle").get(pk=proposal_id)
    return case_of(judgement=bytes(row.input), rules=bytes(row.bundle.body))


def case_of(*, judgement: bytes, rules: bytes) -> Case:
    """The same from the stored bytes. Raises ValueError for bytes that are none of these documents."""
    judged = Judgement.from_bytes(judgement)
    return Case(
        proposal=judged.proposal,
        facts=judged.facts,
        rules=PolicyBundle.from_bytes(rules),
        now_ms=judged.now_ms,
        gate=judged.gate_version,
    )


def predict_now(*, proposal: Proposal, rules: PolicyBundle) -> tuple[Difference, ...]:
    """The changes to expect of a stored proposal by the given rules and the facts of now; for display only.

    None are expected where the rules lack a part, or where a fact or the case cannot be read.
    """
    if rules.kind is None:
        return ()
    try:
        stored = get_case(proposal_id=proposal.pk)
        world = gate_facts.get_world(
            tenant=proposal.flow.tenant, kind=rules.kind, params=stored.proposal.params
        )
    except UNREADABLE:
        return ()
    unsafe = safety.why_unsafe(rules.kind) or safety.why_too_slow(rules.kind, world=world, conditions=())
    facts = stored.facts.model_copy(update={"world": world, "unsafe": unsafe or None})
    return preview.predicted(replace(stored, facts=facts, rules=rules))
