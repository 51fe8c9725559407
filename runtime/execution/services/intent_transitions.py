"""How an intent ends, goes back, or goes to a person. Collects in the journal; the caller writes it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery

from audit import actors, canonical, events, ledger, statements
from audit.payload_keys import PayloadClass
from runtime.contracts.reasons import Reason
from runtime.contracts.source_labels import LabelSource
from runtime.contracts.states import Effect, FeedbackType, FlowState, IntentState, OutcomeStatus, Purpose
from runtime.core import ports, transactions
from runtime.execution.services import result_rules
from runtime.flows.models import Attempt, Intent, Outcome, Proposal
from runtime.flows.queries import intent_records, saga_progress
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import execution
from runtime.kernel.execution import RetryAt
from runtime.kernel.gate.recheck import Withdrawn
from runtime.kernel.saga import Position
from runtime.registry.services import agent_labels
from runtime.state.queries import world


def close(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    *,
    receipt: bytes,
    receipt_commitment: str,
    observed: Mapping[str, Any],
    recorded_by: str,
) -> None:
    """The call took effect: intent DONE, outcome SUCCEEDED, flow CLOSED.

    `observed` holds what the targets returned, for comparison with what was expected.
    """
    _record(
        journal,
        intent,
        plan,
        status=OutcomeStatus.SUCCEEDED,
        receipt=receipt,
        receipt_commitment=receipt_commitment,
        observed=observed,
        recorded_by=recorded_by,
    )
    journal.transition(FlowState.CLOSED)
    journal.notify_agent(FeedbackType.FLOW_CLOSED, {"reason": ""})


def abort(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    *,
    status: OutcomeStatus,
    code: str,
    error_category: str = "",
    recorded_by: str = actors.SYSTEM,
) -> None:
    """The effect will not come: outcome `status`, flow ABORTED for `code`."""
    _record(journal, intent, plan, status=status, error_category=error_category, recorded_by=recorded_by)
    journal.transition(FlowState.ABORTED, reason=str(code))
    journal.notify_agent(FeedbackType.FLOW_ABORTED, {"reason": str(code)})


def close_failed(journal: Journal, intent: Intent, plan: IntentPlan, *, error_category: str) -> None:
    """A route of the kind closes the flow although the step has failed; the outcome records the failure."""
    _record(
        journal,
        intent,
        plan,
        status=OutcomeStatus.FAILED,
        error_category=error_category,
        recorded_by=actors.SYSTEM,
    )
    journal.transition(FlowState.CLOSED, reason=Reason.CLOSED_BY_ROUTE)
    journal.notify_agent(FeedbackType.FLOW_CLOSED, {"reason": Reason.CLOSED_BY_ROUTE.value})


def report_late_receipt(journal: Journal, intent: Intent, *, receipt: bytes) -> None:
    """Tell the agent that a receipt came after the work had ended: what it knows of the effect was wrong."""
    outcome = Outcome.objects.filter(intent=intent).first()
    _label(journal, IntentPlan.of(intent))
    journal.notify_agent(
        FeedbackType.EXECUTION_OUTCOME,
        {
            "intent_id": str(intent.pk),
            "status": OutcomeStatus.CANCELLED.value if outcome is None else outcome.status,
            "effect": saga_progress.get_effect(proposals={intent.proposal_id}).value,
            "error_category": None if outcome is None else outcome.error_category or None,
            "receipt": canonical.decode(receipt),
            "attempts": intent.attempts,
            "deviations": [],
        },
    )


def _label(journal: Journal, plan: IntentPlan) -> None:
    """The agent is told of a result in this transaction: it has the labels of the kind from then on."""
    if plan.labels:
        agent_labels.gain(
            agent_pk=journal.flow.agent_id,
            labels=plan.labels,
            because=LabelSource.RESULT,
            source=str(journal.flow.pk),
            at=journal.at,
        )


def reschedule(intent: Intent, *, next_at: datetime, failures: int) -> None:
    """Back among the waiting, not before `next_at`, for the same purpose."""
    _change(intent, state=IntentState.PENDING, next_at=next_at, failures=failures)


def schedule_retry(intent: Intent, *, again: RetryAt) -> None:
    """Back among the waiting after an attempt."""
    _change(
        intent,
        state=IntentState.PENDING,
        next_at=again.at,
        failures=again.failures,
        purpose=again.purpose,
    )


def advance_to(
    intent: Intent,
    plan: IntentPlan,
    to: Position,
    *,
    at: datetime,
    cause: str | None = None,
    cause_category: str | None = None,
) -> None:
    """Among the waiting for another call of its walk, due at once; `cause` is why it turned back."""
    _change(
        intent,
        state=IntentState.PENDING,
        position=to.step,
        direction=to.direction,
        purpose=Purpose.CALL,
        target=plan.target_at(to.step),
        failures=0,
        next_at=at,
        cause=intent.cause if cause is None else str(cause)[:64],
        cause_category=intent.cause_category if cause_category is None else str(cause_category)[:32],
    )


def extend(intent: Intent, *, next_at: datetime, valid_until: datetime, lifted: bytes) -> None:
    """Back among the waiting by a person's word: failures forgotten, and a new end of the window."""
    _change(
        intent,
        state=IntentState.PENDING,
        next_at=next_at,
        valid_until=valid_until,
        failures=0,
        purpose=Purpose.CALL,
        lifted=lifted,
        answered=intent.attempts,
    )


def restore_state(intent: Intent, *, state: IntentState) -> None:
    """Out of the waiting, where its row was put by hand: back to the state that its entries give it."""
    _change(intent, state=state)


def extend_window(intent: Intent, *, valid_until: datetime) -> None:
    """A new end of the window, and nothing else."""
    _change(intent, valid_until=valid_until)


def ask_person(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    *,
    reason: Reason,
    failures: int,
    withdrawn: Withdrawn | None = None,
) -> None:
    """Open an operational escalation; no deadline resolves it and no escalation token is spent.

    With `withdrawn` it is about what the active rules no longer grant, and the person is shown that.
    """
    in_doubt = reason is Reason.IN_DOUBT
    state = IntentState.IN_DOUBT if in_doubt else IntentState.WITH_PERSON
    _change(intent, state=state, failures=failures)
    if in_doubt:
        journal.add(events.IntentInDoubt(intent_id=str(intent.pk), number=intent.attempts))
    journal.transition(FlowState.ESCALATED, reason=reason)
    proposal = Proposal.objects.select_related("verdict").get(pk=intent.proposal_id)
    opened = ports.open_escalation(
        flow=journal.flow,
        proposal=proposal,
        verdict=proposal.verdict,
        intent=intent,
        family="OPERATIONAL",
        reason=reason.value,
        withdrawn=withdrawn,
        at=journal.at,
    )
    journal.add(opened.event)
    place = {}
    if intent.steps != 1:
        place = {"step": plan.step_id(intent.position), "direction": str(intent.direction)}
    journal.notify_agent(
        FeedbackType.ESCALATION_REQUIRED,
        {
            "escalation_id": str(opened.escalation_id),
            "reason": reason.value,
            "details": {
                "intent_id": str(intent.pk),
                "target": intent.target,
                "attempts": intent.attempts,
                "failures": failures,
                **place,
            },
            "status": "AWAITING_HUMAN_INPUT",
        },
    )


def _record(
    journal: Journal,
    intent: Intent,
    plan: IntentPlan,
    *,
    status: OutcomeStatus,
    recorded_by: str,
    error_category: str = "",
    receipt: bytes | None = None,
    receipt_commitment: str | None = None,
    observed: Mapping[str, Any] | None = None,
) -> None:
    changes, missed = result_rules.collect_changes(journal, intent, plan)
    # Nothing is expected of requests that cannot be read, which are themselves a reason to end.
    expected = list(plan.expected)
    # What did not come about was not observed to be other than expected.
    found = (
        () if observed is None else execution.deviations(expected=expected, receipt=observed, written=changes)
    )
    named = None if receipt is None else result_rules.name_outcome(intent, plan, receipt=receipt)
    wrong = () if named is None else named.deviations
    after = None if receipt is None else result_rules.find_after(journal, intent, plan)
    checked = (
        *result_rules.list_misfits(intent, plan, receipt=receipt),
        *(() if after is None else after.deviations),
    )
    listed = [deviation.model_dump(mode="json") for deviation in (*found, *missed, *wrong, *checked)]
    if after is not None:
        result_rules.record_asked(journal, intent, plan, after.asked)
    _change(intent, state=intent_records.ENDED_BY[status], finished_at=journal.at)
    # From the first attempt to this moment; 0 where nothing was ever tried.
    [(began_at, world_version)] = _BEGAN_AT_AND_WORLD.rows(intent=intent.pk, tenant=intent.tenant)
    outcome = Outcome(
        intent=intent,
        status=status,
        error_category=str(error_category)[:32],
        receipt=receipt,
        expected=canonical.encode(expected),
        deviations=canonical.encode(listed),
        writes=canonical.encode([change.model_dump(mode="json") for change in changes]),
        attempts=intent.attempts,
        duration_ms=0 if began_at is None else round((journal.at - began_at).total_seconds() * 1000),
        recorded_by=recorded_by,
        recorded_at=journal.at,
        deviated_at=journal.at if listed else None,
    )
    statements.insert([outcome])
    journal.add(
        events.OutcomeRecorded(
            intent_id=str(intent.pk),
            status=status,
            receipt_commitment=receipt_commitment,
            deviations=len(listed),
            outcome_digest=intent_records.outcome_digest(outcome),
            deviations_commitment=_commit(intent, listed) if checked else None,
            world_version_id=world_version or 0,
        )
    )
    if intent.attempts or receipt is not None:
        _label(journal, plan)
    own = {}
    if named is not None:
        result_rules.record_name(journal, intent, named, receipt_commitment=receipt_commitment)
        outputs = None if named.outputs is None else canonical.decode(named.outputs)
        own = {"outcome": named.outcome, "outputs": outputs}
    effect = Effect.HAPPENED
    if status is not OutcomeStatus.SUCCEEDED:
        # Who gave up on a call may or may not know whether it took effect.
        effect = saga_progress.get_effect(proposals={intent.proposal_id})
    journal.notify_agent(
        FeedbackType.EXECUTION_OUTCOME,
        {
            "intent_id": str(intent.pk),
            "status": status.value,
            "effect": effect.value,
            "error_category": str(error_category) or None,
            "receipt": None if receipt is None else canonical.decode(receipt),
            "attempts": intent.attempts,
            "deviations": listed,
            **own,
        },
    )


def _commit(intent: Intent, deviations: list[dict[str, Any]]) -> str:
    body = canonical.encode(deviations)
    return ledger.commit_payload(tenant=intent.tenant, data_class=PayloadClass.RECEIPTS, body=body)


def _change(intent: Intent, **columns: Any) -> None:
    """Compare-and-swap on the state that was read; a claim's lease ends with any change."""
    before, attempts = intent.state, intent.attempts
    for name, value in columns.items():
        setattr(intent, name, value)
    intent.lease_owner, intent.lease_until = "", None
    if _CHANGED.run(pk=intent.pk, before=before, tried=attempts, **columns) != 1:
        raise transactions.ConcurrentUpdateError


def _changed(*, pk: UUID, before: str, tried: int, **columns: Any) -> tuple[QuerySet[Intent], dict[str, Any]]:
    rows = Intent.objects.filter(pk=pk, state=before, attempts=tried)
    return rows, {"lease_owner": "", "lease_until": None, **columns}


def _began_at_and_world(*, intent: UUID, tenant: str) -> QuerySet[Intent, tuple[datetime | None, int | None]]:
    calls = Attempt.objects.filter(intent=OuterRef("pk")).order_by("number")
    began_at = Subquery(calls.values("started_at")[:1])
    return Intent.objects.filter(pk=intent).values_list(
        began_at, Subquery(world.last_numbered(tenant=tenant))
    )


_CHANGED: Final = statements.Change(_changed)
_BEGAN_AT_AND_WORLD: Final = statements.Read(_began_at_and_world)
