"""Calls left in doubt, or whose receipt contradicts a person: a list, and a form to settle each."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from audit import canonical
from audit.access.permissions import may, require, signed_in, tenant_of
from audit.access.roles import Permission
from escalations import forms, left_calls, policy, presenters, queries
from escalations.evidence_contracts import AnyEvidence
from escalations.services import stating
from escalations.views import bench, drafts, posts
from escalations.views.policy_person import person_of
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Direction, Effect, Impact
from runtime.core import transactions
from runtime.core.views import labels
from runtime.kernel import effects

DONE: Mapping[Effect, str] = {
    Effect.HAPPENED: "Recorded and signed: the call took effect.",
    Effect.NOT_HAPPENED: "Recorded and signed: the call did not take effect.",
}


@dataclass(frozen=True, slots=True)
class DoubtRow:
    """One call, and its form with the input."""

    intent_id: UUID
    number: int
    dfid: UUID
    escalation_id: UUID
    agent_id: str
    effect: list[presenters.Piece]
    target: str
    step: str
    undoes: bool
    key: str
    called_at: datetime
    detail: str
    left_by: str
    least_reason: int
    options: list[presenters.EffectOption]
    reason: str
    problem: Problem | None
    contradiction: left_calls.Contradiction | None
    stated_reason: str
    receipt: str
    bench: bench.BenchView


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show the list, oldest first."""
    return _page(request)


@posts.post_here
@require(Permission.DECIDE)
def state(request: HttpRequest, intent_id: UUID, number: int) -> HttpResponse:
    """Record the effect of one call. The service checks and records who is allowed to."""
    asked = forms.StatementForm(request.POST).read(intent_id=intent_id, number=number)
    outcome: stating.StatementResult | Problem
    if isinstance(asked, Problem):
        outcome = asked
    else:
        try:
            outcome = stating.state(
                tenant=tenant_of(request.user), person=person_of(request), user=request.user, request=asked
            )
        except transactions.BusyError:
            outcome = posts.BUSY
    about = _draft_of(intent_id, number)
    if isinstance(outcome, Problem):
        drafts.keep(request, about)
        return _page(request, problem=outcome, at=(intent_id, number))
    drafts.forget(request, about)
    messages.success(request, DONE[outcome.effect])
    return redirect("calls-in-doubt")


def _page(
    request: HttpRequest, *, problem: Problem | None = None, at: tuple[UUID, int] | None = None
) -> HttpResponse:
    """Render the list; after a refusal with its message, status and input."""
    tenant = tenant_of(request.user)
    listed = left_calls.list_calls(tenant=tenant)
    evidence = queries.get_evidence(tenant=tenant, escalations=[left.escalation for left in listed])
    benches = bench.of_calls([left.call for left in listed], tenant=tenant)
    rows = []
    for left in listed:
        place = (left.call.intent_id, left.call.number)
        if at == place:
            rows.append(_row(left, evidence, benches[place], problem=problem, entered=request.POST))
        else:
            rows.append(_row(left, evidence, benches[place], entered=drafts.get(request, _draft_of(*place))))
    context = {
        "rows": rows,
        "total": left_calls.count(tenant=tenant),
        "problem": problem,
        "step_up": problem is not None and problem.code is ProblemCode.STEP_UP,
        "may_state": may(request.user, Permission.DECIDE),
    }
    return render(
        request, "escalations/in_doubt.html", context, status=200 if problem is None else problem.status
    )


def _draft_of(intent_id: UUID, number: int) -> str:
    return f"{intent_id}/{number}"


def _row(
    left: left_calls.Left,
    evidence: Mapping[UUID, AnyEvidence],
    shown: bench.BenchView,
    *,
    problem: Problem | None = None,
    entered: Mapping[str, str] | None = None,
) -> DoubtRow:
    call, about, kept = left.call, left.escalation, entered or {}
    weighty = about.impact != Impact.LOW_IMPACT
    receipt = b"" if left.contradiction is None else left.contradiction.receipt
    return DoubtRow(
        intent_id=call.intent_id,
        number=call.number,
        dfid=about.flow_id,
        escalation_id=about.pk,
        agent_id=about.agent_id,
        effect=presenters.segments(evidence[about.pk]) if about.pk in evidence else [],
        target=effects.visible(call.intent.target),
        step=call.step,
        undoes=call.direction == Direction.COMPENSATE,
        key=call.target_key,
        called_at=call.started_at,
        detail=effects.visible(call.detail),
        left_by=left.left_by,
        least_reason=policy.LEAST_REASON_CHARS if weighty else 1,
        options=presenters.effect_options(
            target=call.intent.target,
            chosen=kept.get("effect", ""),
            undoes=call.direction == Direction.COMPENSATE,
            later=True,
        ),
        reason=kept.get("reason", ""),
        problem=problem,
        contradiction=left.contradiction,
        stated_reason="" if left.contradiction is None else effects.visible(left.contradiction.reason),
        receipt=labels.pretty(canonical.decode(receipt)) if receipt else "",
        bench=shown,
    )
