"""How an intent ends, goes back, or goes to a person. Collects in the journal; the caller writes it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from audit import canonical, events
from runtime import ports
from runtime.contracts.outcome import Deviation, Rendered
from runtime.contracts.reasons import Reason
from runtime.contracts.states import FeedbackType, FlowState, IntentState, OutcomeStatus
from runtime.kernel import execution
from runtime.models import Attempt, Intent, Outcome, Proposal
from runtime.services import races
from runtime.services.journal import Journal

_STATES = {
    OutcomeStatus.SUCCEEDED: IntentState.DONE,
    OutcomeStatus.FAILED: IntentState.FAILED,
    OutcomeStatus.EXPIRED: IntentState.EXPIRED,
    OutcomeStatus.CANCELLED: IntentState.CANCELLED,
}


def close(
    journal: Journal,
    intent: Intent,
    *,
    receipt: bytes,
    receipt_commitment: str,
    recorded_by: str,
) -> None:
    """The effect is in the world: intent DONE, outcome SUCCEEDED, flow CLOSED."""
    found = execution.deviations(expected=_expected(intent), receipt=canonical.decode(receipt))
    _record(
        journal,
        intent,
        status=OutcomeStatus.SUCCEEDED,
        receipt=receipt,
        receipt_commitment=receipt_commitment,
        found=found,
        recorded_by=recorded_by,
    )
    journal.move(FlowState.CLOSED)
    journal.tell(FeedbackType.FLOW_CLOSED, {"reason": ""})


def abort(
    journal: Journal,
    intent: Intent,
    *,
    status: OutcomeStatus,
    code: str,
    error_category: str = "",
    recorded_by: str = "system",
) -> None:
    """The effect will not come: outcome `status`, flow ABORTED for `code`."""
    _record(journal, intent, status=status, error_category=error_category, recorded_by=recorded_by)
    journal.move(FlowState.ABORTED, reason=str(code))
    journal.tell(FeedbackType.FLOW_ABORTED, {"reason": str(code)})


def abort_terminal(journal: Journal, intent: Intent, *, error_category: str) -> None:
    """The target refused for good."""
    abort(
        journal,
        intent,
        status=OutcomeStatus.FAILED,
        code=Reason.TERMINAL_FAILURE,
        error_category=error_category,
    )


def put_back(intent: Intent, *, next_at: datetime, failures: int) -> None:
    """Back among the waiting, not before `next_at`."""
    _change(intent, state=IntentState.PENDING, next_at=next_at, failures=failures)


def extend(intent: Intent, *, next_at: datetime, valid_until: datetime) -> None:
    """Back among the waiting by a person's word: failures forgotten, and a new end of the window."""
    _change(intent, state=IntentState.PENDING, next_at=next_at, valid_until=valid_until, failures=0)


def ask_person(journal: Journal, intent: Intent, *, reason: Reason, failures: int) -> None:
    """Open an operational escalation; no deadline resolves it and no escalation token is spent."""
    in_doubt = reason is Reason.IN_DOUBT
    state = IntentState.IN_DOUBT if in_doubt else IntentState.WITH_PERSON
    _change(intent, state=state, failures=failures)
    if in_doubt:
        journal.add(events.IntentInDoubt(intent_id=str(intent.pk), number=intent.attempts))
    journal.move(FlowState.ESCALATED, reason=reason)
    proposal = Proposal.objects.select_related("verdict").get(pk=intent.proposal_id)
    opened = ports.open_escalation(
        flow=journal.flow,
        proposal=proposal,
        verdict=proposal.verdict,
        intent=intent,
        family="OPERATIONAL",
        reason=reason.value,
        at=journal.at,
    )
    journal.add(opened.event)
    journal.tell(
        FeedbackType.ESCALATION_REQUIRED,
        {
            "escalation_id": str(opened.escalation_id),
            "reason": reason.value,
            "details": {
                "intent_id": str(intent.pk),
                "target": intent.target,
                "attempts": intent.attempts,
                "failures": failures,
            },
            "status": "AWAITING_HUMAN_INPUT",
        },
    )


def _record(
    journal: Journal,
    intent: Intent,
    *,
    status: OutcomeStatus,
    recorded_by: str,
    error_category: str = "",
    receipt: bytes | None = None,
    receipt_commitment: str | None = None,
    found: Sequence[Deviation] = (),
) -> None:
    listed = [deviation.model_dump(mode="json") for deviation in found]
    _change(intent, state=_STATES[status], finished_at=journal.at)
    Outcome.objects.create(
        intent=intent,
        status=status,
        error_category=str(error_category)[:32],
        receipt=receipt,
        expected=canonical.encode(_expected(intent)),
        deviations=canonical.encode(listed),
        attempts=intent.attempts,
        duration_ms=_duration_ms(journal, intent),
        recorded_by=recorded_by,
        recorded_at=journal.at,
    )
    journal.add(
        events.OutcomeRecorded(
            intent_id=str(intent.pk),
            status=status,
            receipt_commitment=receipt_commitment,
            deviations=len(listed),
        )
    )
    journal.tell(
        FeedbackType.EXECUTION_OUTCOME,
        {
            "intent_id": str(intent.pk),
            "status": status.value,
            "error_category": str(error_category) or None,
            "receipt": None if receipt is None else canonical.decode(receipt),
            "attempts": intent.attempts,
            "deviations": listed,
        },
    )


def _expected(intent: Intent) -> list[Any]:
    try:
        return list(Rendered.from_bytes(bytes(intent.requests)).expected)
    except ValueError:  # requests that cannot be read are themselves a reason to end
        return []


def _duration_ms(journal: Journal, intent: Intent) -> int:
    """From the first attempt to this moment; 0 where nothing was ever tried."""
    first = (
        Attempt.objects.filter(intent=intent).order_by("number").values_list("started_at", flat=True).first()
    )
    return 0 if first is None else round((journal.at - first).total_seconds() * 1000)


def _change(intent: Intent, **columns: Any) -> None:
    """Compare-and-swap on the state that was read; a claim's lease ends with any change."""
    before = intent.state
    for name, value in columns.items():
        setattr(intent, name, value)
    intent.lease_owner, intent.lease_until = "", None
    changed = Intent.objects.filter(pk=intent.pk, state=before, attempts=intent.attempts).update(
        lease_owner="", lease_until=None, **columns
    )
    if changed != 1:
        raise races.LostRaceError
