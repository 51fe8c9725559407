"""Reviews: a flag that a guard raised, its emergency stop, and what a person finds afterwards."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db import transaction

from audit import actors, canonical, events, ledger
from audit.payload_keys import PayloadClass
from runtime.contracts.guard import EmergencyStop, GuardDocument, GuardResult, ReviewResult, ReviewState, bps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentStatus, AttemptState, IntentState
from runtime.core import clock, transactions
from runtime.flows.models import Flow, Intent
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.guards.models import GuardRun, Review
from runtime.registry.services import agents

MAX_NOTE_CHARS = 500

_log = logging.getLogger(__name__)


def flag(*, flow: Flow, run_id: int, guard: GuardDocument, result: GuardResult, at: datetime) -> Review:
    """Open a review, inside the caller's transaction, which holds the flow's lock. It blocks nothing.

    An emergency-stop guard that is sure enough suspends the agent in the same transaction: the claim checks
    the agent's status under the flow's lock, so an intent that is not yet claimed is held. One that is
    claimed is not touched, and the review records that.
    """
    run = GuardRun.objects.select_related("guard", "proposal__agent").get(pk=run_id)
    agent = run.proposal.agent
    actor = actors.guard(guard.id)
    journal = Journal(flow=flow, actor=actor, at=at)
    stop, suspended = EmergencyStop.NOT_ASKED, False
    if guard.emergency_stop and bps(result.confidence) >= bps(guard.stop_confidence):
        stop = _stop_effect(flow)
        answer = agents.set_status(
            tenant=flow.tenant,
            agent_id=agent.agent_id,
            status=AgentStatus.SUSPENDED,
            reason=f"emergency stop of the guard {guard.id}",
            actor=actor,
        )
        suspended = not isinstance(answer, Problem)  # a retired agent stays as it is
    findings = canonical.encode([finding.model_dump(mode="json") for finding in result.findings])
    review = Review.objects.create(
        tenant=flow.tenant,
        flow=flow,
        agent=agent,
        proposal=run.proposal,
        guard=run.guard,
        run=run,
        confidence_bps=bps(result.confidence),
        findings=findings,
        emergency_stop=stop,
        agent_suspended=suspended,
        flagged_at=journal.at,
    )
    journal.add(
        events.ReviewFlagged(
            review_id=str(review.pk),
            proposal_id=str(run.proposal_id),
            guard_id=guard.id,
            guard_digest=run.guard_digest,
            confidence=result.confidence,
            codes=tuple(finding.code for finding in result.findings),
            findings_commitment=ledger.commit_payload(
                tenant=flow.tenant, data_class=PayloadClass.FINDINGS, body=findings
            ),
            emergency_stop=stop,
            agent_suspended=suspended,
        )
    )
    journal.write()
    warn = partial(
        _log.warning,
        "guard %s flags proposal %s of flow %s for review %s, confidence %s%s",
        guard.id,
        run.proposal_id,
        flow.pk,
        review.pk,
        result.confidence,
        "; its agent is suspended" if suspended else "",
    )
    transaction.on_commit(warn)
    return review


@transactions.retried
def close(*, tenant: str, review_id: UUID, result: ReviewResult, note: str, actor: str) -> Review | Problem:
    """Record what a person found; nothing is executed by it. 404 for none, 409 where it is already closed."""
    dfid = Review.objects.of(tenant).filter(pk=review_id).values_list("flow_id", flat=True).first()
    flow = None if dfid is None else locks.lock_one(dfid=dfid, tenant=tenant)
    if flow is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No review has this id.")
    review = Review.objects.select_for_update(of=("self",)).select_related("guard").get(pk=review_id)
    guard_id = "" if review.guard is None else review.guard.guard_id
    if review.state != ReviewState.OPEN:
        return Problem(
            code=ProblemCode.REVIEW_CLOSED,
            detail=f"This review was already closed as {review.result}. Review it again.",
        )
    journal = Journal(flow=flow, actor=actor, at=clock.now())
    review.state, review.result, review.note = ReviewState.REVIEWED, result, note[:MAX_NOTE_CHARS]
    review.reviewed_by, review.reviewed_at = actor, journal.at
    review.save(update_fields=["state", "result", "note", "reviewed_by", "reviewed_at"])
    journal.add(
        events.ReviewClosed(review_id=str(review.pk), guard_id=guard_id, result=result, note=review.note)
    )
    journal.write()
    return review


def close_all(
    *, tenant: str, review_ids: Sequence[UUID], result: ReviewResult, note: str, actor: str
) -> Mapping[UUID, Review | Problem]:
    """Close several reviews with one answer, each in a transaction and with an entry of its own.

    One that somebody else has closed meanwhile is refused like a single one, and keeps what was found of it.

    Raises:
        transactions.BusyError: rows were too contended; those before it are closed.
    """
    return {
        review_id: close(tenant=tenant, review_id=review_id, result=result, note=note, actor=actor)
        for review_id in dict.fromkeys(review_ids)
    }


def _stop_effect(flow: Flow) -> EmergencyStop:
    """What an emergency stop does to the newest intent, which a claim cannot change under the flow's lock."""
    intent = Intent.objects.filter(flow=flow).order_by("-intent_id").first()
    if intent is None:
        return EmergencyStop.NO_INTENT
    if intent.state == IntentState.PENDING:
        # Waiting for its next try: an earlier call has been made.
        was_called = intent.attempt_rows.exclude(state=AttemptState.HELD).exists()
        return EmergencyStop.UNDER_WAY if was_called else EmergencyStop.HELD
    if intent.state in (
        IntentState.CLAIMED,
        IntentState.AWAITING,
        IntentState.IN_DOUBT,
        IntentState.WITH_PERSON,
    ):
        return EmergencyStop.UNDER_WAY
    return EmergencyStop.ENDED
