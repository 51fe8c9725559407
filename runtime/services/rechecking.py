"""Reads what the second look needs and takes it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runtime.contracts.facts import Facts
from runtime.contracts.verdict import Finding
from runtime.kernel import moments
from runtime.kernel.gate import recheck as gate_recheck
from runtime.kernel.gate.case import Rules
from runtime.kernel.gate.pipeline import Judgement
from runtime.models import Fact, Flow, Intent, Verdict
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
    world = fact_queries.get_world(
        tenant=flow.tenant, kind=rules.kind, params=proposal.params, conditions=proposal.conditions
    )
    facts = _with_own_writes(judgement.facts, intent, world=world)
    return gate_recheck.recheck(
        judgement.model_copy(update={"proposal": proposal, "facts": facts}),
        rules,
        world=world,
        now_ms=moments.to_ms(at),
    )


def _with_own_writes(facts: Facts, intent: Intent, *, world: Mapping[str, Any]) -> Facts:
    """What an earlier step of the intent has written itself is no news to a later one."""
    if facts.snapshot is None or not intent.position:
        return facts
    own = Fact.objects.of(intent.tenant).filter(path__in=list(world), writer=f"intent:{intent.pk}")
    written = {path: world[path] for path in own.values_list("path", flat=True)}
    seen = facts.snapshot.model_copy(update={"facts": {**facts.snapshot.facts, **written}})
    return facts.model_copy(update={"snapshot": seen})
