"""The decision page: the stored evidence, then the decision form. A GET never decides."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import canonical
from audit.access.permissions import signed_in, tenant_of
from audit.verification import verify
from escalations import contracts, policy, presenters, queries
from escalations.contracts import Action
from escalations.evidence_contracts import AnyEvidence, JudgedEvidence, SilenceEvidence
from escalations.models import Escalation
from escalations.services import actions, comparing, deciding, policy_context
from escalations.views import drafts, evidence_page, silence_evidence
from escalations.views.policy_person import others, person_of
from runtime.contracts import recorded_only, timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Direction, Effect
from runtime.core import clock
from runtime.core.views import labels
from runtime.epochs.services import epochs
from runtime.flows.queries import recorded_flow
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.kernel.rules import evaluate
from runtime.proposals.queries import gate_facts
from runtime.proposals.views import proposal_presenters, schema_form

CONFLICT = 409
UNAVAILABLE = 503
# The one 409 after which nothing has to be reviewed again: someone else has claimed this too.
OVER_CLAIM = "CLAIMED_BY_ANOTHER"
# Live parts of the page beside the questions to the agent.
PARTS: Mapping[str, str] = {"clock": "_clock.html", "claim": "_claim.html", "over": "_over_claim.html"}
UNTRUSTED = "This evidence does not match the ledger"


@dataclass(frozen=True, slots=True)
class ActionChoice:
    """One action as the page offers it; `why` says why it is not allowed, `parts` what its form asks for."""

    action: Action
    spec: contracts.ActionSpec
    hint: str
    parts: str
    why: str
    chosen: bool


@require_safe
@signed_in
def show(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Show one escalation."""
    return page(request, escalation_id)


@require_safe
@signed_in
def state(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Return a banner if the escalation changed since the open page was loaded; empty otherwise."""
    escalation = _get(request, escalation_id)
    changed = str(escalation.version) != request.GET.get("version")
    revised = str(escalation.revision) != request.GET.get("revision")
    context = {
        "escalation": escalation,
        "row": _row(request, escalation),
        "changed": changed or revised,
        "revised": revised,
        "ended": labels.badge(presenters.RESOLUTIONS, escalation.resolution)
        if escalation.resolved_at
        else None,
    }
    return render(request, "escalations/_state.html", context)


@require_safe
@signed_in
def questions(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Return the questions to the agent; with `part=` the deadline, the claim, or its confirmation."""
    escalation = _get(request, escalation_id)
    template = PARTS.get(request.GET.get("part", ""), "_asked.html")
    may_decide = bool(person_of(request).roles & policy.DECIDING_ROLES)
    context = {**_asked(request, escalation), "may_decide": may_decide}
    return render(request, f"escalations/{template}", context)


def page(
    request: HttpRequest,
    escalation_id: UUID,
    *,
    problem: Problem | None = None,
    entered: Mapping[str, str] | None = None,
    answered: Mapping[str, Any] | None = None,
) -> HttpResponse:
    """Render the page, after a refusal with its message, status and input; or with a dry run's result.

    After a 409 the person must review again: the chosen action and the retyped amount are not kept.
    """
    escalation = _get(request, escalation_id)
    basis = comparing.check_basis(escalation)
    kept = dict(entered.items()) if entered is not None else drafts.get(request, escalation_id)
    # After CLAIMED_BY_ANOTHER alone nothing has to be reviewed again.
    over_claim = problem is not None and problem.code is ProblemCode.CLAIMED_BY_ANOTHER
    if problem is not None and problem.status == CONFLICT and not over_claim:
        kept = {name: value for name, value in kept.items() if name not in ("action", "typed_again")}
    context = {
        **_asked(request, escalation),
        **_about(escalation, basis),
        "untrusted": basis.mismatches,
        "history": _history(escalation),
        "problem": problem,
        "answered": answered,
        "entered": kept,
        **_decision(escalation, basis.known),
        **_form(request, escalation, basis.evidence, kept),
    }
    status = 200 if problem is None else problem.status
    return render(request, "escalations/detail.html", context, status=status)


def _about(escalation: Escalation, basis: comparing.CheckedBasis) -> dict[str, Any]:
    """Return the trusted evidence and its changes since the last revision; `silence` is of a silent agent."""
    shown, known = basis.evidence, basis.known
    if isinstance(shown, SilenceEvidence):
        return {"silence": silence_evidence.read(shown, body=basis.body)}
    if shown is None or escalation.proposal is None:
        return {"silence": None}
    before = None
    if shown.revision > 1:
        before = comparing.read_revision(escalation, known, shown.revision - 1)
    wrong = comparing.compare_verdict(known, escalation.proposal)
    recorded: list[str] = []
    if wrong is None:
        # What the rules of the verdict record but do not enforce: no decision may rely on it.
        rules = PolicyBundle.from_bytes(bytes(escalation.proposal.verdict.bundle.body))
        of_kind = () if rules.kind is None else recorded_only.names(rules.kind)
        of_manifest = () if rules.manifest is None else recorded_only.names(rules.manifest)
        recorded = [*of_kind, *(f"manifest.{name}" for name in of_manifest)]
    return {
        "case": _case(escalation, shown, basis.body),
        "changes": evidence_page.compare(before, shown) if isinstance(before, JudgedEvidence) else [],
        "untrusted_verdict": [] if wrong is None else [wrong],
        "recorded": recorded,
        "expected": proposal_presenters.expected(escalation.proposal),
    }


def _get(request: HttpRequest, escalation_id: UUID) -> Escalation:
    escalation = queries.get(tenant=tenant_of(request.user), escalation_id=escalation_id)
    if escalation is None:
        raise Http404
    return escalation


def _row(request: HttpRequest, escalation: Escalation) -> presenters.QueueRow:
    return presenters.row(item=escalation, evidence=None, now=clock.now(), user_pk=request.user.pk or 0)


def _asked(request: HttpRequest, escalation: Escalation) -> dict[str, Any]:
    """Return the questions to the agent; the newest is shown beside the decision, answered ones below."""
    row = _row(request, escalation)
    over = "" if row.waiting_until else contracts.Closing.WAIT_ENDED  # the sweeper may run a little later
    asked: list[dict[str, Any]] = [
        {
            "question": item,
            "text": labels.visible_lines(item.text),
            "badge": labels.badge(presenters.CLOSINGS, item.closed_why or over),
        }
        for item in queries.list_questions(escalation=escalation)
    ]
    return {
        "escalation": escalation,
        "row": row,
        "is_open": row.open,
        "asked": asked,
        "most_questions": policy.MAX_QUESTIONS,
        "never_answered": queries.count_unanswered(tenant=escalation.tenant, agent_id=escalation.agent_id),
        "newest": asked[-1] if asked else None,
        "unanswered": [item for item in asked if item["question"].answered_at is None],
    }


def _case(escalation: Escalation, shown: JudgedEvidence, body: bytes) -> evidence_page.EvidenceView:
    """Return the evidence beside the current facts, marking those that changed materially.

    Uses the active rules, like the drift scan; without a kind every change is material.
    """
    seen = shown.seen_facts
    if escalation.state != contracts.State.OPEN:
        return evidence_page.read(shown, body=body, live={}, material=frozenset())
    live = queries.live_facts(tenant=escalation.tenant, paths=list(seen))
    kind = gate_facts.get_rules(agent=escalation.flow.agent, kind_name=shown.kind.kind).kind
    material: Iterable[str] = live
    if kind is not None:
        material = evaluate.list_moved(
            kind,
            params=shown.proposal.params,
            constraints=shown.proposal.execution_constraints,
            seen=seen,
            current=live,
        )
    return evidence_page.read(shown, body=body, live=live, material=frozenset(material))


def _history(escalation: Escalation) -> dict[str, Any]:
    history = queries.get_history(
        tenant=escalation.tenant, agent_id=escalation.agent_id, besides=escalation.pk
    )
    total = sum(history.by_resolution.values())
    passed = history.by_resolution.get(Action.OVERRIDE, 0)
    evidence = queries.get_evidence(tenant=escalation.tenant, escalations=history.newest)
    return {
        "total": total,
        "override_rate": passed * 100 // total if total else 0,
        "counts": [
            (labels.badge(presenters.RESOLUTIONS, name), count)
            for name, count in sorted(history.by_resolution.items(), key=lambda item: -item[1])
        ],
        "newest": [
            {
                "row": row,
                "effect": presenters.segments(evidence[row.pk]) if row.pk in evidence else [],
                "ended": labels.badge(presenters.RESOLUTIONS, row.resolution or row.state),
            }
            for row in history.newest
        ],
    }


def _decision(escalation: Escalation, known: comparing.RecordedEscalation) -> dict[str, Any]:
    """Return the decision from its signed statement, and what ran after it.

    Of each, if its rows do not match the ledger, only the mismatches.
    """
    decision = getattr(escalation, "decision", None)
    if decision is None:
        return {"decision": None, "untrusted_decision": ["decision"] if known.decided else []}
    wrong = comparing.compare_decision(known, decision)
    if wrong:
        return {"decision": None, "untrusted_decision": wrong}
    statement = canonical.decode(bytes(decision.statement))
    # Read rows and entries in one snapshot: concurrent writes of a worker are no mismatch.
    ran: dict[str, Any] = {"ran": None}
    with verify.snapshot():
        intent = queries.get_intent(escalation=escalation, proposal_id=statement.get("proposal_id"))
        if intent is not None:
            unlike = recorded_flow.of_flow(tenant=intent.tenant, dfid=intent.flow_id).list_unlike(intent)
            if unlike:
                ran["untrusted_ran"] = unlike
            else:
                ran["ran"] = proposal_presenters.intent_shown(intent)
    return {
        "decision": decision,
        "decision_badge": labels.badge(presenters.RESOLUTIONS, decision.action),
        "effect_badge": presenters.EFFECT_BADGES.get(statement.get("effect", "")),
        "in_force": statement.get("revision_in_force"),
        **ran,
        "statement_digest": canonical.digest(bytes(decision.statement)),
        "signature": bytes(decision.signature).hex(),
    }


def _form(
    request: HttpRequest, escalation: Escalation, shown: AnyEvidence | None, kept: Mapping[str, str]
) -> dict[str, Any]:
    """Return the actions of the family, each allowed or with the reason why not, as the POST would."""
    person = person_of(request)
    at = clock.now()
    situation = policy_context.of(escalation=escalation, agent=escalation.flow.agent, shown=shown, at=at)
    now_ms = timestamps.to_ms(at)
    answers = {
        action: policy.may(action, person, situation, now_ms=now_ms)
        for action in contracts.offered(situation.family)
    }
    if shown is None:
        answers = {
            action: answer if action.spec.stops else policy.Denied(ProblemCode.TAMPERED, UNTRUSTED)
            for action, answer in answers.items()
        }
    answers = _after_restore(escalation, answers)
    step_up = any(
        isinstance(answer, policy.Denied) and answer.code is ProblemCode.STEP_UP
        for answer in answers.values()
    )
    weighty = any(policy.is_weighty(action, situation.impact) for action in answers)
    is_bound = any(
        isinstance(answer, policy.Denied) and answer.code is ProblemCode.SEPARATION_OF_DUTY
        for answer in answers.values()
    )
    effect = kept.get("effect", "")
    judged = shown if isinstance(shown, JudgedEvidence) else None
    tried = None if judged is None else judged.operational
    return {
        "others": others(person, situation, at=at) if is_bound else None,
        "choices": [_choice(action, answer, kept, situation) for action, answer in answers.items()],
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
        "least_reason": policy.LEAST_REASON_CHARS if weighty else 1,
        "figures": set() if judged is None else {f"param:{item.param}" for item in judged.figures or ()},
        "fields": []
        if judged is None
        else schema_form.fields(judged.kind.params_schema, judged.proposal.params, kept or None),
    }


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


def _choice(
    action: Action, answer: policy.Answer, kept: Mapping[str, str], situation: policy.EscalationContext
) -> ActionChoice:
    spec, is_afterwards = action.spec, situation.family is contracts.Family.OPERATIONAL
    why = answer.why if isinstance(answer, policy.Denied) and answer.code is not ProblemCode.STEP_UP else ""
    typed = ("typed",) if policy.is_typed_again(action, situation) else ()
    return ActionChoice(
        action=action,
        spec=spec,
        hint=(spec.hint_afterwards if is_afterwards else "") or spec.hint,
        parts=" ".join((*spec.parts, *typed)),
        why=why,
        chosen=not why and kept.get("action") == action,
    )
