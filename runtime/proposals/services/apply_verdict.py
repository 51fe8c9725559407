"""What follows from a verdict, collected in the flow's journal: an intent, a person, or feedback."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from audit import canonical, events, statements
from runtime.contracts import timestamps
from runtime.contracts.outcome import RenderedIntent
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.reasons import Reason
from runtime.contracts.redaction import RedactedIn
from runtime.contracts.states import FeedbackType, FlowState
from runtime.contracts.verdict import Finding, FindingOutcome
from runtime.core import ports
from runtime.flows.models import Flow, Intent
from runtime.flows.services import autonomy_checks
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import salts
from runtime.kernel.gate import obligations
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.workflows import steps
from runtime.proposals.queries import gate_facts
from runtime.proposals.services.judging import Judged
from runtime.registry.models import Agent
from runtime.resources.services import escalation_tokens, reservations
from runtime.workflows.services import interrupts
from runtime.workflows.services.interrupts import Interrupt


@dataclass(frozen=True, kw_only=True)
class VerdictResult:
    """What the answer names: ids, and how long to wait."""

    intent_id: str | None = None
    escalation_id: str | None = None
    evidence_hash: str | None = None
    retry_after_s: int | None = None


def accept(*, journal: Journal, judged: Judged, delay: timedelta = timedelta()) -> VerdictResult:
    """Write the intent (the outbox row) and ring after the commit; a kind without steps closes at once.

    It is due after `delay`, and its window counts from then.
    """
    flow = journal.flow
    _tell_verdict(journal, judged)
    reserved = reservations.reserve(
        flow=flow,
        proposal=judged.proposal,
        claims=judged.verdict.claims,
        resources=judged.claimed,
        at=journal.at,
    )
    journal.add(*reserved)
    journal.transition(FlowState.ACCEPTED)
    if not judged.verdict.steps:
        journal.transition(FlowState.CLOSED)
        journal.notify_agent(FeedbackType.FLOW_CLOSED, {"reason": ""})
        return VerdictResult()
    # No later version of its kind changes what the intent holds.
    kind = judged.rules.kind
    requests = RenderedIntent(
        steps=judged.verdict.steps,
        expected=tuple(item.model_dump(mode="json") for item in judged.verdict.predicted),
        on_unknown=OnUnknown.PERSON if kind is None else kind.on_unknown,
        followed=kind is not None
        and (
            bool(kind.routes)
            or kind.asks_receipts
            or kind.checks_results
            or any(step.writes for step in kind.steps)
        ),
        redact=() if kind is None else tuple(r for r in kind.redact if r.covers(RedactedIn.RECEIPT)),
        salt=salts.derive(judged.document.salt, of="requests"),
        labels=() if kind is None else kind.labels,
    ).to_bytes()
    intent = Intent(
        intent_id=UUID(judged.document.intent_id),
        tenant=flow.tenant,
        flow=flow,
        proposal=judged.proposal,
        requests=requests,
        steps=len(judged.verdict.steps),
        target=judged.verdict.steps[0].target,
        valid_until=judged.proposal.valid_until + delay,
        next_at=journal.at + delay,
        created_at=journal.at,
    )
    statements.insert([intent])
    journal.add(
        events.IntentCreated(
            intent_id=judged.document.intent_id,
            proposal_id=str(judged.proposal.proposal_id),
            step_ids=tuple(step.step for step in judged.verdict.steps),
            request_digest=canonical.digest(requests),
            valid_until=intent.valid_until,
        )
    )
    transaction.on_commit(lambda: ports.ring([intent.pk]))
    return VerdictResult(intent_id=judged.document.intent_id)


def reject(*, journal: Journal, judged: Judged, agent: Agent) -> VerdictResult:
    """Spend the attempt that it costs; the last one, and an empty escalation bucket, abort the flow (9.3).

    Waiting for the rate limit costs none, and the agent learns for how long.
    """
    flow = journal.flow
    flow.attempts_used = flow.attempts_allowed - judged.verdict.attempts_left
    wait_s = None
    if any(finding.code == Reason.RATE_LIMITED for finding in judged.verdict.reasons):
        wait_s = gate_facts.get_rate_wait_s(agent=agent, rules=judged.rules, at=journal.at)
    if judged.proposal.retry_key:
        autonomy_checks.lower_if_due(agent=agent, manifest=judged.rules.manifest, at=journal.at)
    _tell_verdict(journal, judged, retry_after_s=wait_s)
    if any(finding.code == Reason.ESCALATION_BUDGET_EXHAUSTED for finding in judged.verdict.reasons):
        escalation_tokens.make_passive(agent=agent, at=journal.at)
        _abort(journal, Reason.ESCALATION_BUDGET_EXHAUSTED)
    elif any(finding.code == Reason.BUDGET_EXCEEDED for finding in judged.verdict.reasons):
        _abort(journal, Reason.BUDGET_EXCEEDED)
    elif judged.verdict.exhausted:
        _abort(journal, Reason.REASONING_EXHAUSTION)
    else:
        journal.transition(FlowState.ACTIVE)
        return VerdictResult(retry_after_s=wait_s, escalation_id=_interrupt(journal, judged, agent))
    return VerdictResult(retry_after_s=wait_s)


def _interrupt(journal: Journal, judged: Judged, agent: Agent) -> str | None:
    """Call a person where a router demands the proposal that the workflow refuses; the escalation."""
    followed = judged.followed
    if followed is None:
        return None
    objections = [
        steps.Objection(finding.subject, finding.message, code=Reason(finding.code))
        for finding in judged.verdict.reasons
        if finding.check == CheckName.WORKFLOW and finding.outcome is FindingOutcome.FAIL
    ]
    if not steps.is_deadlocked(followed.fold, steps.PROPOSE, objections):
        return None
    interrupt = Interrupt(
        standing=followed, fold=followed.fold, reason=Reason.POLICY_DEADLOCK, objections=objections
    )
    return interrupts.call_person(journal=journal, agent=agent, interrupt=interrupt)


def escalate(*, journal: Journal, judged: Judged, agent: Agent) -> VerdictResult:
    """Spend an escalation token and open an escalation in the same transaction."""
    # The agent's row is locked since before the verdict, so no one else has taken the token.
    held = gate_facts.escalation_millitokens(agent=agent, rules=judged.rules, at=journal.at)
    left = escalation_tokens.spend(agent=agent, held=held, at=journal.at)
    reason = judged.verdict.reasons[0]
    journal.transition(FlowState.ESCALATED, reason=reason.code)
    opened = ports.open_escalation(
        flow=journal.flow,
        proposal=judged.proposal,
        verdict=judged.row,
        intent=None,
        family="DECISION",
        reason=reason.code,
        at=journal.at,
    )
    journal.add(opened.event, events.BudgetSpent(agent_id=agent.agent_id, tokens_left_milli=left))
    journal.notify_agent(
        FeedbackType.ESCALATION_REQUIRED,
        {
            "escalation_id": str(opened.escalation_id),
            "reason": reason.code,
            "details": details_of(reason),
            "status": "AWAITING_HUMAN_INPUT",
        },
    )
    return VerdictResult(escalation_id=str(opened.escalation_id), evidence_hash=opened.evidence_hash)


def answer(*, judged: Judged, flow: Flow, follow: VerdictResult) -> dict[str, Any]:
    """The verdict as the agent reads it."""
    body: dict[str, Any] = {
        "dfid": str(flow.dfid),
        "proposal_id": str(judged.proposal.proposal_id),
        "verdict": judged.verdict.decision.value,
        "reasons": [reason_of(finding) for finding in judged.verdict.reasons],
        "state": str(flow.state),
        "attempts_left": judged.verdict.attempts_left,
        "valid_until": timestamps.iso(judged.proposal.valid_until),
        "reason_codes": obligations.list_codes(judged.verdict),
        "obligations": [obligation.value for obligation in judged.obligations],
    }
    for name in ("intent_id", "escalation_id", "evidence_hash", "retry_after_s"):
        value = getattr(follow, name)
        if value is not None:
            body[name] = value
    return body


def reason_of(finding: Finding) -> dict[str, Any]:
    """A finding as a reason on the wire; numbers go back to numbers where they are numbers."""
    body: dict[str, Any] = {"code": finding.code, "check": finding.check, "message": finding.message}
    if finding.proposed_value is not None:
        body["proposed_value"] = _number(finding.proposed_value)
    if finding.limit is not None:
        body["limit"] = _number(finding.limit)
    return body


def details_of(finding: Finding) -> dict[str, Any]:
    """The two numbers of a finding as the paper's escalation event has them (DIR paper, 9.4)."""
    return {name: reason_of(finding).get(name) for name in ("proposed_value", "limit")}


def _number(text: str) -> Any:
    try:
        value = canonical.decode(text.encode())
    except ValueError:
        return text
    return value if isinstance(value, int | float) and not isinstance(value, bool) else text


def _tell_verdict(journal: Journal, judged: Judged, *, retry_after_s: int | None = None) -> None:
    body: dict[str, Any] = {
        "proposal_id": str(judged.proposal.proposal_id),
        "verdict": judged.verdict.decision.value,
        "reasons": [reason_of(finding) for finding in judged.verdict.reasons],
        "attempts_left": judged.verdict.attempts_left,
    }
    if retry_after_s is not None:
        body["retry_after_s"] = retry_after_s
    journal.notify_agent(FeedbackType.VALIDATION_FEEDBACK, body)


def _abort(journal: Journal, reason: Reason) -> None:
    journal.transition(FlowState.ABORTED, reason=reason)
    journal.notify_agent(FeedbackType.FLOW_ABORTED, {"reason": reason.value})
