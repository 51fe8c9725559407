"""One action on several escalations: a page that lists each with its evidence, then each decided by itself.

Opening the page decides nothing, by GET or POST; only the form on it does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from audit.access.permissions import actor_of, require, tenant_of
from audit.access.roles import Permission
from escalations import forms, policy, presenters, queries
from escalations.contracts import Action
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Escalation
from escalations.services import bulk_deciding, policy_context
from escalations.services.bulk_deciding import ACTIONS, MOST_ITEMS, ItemResult
from escalations.services.deciding import DecisionResult
from escalations.views import queue_walk
from escalations.views.policy_person import person_of
from escalations.views.two_people import FIRST_OF_TWO, words_of_first
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import Impact
from runtime.core import clock
from runtime.core.views import error_page, labels, query_params
from runtime.core.views.labels import Badge
from runtime.execution.services import connectivity
from runtime.execution.services.connectivity import TargetCheck

TAMPERED = "Its evidence does not match the ledger, so it can only be aborted."


@dataclass(frozen=True, slots=True)
class ItemView:
    """One escalation as it is about to be decided; `why` says why it cannot be."""

    row: presenters.QueueRow
    evidence_hash: str
    version: int
    impact: str
    chosen: bool
    why: str


@dataclass(frozen=True, slots=True)
class ResultView:
    """What became of one escalation; `row` is None where there is none of its id."""

    escalation_id: UUID
    row: presenters.QueueRow | None
    badge: Badge
    words: str
    code: str


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.DECIDE)
def confirm(request: HttpRequest) -> HttpResponse:
    """List what was selected, each with its evidence; for RESUME, a POST tests the targets."""
    return _page(request, request.POST if request.method == "POST" else request.GET)


@require_POST
@require(Permission.DECIDE)
def decide(request: HttpRequest) -> HttpResponse:
    """Decide each item of the confirmed form by itself, and show what became of it."""
    asked = forms.BulkForm(request.POST).read()
    if isinstance(asked, Problem):
        return _refused(request, asked)
    outcome = bulk_deciding.decide(
        tenant=tenant_of(request.user),
        action=asked.action,
        justification=asked.justification,
        items=asked.items,
        read_person=partial(person_of, request),
        user=request.user,
    )
    if isinstance(outcome, Problem):
        return _refused(request, outcome)
    results = _results(request, outcome)
    done = sum(isinstance(item.outcome, DecisionResult) for item in outcome)
    context = {
        "results": results,
        "done": done,
        "refused": len(results) - done,
        "spec": asked.action.spec,
        "back": queue_walk.queue_url(queue_walk.read_query(request)),
    }
    return render(request, "escalations/bulk_result.html", context)


def _refused(request: HttpRequest, problem: Problem) -> HttpResponse:
    """Record a refusal of the whole form, which is in no escalation's flow, and show the form again."""
    error_page.record(request, problem)
    return _page(request, request.POST, problem=problem)


def _page(request: HttpRequest, asked: QueryDict, *, problem: Problem | None = None) -> HttpResponse:
    tenant, query = tenant_of(request.user), queue_walk.read_query(request)
    back = queue_walk.queue_url(query)
    action = next((one for one in ACTIONS if one == asked.get("action")), None)
    # Each once, in the order of the page.
    ids = list(dict.fromkeys(filter(None, map(query_params.uuid, asked.getlist("escalation")))))
    rows = queries.list_chosen(tenant=tenant, ids=ids) if len(ids) <= MOST_ITEMS else []
    if problem is None:
        problem = _wrong_selection(action, ids, rows)
    if action is None or not rows:
        nothing: dict[str, Any] = {"problem": problem, "back": back}
        return render(request, "escalations/bulk.html", nothing, status=problem.status if problem else 400)
    targets = sorted({row.intent.target for row in rows if row.intent}) if action is Action.RESUME else []
    checks = _test(request, targets) if request.method == "POST" and problem is None else []
    evidence = queries.get_evidence(tenant=tenant, escalations=rows)
    answers = _answers(request, action, rows, evidence)
    shown = presenters.rows(
        escalations=rows, evidence=evidence, now=clock.now(), user_pk=request.user.pk or 0
    )
    items = [_item(row, line, answers[row.pk]) for row, line in zip(rows, shown, strict=True)]
    weighty = any(policy.is_weighty(action, policy_context.impact_of(row)) for row in rows)
    context: dict[str, Any] = {
        "action": action,
        "spec": action.spec,
        "items": items,
        "number": sum(not item.why for item in items),
        "missing": len(ids) - len(rows),
        "targets": targets,
        "checks": checks,
        "tested": not targets or (bool(checks) and any(check.is_good for check in checks)),
        "needs_reason": not policy.is_stopping(action),
        "least_reason": policy.LEAST_REASON_CHARS if weighty else 1,
        "longest_reason": forms.LONGEST_TEXT,
        "justification": asked.get("justification", ""),
        "step_up": any(_is_step_up(answer) for answer in answers.values()),
        "again": _again(action, ids, query),
        "problem": problem,
        "from": query,
        "back": back,
    }
    return render(request, "escalations/bulk.html", context, status=problem.status if problem else 200)


def _wrong_selection(
    action: Action | None, ids: Sequence[UUID], rows: Sequence[Escalation]
) -> Problem | None:
    if action is None:
        return Problem(
            code=ProblemCode.ACTION_UNKNOWN,
            detail=f"Only {', '.join(ACTIONS)} can be taken on several escalations.",
        )
    if not 1 <= len(ids) <= MOST_ITEMS:
        detail = f"{len(ids) or 'No'} escalations are selected. Select between 1 and {MOST_ITEMS}."
        return Problem(code=ProblemCode.SELECTION_WRONG, detail=detail)
    if not rows:
        return Problem(code=ProblemCode.SELECTION_WRONG, detail="None of the selected escalations exists.")
    if action is Action.OVERRIDE and not (
        len({(row.family, row.agent_id, row.policy_kind, row.reason) for row in rows}) == 1
        and all(row.impact == Impact.LOW_IMPACT for row in rows)
    ):
        detail = "Only proposals of low impact with the same agent, kind and reason are overridden together."
        return Problem(code=ProblemCode.NOT_ALIKE, detail=detail)
    return None


def _answers(
    request: HttpRequest,
    action: Action,
    rows: Sequence[Escalation],
    evidence: Mapping[UUID, AnyEvidence],
) -> Mapping[UUID, policy.Answer]:
    """What the decision of each would answer now; what it refuses is not offered."""
    person, at = person_of(request), clock.now()
    situations = policy_context.of_many(escalations=rows, evidence=evidence, at=at)
    found: dict[UUID, policy.Answer] = {}
    for row in rows:
        answer = policy.may(action, person, situations[row.pk], now_ms=timestamps.to_ms(at))
        if row.pk not in evidence and not action.spec.stops:
            answer = policy.Denied(ProblemCode.TAMPERED, TAMPERED)
        elif isinstance(answer, policy.Allowed) and action is Action.RESUME:
            alone = bulk_deciding.interrupt_refusal(row=row)
            if situations[row.pk].in_doubt:
                alone = bulk_deciding.doubt_refusal(row=row)
            answer = answer if alone is None else policy.Denied(alone.code, alone.detail)
        found[row.pk] = answer
    return found


def _item(row: Escalation, line: presenters.QueueRow, answer: policy.Answer) -> ItemView:
    why = answer.why if isinstance(answer, policy.Denied) and not _is_step_up(answer) else ""
    return ItemView(
        row=line,
        evidence_hash=row.evidence_hash,
        version=row.version,
        impact=line.impact,
        # What a colleague works on is decided only by whoever chooses it again.
        chosen=not why and (line.mine or not line.holder),
        why=why,
    )


def _is_step_up(answer: policy.Answer) -> bool:
    return isinstance(answer, policy.Denied) and answer.code is ProblemCode.STEP_UP


def _test(request: HttpRequest, targets: Sequence[str]) -> Sequence[TargetCheck]:
    """Test whether the targets can be reached; nothing is sent to them."""
    tenant, actor = tenant_of(request.user), actor_of(request.user)
    found = (connectivity.check_target(tenant=tenant, name=name, actor=actor) for name in targets)
    return [check for check in found if check is not None]


def _results(request: HttpRequest, outcomes: Sequence[ItemResult]) -> Sequence[ResultView]:
    tenant, now = tenant_of(request.user), clock.now()
    rows = {
        row.pk: row
        for row in queries.list_chosen(tenant=tenant, ids=[item.escalation_id for item in outcomes])
    }
    evidence = queries.get_evidence(tenant=tenant, escalations=list(rows.values()))
    found = []
    for item in outcomes:
        row, outcome = rows.get(item.escalation_id), item.outcome
        line = None
        if row is not None:
            shown = evidence.get(row.pk)
            line = presenters.row(item=row, evidence=shown, now=now, user_pk=request.user.pk or 0)
        if isinstance(outcome, Problem):
            badge, words, code = Badge("danger", "cross", "Refused"), outcome.detail, outcome.code.value
        elif outcome.first_of_two is not None:
            badge, words, code = FIRST_OF_TWO, words_of_first(outcome.first_of_two), ""
        else:
            badge = labels.badge(presenters.RESOLUTIONS, outcome.action)
            words, code = outcome.action.spec.done, ""
        found.append(
            ResultView(escalation_id=item.escalation_id, row=line, badge=badge, words=words, code=code)
        )
    return found


def _again(action: Action, ids: Sequence[UUID], query: str) -> str:
    """The address of this page, for the way back from a confirmed password."""
    asked = QueryDict(mutable=True)
    asked["action"] = action.value
    asked.setlist("escalation", [str(one) for one in ids])
    if query:
        asked["from"] = query
    return f"{reverse('escalation-bulk')}?{asked.urlencode()}"
