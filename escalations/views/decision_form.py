"""The form of the decision page: the actions, each allowed or with the reason why not, and what is asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.http import HttpRequest

from escalations import (
    authority,
    consequences,
    contracts,
    policy,
    presenters,
)
from escalations.contracts import Action
from escalations.evidence_contracts import AnyEvidence, InterruptEvidence, JudgedEvidence
from escalations.models import Escalation
from escalations.services import (
    actions,
    comparing,
    deciding,
    decision_pace,
    interrupt_evidence,
    policy_context,
)
from escalations.views import (
    reading,
    two_people,
)
from escalations.views.policy_person import others, person_of
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Direction, Effect
from runtime.core import clock
from runtime.epochs.services import epochs
from runtime.flows.queries import recorded_flow
from runtime.proposals.views import schema_form
from runtime.registry.queries import recorded_targets

STOP_AND_UNDO = "Stop and undo"
UNTRUSTED = "This evidence does not match the ledger"


@dataclass(frozen=True, slots=True)
class ActionChoice:
    """One action as the page offers it; `why` says why it is not allowed, `parts` what its form asks for."""

    action: Action
    hint: str
    button: str
    parts: str
    why: str
    chosen: bool
    follows: tuple[str, ...]

    @property
    def spec(self) -> contracts.ActionSpec:
        """What the action is, on every page."""
        return self.action.spec


def context(
    request: HttpRequest,
    escalation: Escalation,
    basis: comparing.CheckedBasis,
    kept: Mapping[str, str],
    *,
    questions_asked: int,
) -> dict[str, Any]:
    """Return the actions of the family, each allowed or with the reason why not, as the POST would."""
    person, shown = person_of(request), basis.evidence
    at = clock.now()
    situation = policy_context.of(
        escalation=escalation,
        agent=escalation.flow.agent,
        shown=shown,
        at=at,
        questions_asked=questions_asked,
    )
    now_ms = timestamps.to_ms(at)
    answers = {
        action: policy.may(action, person, situation, now_ms=now_ms) for action in policy.offered(situation)
    }
    if shown is None:
        answers = {
            action: answer if action.spec.stops else policy.Denied(ProblemCode.TAMPERED, UNTRUSTED)
            for action, answer in answers.items()
        }
    answers = _after_restore(escalation, answers)
    answers = authority.refine(answers, situation, tenant=escalation.tenant, at=at)
    step_up = any(
        isinstance(answer, policy.Denied) and answer.code is ProblemCode.STEP_UP
        for answer in answers.values()
    )
    weighty = any(policy.is_weighty(action, situation.impact) for action in answers)
    is_bound = any(
        isinstance(answer, policy.Denied) and answer.code is ProblemCode.SEPARATION_OF_DUTY
        for answer in answers.values()
    )
    effect, follows = kept.get("effect", ""), _follows(escalation, shown, at=at)
    judged = shown if isinstance(shown, JudgedEvidence) else None
    tried = None if judged is None else judged.operational
    return {
        "two_people": two_people.standing(escalation, person, situation, basis.known),
        "others": others(person, situation, at=at) if is_bound else None,
        "choices": [
            _choice(
                action, answer, kept, situation, follows.get(action, ()), _words(action, situation, shown)
            )
            for action, answer in answers.items()
        ],
        "can_resume": not policy.has_happened(situation),
        "can_mark_done": any(action.spec.takes_receipt for action in answers),
        "may_decide": bool(person.roles & policy.DECIDING_ROLES),
        "step_up": step_up,
        "solo": any(isinstance(answer, policy.Allowed) and answer.solo for answer in answers.values()),
        "weighty": weighty,
        "type_again": any(policy.is_typed_again(action, situation) for action in answers),
        "in_doubt": situation.in_doubt,
        "effects": presenters.effect_options(
            target="" if tried is None else tried.target,
            undoes=tried is not None and tried.direction == Direction.COMPENSATE,
            chosen=effect if effect in Effect.values() else Effect.UNKNOWN.value,
        )
        if situation.in_doubt
        else [],
        "instructions": instruction_options(shown, chosen=kept.get("instruction", "")),
        "least_reason": policy.LEAST_REASON_CHARS if weighty else 1,
        "fields": []
        if judged is None
        else schema_form.fields(judged.kind.params_schema, judged.proposal.params, kept or None),
    }


def instruction_options(shown: AnyEvidence | None, *, chosen: str) -> Sequence[tuple[str, bool]]:
    """List the instructions that a person may redirect to, each with whether it was chosen."""
    if not isinstance(shown, InterruptEvidence):
        return []
    return [(name, name == chosen) for name in shown.followed.instructions]


def pace(
    request: HttpRequest, escalation: Escalation, kept: Mapping[str, str], problem: Problem | None
) -> dict[str, Any]:
    """Return when the page was shown, and what is asked of a person who decides fast or always the same."""
    user_pk = request.user.pk or 0
    page_shown = reading.Page(escalation.pk, escalation.evidence_hash, user_pk)
    # A page that comes back after a refusal was first shown earlier.
    shown = kept.get("shown", "")
    return {
        "shown": shown if reading.read(shown, of=page_shown) is not None else reading.write(page_shown),
        "asks_checked": problem is not None and problem.code is ProblemCode.CHECK_UNANSWERED,
        "pause": decision_pace.get_pause(tenant=escalation.tenant, user_id=user_pk)
        if escalation.state == contracts.State.OPEN
        else None,
    }


def _follows(
    escalation: Escalation, shown: AnyEvidence | None, *, at: datetime
) -> Mapping[Action, Sequence[str]]:
    """Return what each action does to reservations and steps; nothing of an intent that was rewritten."""
    intent = escalation.intent
    if intent is None or shown is None or escalation.state != contracts.State.OPEN:
        return {}
    known = recorded_flow.of_flow(tenant=escalation.tenant, dfid=escalation.flow_id)
    if known.compare_intent(intent) is not None:
        return {}
    places = recorded_targets.list_places(tenant=escalation.tenant)
    return consequences.of_intent(intent, place=places.get(intent.target), at=at)


def _after_restore(
    escalation: Escalation, answers: dict[Action, policy.Answer]
) -> dict[Action, policy.Answer]:
    """Limit the actions after a restored backup: only abort; later none that submits a new proposal."""
    if epochs.refuse_while_recovering() is not None:
        waiting = policy.Denied(ProblemCode.RECOVERY, deciding.RESTORED)
        return {action: answer if action.spec.in_recovery else waiting for action, answer in answers.items()}
    ended = actions.of_ended_epoch(escalation.flow)
    if ended is None:
        return answers
    refused = policy.Denied(ended.code, ended.detail)
    return {
        action: refused if action.spec.submits_proposal and isinstance(answer, policy.Allowed) else answer
        for action, answer in answers.items()
    }


def _words(
    action: Action, situation: policy.EscalationContext, shown: AnyEvidence | None
) -> contracts.Wording:
    """Return what the page says of an action, with the refused step that RESUME would allow."""
    words = action.spec.worded(situation.family)
    allowed = interrupt_evidence.allowed_step(shown)
    if action is not Action.RESUME or allowed is None:
        return words
    hint = f"The agent may take {allowed.instruction} once, with the input that is shown"
    return replace(words, hint=hint, button=f"Allow {allowed.instruction} once")


def _choice(
    action: Action,
    answer: policy.Answer,
    kept: Mapping[str, str],
    situation: policy.EscalationContext,
    follows: Sequence[str],
    words: contracts.Wording,
) -> ActionChoice:
    spec = action.spec
    why = answer.why if isinstance(answer, policy.Denied) and answer.code is not ProblemCode.STEP_UP else ""
    typed = ("typed",) if policy.is_typed_again(action, situation) else ()
    return ActionChoice(
        action=action,
        hint=words.hint,
        button=STOP_AND_UNDO if policy.undoes_steps(action, situation) else words.button,
        parts=" ".join((*spec.parts, *typed)),
        why=why,
        chosen=not why and kept.get("action") == action,
        follows=() if why else tuple(follows),
    )
