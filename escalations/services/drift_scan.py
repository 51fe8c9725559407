"""Looks over the open escalations and gives the drifted ones a new revision, so that open pages show it.

Correctness does not need this (a decision checks for itself); people do, who should not decide in vain.
"""

import logging
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from audit import actors
from escalations import queries
from escalations.contracts import Family, State
from escalations.models import Escalation
from escalations.services import comparing, escalation_locks, evidence, evidence_revision
from runtime.core import transactions
from runtime.flows.services.flow_transaction import Journal
from runtime.proposals.queries import gate_facts
from runtime.state.models import Fact

log = logging.getLogger(__name__)
BATCH = 100


def revise_open() -> int:
    """Revise what has drifted; returns how many were revised. Reads without locks, writes one by one."""
    revised = 0
    for row in _suspects():
        try:
            # Judged in here: one that cannot be judged keeps no other from its revision.
            if not evidence_revision.is_drifted(escalation=row, flow=row.flow, agent=row.flow.agent):
                continue
            revised += transactions.retry_on_conflict(partial(_revise_one, row.pk, row.tenant))
        except Exception:
            log.exception("the evidence of escalation %s could not be revised", row.pk)
    return revised


def _suspects() -> Sequence[Escalation]:
    """Open escalations of which the rules, or a fact they depend on, have another digest than the one shown.

    A few queries for all of them: most ticks of a feed touch nothing that anybody waits for.
    """
    rows = list(
        Escalation.objects.filter(state=State.OPEN, family=Family.DECISION)
        .select_related("proposal", "flow__agent__active_manifest")
        .order_by("deadline_at")[:BATCH]
    )
    # What the current evidence depends on, by escalation: the digests of its rules and of its facts by path.
    # Left out is what cannot be read, and evidence that is not what the ledger recorded: that is for those
    # who decide, and no row may keep the others from their revisions.
    stands: dict[UUID, tuple[str, dict[str, str]]] = {}
    for tenant in {row.tenant for row in rows}:
        of_tenant = [row for row in rows if row.tenant == tenant]
        for pk, body in queries.get_evidence(tenant=tenant, escalations=of_tenant).items():
            try:
                stands[pk] = (body["policy_bundle_hash"], evidence.digests(body))
            except Exception:
                log.exception("the evidence of escalation %s could not be read", pk)
    facts = {pk: watched for pk, (_, watched) in stands.items()}
    paths = {path for watched in facts.values() for path in watched}
    live = {
        (row.tenant, row.path): row.digest
        for row in Fact.objects.filter(path__in=paths).only("tenant", "path", "digest")
    }
    kinds = {row.pk: row.proposal.policy_kind for row in rows if row.proposal and row.pk in stands}
    rules = gate_facts.list_bundle_digests((row.flow.agent, kinds[row.pk]) for row in rows if row.pk in kinds)
    return [
        row
        for row in rows
        if row.pk in kinds
        and (
            rules[(row.flow.agent_id, kinds[row.pk])] != stands[row.pk][0]
            or any(live.get((row.tenant, path), "") != digest for path, digest in facts[row.pk].items())
        )
    ]


def _revise_one(escalation_id: UUID, tenant: str) -> int:
    held = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if held is None or held.escalation.state != State.OPEN:
        return 0
    if comparing.compare_basis(held.escalation):
        return 0  # a new revision would replace what was rewritten, before anybody has seen it
    journal = Journal(flow=held.flow, actor=actors.SYSTEM, at=held.at)
    revised = evidence_revision.revise_if_drifted(
        escalation=held.escalation, flow=held.flow, agent=held.agent, journal=journal
    )
    if revised is None:
        return 0
    journal.write()
    return 1
