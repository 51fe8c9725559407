"""The decision page: the frozen evidence in the order of 04, then the decision. A GET never decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import canonical
from audit.permissions import signed_in, tenant_of
from escalations import contracts, policy, presenters, queries
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import situations
from escalations.views import case, silent
from escalations.views.person import person_of
from runtime.contracts.problem import Problem
from runtime.kernel import moments
from runtime.kernel.gate.case import Rules
from runtime.kernel.rules import evaluate
from runtime.models import Proposal
from runtime.queries import clock
from runtime.views import params
from runtime.views import presenters as words

CONFLICT = 409


@dataclass(frozen=True, slots=True)
class Choice:
    """One action as the page offers it; `why` says why not."""

    action: Action
    word: str
    hint: str
    icon: str
    tone: str
    why: str
    chosen: bool


CHOICES: Mapping[Action, tuple[str, str, str, str]] = {
    Action.OVERRIDE: ("Override", "Run exactly what the agent proposed", "check", "ok"),
    Action.MODIFY: ("Modify", "Run something else instead", "edit", "accent"),
    Action.REQUEST_INFO: (
        "Ask the agent",
        "Put a question first. The clock stops while it is out",
        "ask",
        "info",
    ),
    Action.RESUME: ("Resume", "Try again with the same idempotency key", "play", "ok"),
    Action.MARK_DONE: ("Mark done", "It took effect: give the receipt you found", "check", "accent"),
    Action.ACKNOWLEDGE: ("Acknowledge", "Its silence is in order. It counts anew from now", "check", "ok"),
    Action.STOP_AGENT: (
        "Stop the agent",
        "Hold every call of it until somebody resumes it",
        "stop",
        "danger",
    ),
    Action.ABORT: ("Abort", "Nothing runs. Always possible, always the cheapest", "cross", "danger"),
}
# After an intent something may have run already, and steps that are done may be undone.
ABORT_AFTERWARDS = "Nothing goes forward any more. Always possible, always the cheapest"


@require_safe
@signed_in
def show(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """The page of one escalation."""
    return page(request, escalation_id)


@require_safe
@signed_in
def state(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """A banner when the escalation is no longer as the open page shows it; empty otherwise."""
    escalation = _get(request, escalation_id)
    changed = str(escalation.version) != request.GET.get("version")
    revised = str(escalation.revision) != request.GET.get("revision")
    context = {
        "escalation": escalation,
        "changed": changed or revised,
        "revised": revised,
        "ended": words.badge(presenters.RESOLUTIONS, escalation.resolution)
        if escalation.resolved_at
        else None,
    }
    return render(request, "escalations/_state.html", context)


@require_safe
@signed_in
def questions(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """What is asked of the agent, or with `part=clock` how the clock stands, for live updates."""
    escalation = _get(request, escalation_id)
    template = "_clock.html" if request.GET.get("part") == "clock" else "_asked.html"
    return render(request, f"escalations/{template}", _asked(request, escalation))


def page(
    request: HttpRequest,
    escalation_id: UUID,
    *,
    problem: Problem | None = None,
    entered: Mapping[str, str] | None = None,
) -> HttpResponse:
    """The page, after a refusal with its sentence, its status and what was typed.

    After a 409 the person must look again: the action and the amount typed again are not kept.
    """
    escalation = _get(request, escalation_id)
    revisions = [canonical.decode(bytes(row.body)) for row in queries.list_evidence(escalation=escalation)]
    bundle = revisions[0]
    kept = dict(entered.items()) if entered is not None else {}
    if problem is not None and problem.status == CONFLICT:
        kept = {name: value for name, value in kept.items() if name not in ("action", "typed_again")}
    context = {
        **_asked(request, escalation),
        **_about(escalation, revisions),
        "history": _history(escalation),
        "problem": problem,
        "entered": kept,
        **_decision(escalation),
        **_form(request, escalation, bundle, kept),
    }
    status = 200 if problem is None else problem.status
    return render(request, "escalations/detail.html", context, status=status)


def _about(escalation: Escalation, revisions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The evidence in force; `quiet` is the case of an agent that fell silent, and has no proposal."""
    if escalation.proposal is None:
        return {"quiet": silent.read(revisions[0])}
    return {
        "case": _case(escalation, escalation.proposal, revisions[0]),
        "changes": case.compare(revisions[1], revisions[0]) if len(revisions) > 1 else [],
    }


def _get(request: HttpRequest, escalation_id: UUID) -> Escalation:
    escalation = queries.get(tenant=tenant_of(request.user), escalation_id=escalation_id)
    if escalation is None:
        raise Http404
    return escalation


def _row(request: HttpRequest, escalation: Escalation) -> presenters.Row:
    return presenters.row(item=escalation, evidence=None, now=clock.now(), user_pk=request.user.pk or 0)


def _asked(request: HttpRequest, escalation: Escalation) -> dict[str, Any]:
    """How the questions to the agent stand; the newest is told beside the decision, others with answers."""
    row = _row(request, escalation)
    over = "" if row.waiting_until else contracts.Closing.WAIT_ENDED  # the sweeper may come a little later
    asked: list[dict[str, Any]] = [
        {
            "question": item,
            "text": words.visible_lines(item.text),
            "badge": words.badge(presenters.CLOSINGS, item.closed_why or over),
        }
        for item in queries.list_questions(escalation=escalation)
    ]
    return {
        "escalation": escalation,
        "row": row,
        "is_open": row.open,
        "asked": asked,
        "most_questions": policy.MAX_QUESTIONS,
        "newest": asked[-1] if asked else None,
        "unanswered": [item for item in asked if item["question"].answered_at is None],
    }


def _case(escalation: Escalation, proposal: Proposal, bundle: Mapping[str, Any]) -> case.Case:
    """The case beside the live world, so that a price within its bounds is told from one that moved."""
    seen = {item["path"]: item["value"] for item in bundle["facts"]}
    live = queries.live_facts(tenant=escalation.tenant, paths=list(seen))
    is_open = escalation.state == contracts.State.OPEN
    kind = Rules.from_bytes(bytes(proposal.verdict.bundle.body)).kind
    material: frozenset[str] = frozenset()
    if is_open and kind is not None:
        judged = evaluate.judge_freshness(
            kind,
            params=bundle["proposal"]["params"],
            constraints=bundle["proposal"]["execution_constraints"],
            seen=seen,
            current=live,
        )
        material = frozenset(item.fact for item in judged if item.move not in evaluate.FRESH)
    return case.read(bundle, live=live if is_open else {}, material=material)


def _history(escalation: Escalation) -> dict[str, Any]:
    history = queries.get_history(
        tenant=escalation.tenant, agent_id=escalation.agent_id, besides=escalation.pk
    )
    total = sum(history.by_resolution.values())
    passed = history.by_resolution.get(Action.OVERRIDE, 0)
    return {
        "total": total,
        "override_rate": passed * 100 // total if total else 0,
        "counts": [
            (words.badge(presenters.RESOLUTIONS, name), count)
            for name, count in sorted(history.by_resolution.items(), key=lambda item: -item[1])
        ],
        "newest": [
            {"row": row, "ended": words.badge(presenters.RESOLUTIONS, row.resolution or row.state)}
            for row in history.newest
        ],
    }


def _decision(escalation: Escalation) -> dict[str, Any]:
    """The decision that was made, from its signed statement."""
    decision = getattr(escalation, "decision", None)
    if decision is None:
        return {"decision": None}
    return {
        "decision": decision,
        "decision_badge": words.badge(presenters.RESOLUTIONS, decision.action),
        "statement": canonical.decode(bytes(decision.statement)),
        "statement_digest": canonical.digest(bytes(decision.statement)),
        "signature": bytes(decision.signature).hex(),
    }


def _form(
    request: HttpRequest, escalation: Escalation, bundle: Mapping[str, Any], kept: Mapping[str, str]
) -> dict[str, Any]:
    """The actions of the family, each allowed or with the sentence why not, as the POST would answer."""
    person = person_of(request)
    situation = situations.of(escalation=escalation, agent=escalation.flow.agent, shown=bundle)
    now_ms = moments.to_ms(clock.now())
    answers = {
        action: policy.may(action, person, situation, now_ms=now_ms)
        for action in contracts.ACTIONS[situation.family]
    }
    step_up = any(
        isinstance(answer, policy.Denied) and answer.code == "STEP_UP" for answer in answers.values()
    )
    weighty = any(policy.is_weighty(action, situation.impact) for action in answers)
    return {
        "choices": [_choice(action, answer, kept, situation.family) for action, answer in answers.items()],
        "may_decide": bool(person.roles & policy.DECIDING_ROLES),
        "step_up": step_up,
        "solo": any(isinstance(answer, policy.Allowed) and answer.solo for answer in answers.values()),
        "weighty": weighty,
        "type_again": any(policy.is_typed_again(action, situation.impact) for action in answers),
        "in_doubt": situation.in_doubt,
        "least_reason": policy.LEAST_REASON_CHARS if weighty else 1,
        "fields": _fields(bundle, kept) if escalation.proposal is not None else [],
    }


def _fields(bundle: Mapping[str, Any], kept: Mapping[str, str]) -> list[params.Field]:
    return params.fields(bundle["kind"]["params_schema"], bundle["proposal"]["params"], kept or None)


def _choice(
    action: Action, answer: policy.Answer, kept: Mapping[str, str], family: contracts.Family
) -> Choice:
    word, hint, icon, tone = CHOICES[action]
    if action is Action.ABORT and family is contracts.Family.OPERATIONAL:
        hint = ABORT_AFTERWARDS
    why = answer.why if isinstance(answer, policy.Denied) and answer.code != "STEP_UP" else ""
    chosen = not why and kept.get("action") == action
    return Choice(action=action, word=word, hint=hint, icon=icon, tone=tone, why=why, chosen=chosen)
