"""Looks over the open escalations and gives the drifted ones a new revision, so that open pages show it.

Correctness does not need this (a decision checks for itself); people do, who should not decide in vain.
"""

import logging
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from audit import canonical
from escalations.contracts import Family, State
from escalations.models import Escalation, Evidence
from escalations.services import evidence, holding, revising
from runtime.models import Fact
from runtime.queries import facts as fact_queries
from runtime.queries import recorded
from runtime.services import races
from runtime.services.journal import Journal

log = logging.getLogger(__name__)
BATCH = 100


def revise_open() -> int:
    """Revise what has drifted; returns how many were revised. Reads without locks, writes one by one."""
    revised = 0
    for row in _suspects():
        try:
            # Judged in here: one that cannot be judged keeps no other from its revision.
            if not revising.is_drifted(escalation=row, flow=row.flow, agent=row.flow.agent):
                continue
            revised += races.run(partial(_revise_one, row.pk, row.tenant))
        except Exception:
            log.exception("the evidence of escalation %s could not be revised", row.pk)
    return revised


def _suspects() -> Sequence[Escalation]:
    """Open escalations of which the rules, or a fact they stand on, have another digest than the one shown.

    A few queries for all of them: most ticks of a feed touch nothing that anybody waits for.
    """
    rows = list(
        Escalation.objects.filter(state=State.OPEN, family=Family.DECISION)
        .select_related("proposal", "flow__agent__active_manifest")
        .order_by("deadline_at")[:BATCH]
    )
    bodies = {row.hash: row.body for row in Evidence.objects.filter(escalation__in=[row.pk for row in rows])}
    # A body that is not what its case names is left to who decides: one rewritten row must not stop the rest.
    shown = {
        row.pk: canonical.decode(bytes(bodies[row.evidence_hash]))
        for row in rows
        if recorded.compare("evidence.body", "", row.evidence_hash, bodies.get(row.evidence_hash)) is None
    }
    facts = {pk: evidence.digests(body) for pk, body in shown.items()}
    paths = {path for watched in facts.values() for path in watched}
    live = {
        (row.tenant, row.path): row.digest
        for row in Fact.objects.filter(path__in=paths).only("tenant", "path", "digest")
    }
    kinds = {row.pk: row.proposal.policy_kind for row in rows if row.proposal and row.pk in shown}
    rules = fact_queries.list_bundle_digests(
        (row.flow.agent, kinds[row.pk]) for row in rows if row.pk in kinds
    )
    return [
        row
        for row in rows
        if row.pk in kinds
        and (
            rules[(row.flow.agent_id, kinds[row.pk])] != shown[row.pk]["policy_bundle_hash"]
            or any(live.get((row.tenant, path), "") != digest for path, digest in facts[row.pk].items())
        )
    ]


def _revise_one(escalation_id: UUID, tenant: str) -> int:
    held = holding.hold(escalation_id=escalation_id, tenant=tenant)
    if held is None or held.escalation.state != State.OPEN:
        return 0
    journal = Journal(flow=held.flow, actor="system", at=held.at)
    revised = revising.revise_if_drifted(
        escalation=held.escalation, flow=held.flow, agent=held.agent, journal=journal
    )
    if revised is None:
        return 0
    journal.write()
    return 1
