"""The actions. OVERRIDE and MODIFY are new proposals by a stronger author, before the same gate."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from django.conf import settings

from audit import actors
from escalations import amounts, authority, policy
from escalations.contracts import Action, Family
from escalations.services import evidence_revision, interrupt_evidence, policy_context, questions
from escalations.services.statements import ActionResult, AuthorizedDecision
from runtime.contracts import timestamps
from runtime.contracts.facts import Lift, SnapshotFacts
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.reasons import Reason
from runtime.contracts.redaction import RedactedIn
from runtime.contracts.states import Decision, Direction, FeedbackType, FlowState, Impact
from runtime.contracts.verdict import FindingOutcome
from runtime.core.ids import new_id
from runtime.epochs.services import epochs
from runtime.execution.services import recovery, undo_windows
from runtime.flows.models import Flow, Intent
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import finding_words, redaction, undo_window
from runtime.kernel.rules import condition_linter, kind_units
from runtime.maintenance.services import watchdog
from runtime.proposals.queries import gate_facts
from runtime.proposals.services import apply_verdict, judging
from runtime.registry.models import Agent
from runtime.stops.services import stops
from runtime.workflows.services import interrupts as workflow_interrupts


def take(*, order: AuthorizedDecision, flow: Flow, agent: Agent, journal: Journal) -> ActionResult | Problem:
    """Take the action that policy allowed, in the caller's transaction; a Problem leaves nothing behind."""
    intent = order.escalation.intent
    match order.request.action:
        case Action.OVERRIDE | Action.MODIFY:
            return _propose(order, flow, agent, journal)
        case Action.REQUEST_INFO:
            questions.ask(order=order, journal=journal)
            return ActionResult(resolves=False)
        case Action.ABORT if intent is not None:
            recovery.give_up(
                journal=journal,
                intent=intent,
                reason=Reason.ABORTED_BY_PERSON,
                actor=journal.actor,
                at=journal.at,
                effect=order.effect,
            )
        case Action.ABORT:
            journal.transition(FlowState.ABORTED, reason=Reason.ABORTED_BY_PERSON)
            journal.notify_agent(FeedbackType.FLOW_ABORTED, {"reason": Reason.ABORTED_BY_PERSON.value})
        case Action.RESUME | Action.REDIRECT:
            return _let_continue(order, agent, journal)
        case Action.MARK_DONE:
            if intent is None:
                return _refuse(order, ProblemCode.ACTION_UNKNOWN, "There is no intent to mark as done.")
            receipt = _receipt(order)
            if isinstance(receipt, Problem):
                return receipt
            recovery.mark_done(
                journal=journal,
                intent=intent,
                receipt=receipt,
                actor=journal.actor,
                at=journal.at,
            )
        case Action.ACKNOWLEDGE:
            watchdog.watch_again(agent=agent, journal=journal)
        case Action.STOP_AGENT:
            # The stop button of the agent's page, from here: what it has under way is left to its outcome.
            reason = order.request.justification or "The agent stopped calling."
            stops.stop_held(agent=agent, actor=journal.actor, reason=reason)
            watchdog.watch_again(agent=agent, journal=journal)
        case _:
            assert_never(order.request.action)
    return ActionResult()


def judge_change(order: AuthorizedDecision, *, flow: Flow, agent: Agent, at: datetime) -> judging.Judged:
    """Judge the proposal of a person: the agent's own, or with other params, on the evidence that was shown.

    The evidence revision replaces the agent's older context; its Refer findings, and those that an
    earlier person has lifted, are lifted up to the values that were on the page.
    """
    stored = ProposalDocument.from_bytes(bytes(evidence_revision.proposal_of(order.escalation).body))
    return judging.judge(
        flow=flow,
        agent=agent,
        document=ProposalDocument.from_person(
            stored,
            proposal_id=str(new_id()),
            intent_id=str(new_id()),
            author=actors.user(order.person.user_id),
            params=order.request.params if order.request.action.spec.changes_params else None,
            conditions=order.request.conditions,
            evidence_hash=order.escalation.evidence_hash,
            received_at_ms=timestamps.to_ms(at),
            salt=secrets.token_hex(16),
        ),
        snapshot=SnapshotFacts(
            facts=order.judged.seen_facts, expires_at_ms=timestamps.to_ms(order.at) + stored.window_ms
        ),
        lifts=tuple(
            Lift(
                check=item.check,
                code=item.code,
                subject=item.subject,
                proposed_value=item.proposed_value,
            )
            for item in order.judged.findings
            if item.outcome in {FindingOutcome.REFER, FindingOutcome.LIFTED}
        ),
    )


def faults(order: AuthorizedDecision, agent: Agent) -> Problem | None:
    """What cannot be judged at all: missing parameters, a condition that is not a bounded expression."""
    if order.request.action.spec.changes_params and order.request.params is None:
        return _refuse(
            order, ProblemCode.PARAMS_MISSING, "MODIFY needs the new parameters, as a JSON object."
        )
    if not order.request.conditions:
        return None
    rules = gate_facts.get_rules(agent=agent, kind_name=order.escalation.policy_kind)
    problems = condition_linter.lint_conditions(order.request.conditions, rules.kind)
    return _refuse(order, ProblemCode.CONDITION_UNREADABLE, f"{problems[0]}.") if problems else None


def of_ended_epoch(flow: Flow) -> Problem | None:
    """Refuse proposals in a flow from before a restore: it may have been decided already."""
    refused = epochs.refuse_proposal(flow)
    if refused is None or refused.code is not ProblemCode.EPOCH_ENDED:
        return refused
    return replace(
        refused,
        detail="A backup was restored since this flow began, so this may already have been decided and "
        "executed in the lost time. Check what happened, then abort: the agent can propose it "
        "again in another flow.",
    )


def _resume(order: AuthorizedDecision, intent: Intent, agent: Agent, journal: Journal) -> ActionResult:
    """Retry the call, after the undo window. What undoes a step waits for nobody."""
    delay, before = timedelta(), undo_windows.describe(intent)
    kind = gate_facts.get_rules(agent=agent, kind_name=order.escalation.policy_kind).kind
    if intent.direction == Direction.FORWARD and kind is not None:
        window = intent.proposal.valid_until - intent.proposal.received_at
        delay = _undo_window(kind, impact=policy_context.impact_of(order.escalation), window=window)
    recovery.resume(journal=journal, intent=intent, at=journal.at, lifted=order.judged.referred, delay=delay)
    return ActionResult(
        valid_until=intent.valid_until,
        intent_id=str(intent.pk),
        not_before=journal.at + delay if delay else None,
        before=before,
    )


def _let_continue(order: AuthorizedDecision, agent: Agent, journal: Journal) -> ActionResult | Problem:
    """Let what waits continue: an interrupted flow in its workflow, an intent with its call."""
    action, instruction = order.request.action, order.request.instruction
    if order.escalation.family != Family.INTERRUPT:
        if order.escalation.intent is None:
            return _refuse(order, ProblemCode.ACTION_UNKNOWN, "There is no intent to resume.")
        return _resume(order, order.escalation.intent, agent, journal)
    if action.spec.takes_instruction:
        refused = interrupt_evidence.refuse_instruction(order.shown, instruction)
        if refused is not None:
            return refused
    mismatch = workflow_interrupts.let_continue(
        journal=journal,
        agent=agent,
        escalation_id=str(order.escalation.pk),
        instruction=instruction if action.spec.takes_instruction else None,
        allowed=None if action.spec.takes_instruction else interrupt_evidence.allowed_step(order.shown),
    )
    if mismatch is None:
        return ActionResult()
    journal.add(mismatch.event())
    return _refuse(order, ProblemCode.TAMPERED, "The workflow does not match the ledger. Abort.")


def _undo_window(kind: KindDocument, *, impact: Impact, window: timedelta) -> timedelta:
    seconds = undo_window.length_s(
        kind, impact=impact, window_s=int(window.total_seconds()), most_s=settings.DIR_UNDO_MAX_S
    )
    return timedelta(seconds=seconds)


def check(*, order: AuthorizedDecision, flow: Flow, agent: Agent, at: datetime) -> Problem | None:
    """What speaks against an action for which two people are needed, as `take` would find; writes nothing."""
    match order.request.action:
        case Action.REDIRECT:
            return interrupt_evidence.refuse_instruction(order.shown, order.request.instruction)
        case Action.OVERRIDE | Action.MODIFY:
            judged = _judge(order, flow, agent, at)
            return judged if isinstance(judged, Problem) else None
        case Action.MARK_DONE:
            receipt = _receipt(order)
            return receipt if isinstance(receipt, Problem) else None
        case _:
            return None


def _receipt(order: AuthorizedDecision) -> Mapping[str, Any] | Problem:
    """The receipt that a person has found. It is signed as it is, so nothing in it can be replaced."""
    receipt, intent = order.request.receipt, order.escalation.intent
    if not receipt:
        detail = "MARK_DONE needs the receipt you found, as a JSON object."
        return _refuse(order, ProblemCode.RECEIPT_MISSING, detail)
    rules = () if intent is None else IntentPlan.of(intent).redact
    found = redaction.redact(dict(receipt), rules, source=RedactedIn.RECEIPT).times
    if found:
        detail = (
            f"The receipt has what this policy kind never stores ({', '.join(found)}). "
            "Leave it out, or write null instead."
        )
        return _refuse(order, ProblemCode.RECEIPT_NOT_REDACTED, detail)
    return receipt


def _judge(order: AuthorizedDecision, flow: Flow, agent: Agent, at: datetime) -> judging.Judged | Problem:
    """The person's proposal as the gate accepts it, or why it cannot be taken."""
    found = faults(order, agent) or of_ended_epoch(flow)
    if found is not None:
        return found
    judged = judge_change(order, flow=flow, agent=agent, at=at)
    if judged.verdict.decision is not Decision.ACCEPT:
        known = kind_units.of_kind(judged.rules.kind, ())
        return Problem(
            code=ProblemCode.GATE_REFUSED,
            detail="The gate rejects this. Change it, or abort.",
            dfid=str(flow.dfid),
            violations=tuple(
                Violation(
                    pointer=f"/{finding.check}",
                    message=f"{finding.code}: {finding_words.message_of(finding, known)}",
                )
                for finding in judged.verdict.reasons
            ),
        )
    # What the person was asked to give (password, amount, reason) fits the impact that was shown.
    impact = judged.verdict.impact
    if impact.rank > policy_context.impact_of(order.escalation).rank:
        return Problem(
            code=ProblemCode.IMPACT_RAISED,
            detail=f"The impact would be {impact}, but you were shown "
            f"{order.escalation.impact}. Change less, or abort.",
            dfid=str(flow.dfid),
        )
    return _beyond_authority(order, agent, judged) or judged


def _beyond_authority(order: AuthorizedDecision, agent: Agent, judged: judging.Judged) -> Problem | None:
    """What is above the person's limits: the amounts of changed parameters are known only now."""
    if not (order.request.action.spec.changes_params and order.person.limits):
        return None
    row, action = order.escalation, order.request.action
    situation = policy_context.of(escalation=row, agent=agent, shown=order.shown, at=order.at)
    changed = amounts.read(
        params=judged.document.params,
        figures=judged.verdict.figures,
        findings=judged.verdict.findings,
        known=kind_units.of_kind(judged.rules.kind, ()),
    )
    denied = policy.beyond_authority(action, order.person, situation, changed=changed)
    if denied is None:
        return None
    why = authority.with_names(denied, action, situation, tenant=row.tenant, at=order.at, changed=changed)
    return _refuse(order, denied.code, why)


def _propose(order: AuthorizedDecision, flow: Flow, agent: Agent, journal: Journal) -> ActionResult | Problem:
    judged = _judge(order, flow, agent, journal.at)
    if isinstance(judged, Problem):
        return judged
    judging.store(judged, journal)
    intent = order.escalation.intent
    if intent is not None:
        recovery.supersede(
            journal=journal,
            intent=intent,
            by_intent_id=judged.document.intent_id,
            effect=order.effect,
        )
    # In place of an intent that has ended, it runs at once: a take-back could not bring that one back.
    delay = timedelta()
    if intent is None and judged.rules.kind is not None and judged.verdict.steps:
        window = timedelta(milliseconds=judged.document.window_ms)
        delay = _undo_window(judged.rules.kind, impact=judged.verdict.impact, window=window)
    follow = apply_verdict.accept(journal=journal, judged=judged, delay=delay)
    return ActionResult(
        proposal_id=str(judged.proposal.proposal_id),
        params=judged.document.params if order.request.action.spec.changes_params else None,
        valid_until=judged.proposal.valid_until + delay,
        intent_id=follow.intent_id,
        not_before=journal.at + delay if delay else None,
        superseded_intent_id=None if intent is None else str(intent.pk),
    )


def _refuse(order: AuthorizedDecision, code: ProblemCode, detail: str) -> Problem:
    return Problem(code=code, detail=detail, dfid=str(order.escalation.flow_id))
