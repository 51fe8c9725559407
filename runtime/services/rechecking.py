"""Reads what the second look needs and takes it."""

from datetime import datetime

from runtime.contracts.verdict import Finding
from runtime.kernel import moments
from runtime.kernel.gate import recheck as gate_recheck
from runtime.kernel.gate.case import Rules
from runtime.kernel.gate.pipeline import Judgement
from runtime.models import Flow, Intent, Verdict
from runtime.queries import facts as fact_queries


def recheck(*, flow: Flow, intent: Intent, at: datetime) -> tuple[Finding, ...]:
    """What no longer holds for an intent at `at`; empty when it may be called. Writes nothing."""
    row = Verdict.objects.select_related("bundle").get(pk=intent.proposal_id)
    judgement = Judgement.from_bytes(bytes(row.input))
    rules = Rules.from_bytes(bytes(row.bundle.body))
    if rules.kind is None:
        raise LookupError("an intent stands on a verdict without a policy kind")
    # A person who resumed the intent has extended its window: the row's own end counts, not the claim's.
    proposal = judgement.proposal.model_copy(update={"valid_until_ms": moments.to_ms(intent.valid_until)})
    return gate_recheck.recheck(
        judgement.model_copy(update={"proposal": proposal}),
        rules,
        world=fact_queries.get_world(
            tenant=flow.tenant, kind=rules.kind, params=proposal.params, conditions=proposal.conditions
        ),
        now_ms=moments.to_ms(at),
    )
