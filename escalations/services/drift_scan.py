"""Looks over the open escalations and gives the drifted ones a new revision, so that open pages show it.

Correctness does not need this (a decision checks for itself); people do, who should not decide in vain.
"""

import logging
import time
from collections.abc import Collection, Sequence
from uuid import UUID

from audit import actors
from escalations import queries
from escalations.contracts import Family, State
from escalations.evidence_contracts import JudgedEvidence
from escalations.models import Escalation
from escalations.services import comparing, escalation_locks, evidence_revision
from runtime.core import transactions
from runtime.flows.services.flow_transaction import Journal
from runtime.proposals.queries import gate_facts
from runtime.state.models import Fact

log = logging.getLogger(__name__)
BATCH = 100
# Prices move every second, mostly within what was shown, and judging all that waits again each time was most
# of the work of an idle console. People see a drift this much later at most.
LOOK_AGAIN_S = 3.0

# When this process last found an escalation as it was shown, by its monotonic clock.
_unmoved: dict[UUID, float] = {}


def revise_open(*, again_s: float = 0) -> int:
    """Revise what has drifted; returns how many were revised. Reads without locks, writes one by one.

    What had not drifted less than `again_s` seconds ago is left for a later time.
    """
    revised, since = 0, time.monotonic() - again_s
    for pk in [pk for pk, looked in list(_unmoved.items()) if looked <= since]:
        _unmoved.pop(pk, None)
    for row, shown in _suspects(set(_unmoved)):
        try:
            # Judged in here: one that cannot be judged keeps no other from its revision.
            if not evidence_revision.is_drifted(
                escalation=row, shown=shown, flow=row.flow, agent=row.flow.agent
            ):
                _unmoved[row.pk] = time.monotonic()
                continue
            revised += _revise_one(row.pk, row.tenant)
        except Exception:
            log.exception("the evidence of escalation %s could not be revised", row.pk)
    return revised


def _suspects(unmoved: Collection[UUID]) -> Sequence[tuple[Escalation, JudgedEvidence]]:
    """Open escalations of which the rules, or a fact they depend on, have another digest than the one shown.

    A few queries for all of them: most ticks of a feed touch nothing that anybody waits for.
    """
    rows = list(
        Escalation.objects.filter(state=State.OPEN, family=Family.DECISION)
        .select_related("proposal", "flow__agent__active_manifest")
        .order_by("deadline_at")[:BATCH]
    )
    rows = [row for row in rows if row.pk not in unmoved]
    # Left out is what cannot be read, and evidence that is not what the ledger recorded: that is for those
    # who decide, and no row may keep the others from their revisions.
    evidence: dict[UUID, JudgedEvidence] = {}
    for tenant in {row.tenant for row in rows}:
        of_tenant = [row for row in rows if row.tenant == tenant]
        for pk, shown in queries.get_evidence(tenant=tenant, escalations=of_tenant).items():
            if isinstance(shown, JudgedEvidence):
                evidence[pk] = shown
    watched = {pk: shown.watched_digests for pk, shown in evidence.items()}
    paths = {path for facts in watched.values() for path in facts}
    live = {
        (row.tenant, row.path): row.digest
        for row in Fact.objects.filter(path__in=paths).only("tenant", "path", "digest")
    }
    kinds = {row.pk: row.proposal.policy_kind for row in rows if row.proposal and row.pk in evidence}
    rules = gate_facts.list_bundle_digests((row.flow, kinds[row.pk]) for row in rows if row.pk in kinds)
    return [
        (row, evidence[row.pk])
        for row in rows
        if row.pk in kinds
        and (
            rules[(row.flow_id, kinds[row.pk])] != evidence[row.pk].policy_bundle_hash
            or any(live.get((row.tenant, path), "") != digest for path, digest in watched[row.pk].items())
        )
    ]


@transactions.retried
def _revise_one(escalation_id: UUID, tenant: str) -> int:
    locked = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if locked is None or locked.escalation.state != State.OPEN:
        return 0
    shown = comparing.check_basis(locked.escalation).evidence
    if shown is None:
        return 0  # a new revision would replace what was rewritten, before anybody has seen it
    journal = Journal(flow=locked.flow, actor=actors.SYSTEM, at=locked.at)
    revised = evidence_revision.revise_if_drifted(
        escalation=locked.escalation, shown=shown, flow=locked.flow, agent=locked.agent, journal=journal
    )
    if revised is None:
        return 0
    journal.write()
    return 1
