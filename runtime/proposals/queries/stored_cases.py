"""A stored verdict with the rules it was judged under, as the case that the gate saw."""

from uuid import UUID

from runtime.flows.models import Verdict
from runtime.kernel.gate.gate_input import Case, PolicyBundle
from runtime.kernel.gate.pipeline import Judgement


def get_case(*, proposal_id: UUID) -> Case:
    """Proposal, facts, rules and moment of the verdict on a proposal, whatever is active now.

    Raises:
        Verdict.DoesNotExist: when the proposal was never judged.
    """
    row = Verdict.objects.select_related("bundle").get(pk=proposal_id)
    judgement = Judgement.from_bytes(bytes(row.input))
    rules = PolicyBundle.from_bytes(bytes(row.bundle.body))
    return Case(
        proposal=judgement.proposal,
        facts=judgement.facts,
        rules=rules,
        now_ms=judgement.now_ms,
        gate=judgement.gate_version,
    )
