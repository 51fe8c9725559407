"""The POSTs of the decision page. GET never decides; identity comes from the session alone.

A refusal renders the page again, through `detail.page(request, escalation_id, problem=, entered=)`, with the
problem's status, so that no input is lost.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import wraps
from typing import cast
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from audit.access.permissions import GuardedView, require, signed_in, tenant_of
from audit.access.roles import Permission
from escalations import forms, queries
from escalations.contracts import Action, State
from escalations.evidence_contracts import JudgedEvidence
from escalations.models import Escalation
from escalations.services import claiming, comparing, deciding, dry_running, two_people
from escalations.services.decision_request import DecisionRequest
from escalations.views import detail, drafts, evidence_page, posts, queue_walk, reading
from escalations.views.policy_person import person_of
from escalations.views.queue_walk import AfterDecision
from escalations.views.two_people import words_of_first
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.units import AmountUnits
from runtime.core import clock, transactions
from runtime.core.views import error_page
from runtime.proposals.views import proposal_presenters

NOT_FOUND = Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No escalation has this id.")


def post_here(view: GuardedView) -> GuardedView:
    """Accept POST only. A GET, from the address bar or a restored tab, gets a link to the page."""

    @wraps(view)
    def guarded(request: HttpRequest, escalation_id: UUID) -> HttpResponseBase:
        if request.method in {"GET", "HEAD"}:
            context = {
                "status": 405,
                "title": "Opening this address does not decide anything",
                "detail": "Use the form on the escalation's page to decide.",
                "href": reverse("escalation", args=[escalation_id]),
                "action": "Go to the escalation",
            }
            answer = render(request, "error.html", context, status=405)
            answer["Allow"] = "POST"
            return answer
        return require_POST(view)(request, escalation_id)

    result = cast(GuardedView, guarded)
    result.required_roles = view.required_roles
    return result


@post_here
@signed_in
def decide(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Record one decision. The service checks and records who is allowed to."""
    asked, _ = _read(request, escalation_id, request.POST)
    if isinstance(asked, Problem):
        # It never reaches the service, which records all other refusals.
        error_page.record(request, asked)
        return _again(request, escalation_id, asked)
    claimed = _claimed_by_another(request, escalation_id, asked)
    if claimed is not None:
        return _again(request, escalation_id, claimed)
    query = queue_walk.read_query(request)
    goes_on = queue_walk.choice_of(request) is AfterDecision.NEXT
    before = queue_walk.list_ids(request, query) if goes_on else []
    try:
        outcome = deciding.decide(
            tenant=tenant_of(request.user),
            escalation_id=escalation_id,
            person=person_of(request),
            user=request.user,
            request=asked,
        )
    except transactions.BusyError:
        outcome = posts.BUSY
    if isinstance(outcome, Problem):
        return _again(request, escalation_id, outcome)
    drafts.forget(request, escalation_id)
    return _lead_on(request, escalation_id, outcome, query, before)


@post_here
@require(Permission.DECIDE)
def withdraw(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Withdraw one's own first of two decisions."""
    outcome = two_people.withdraw(
        tenant=tenant_of(request.user), escalation_id=escalation_id, person=person_of(request)
    )
    if isinstance(outcome, Problem):
        return _again(request, escalation_id, outcome)
    messages.success(request, "Your decision is withdrawn. Nothing ran.")
    return redirect("escalation", escalation_id=escalation_id)


@post_here
@require(Permission.DECIDE)
def dry_run(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Return the verdict on the changed parameters; nothing is stored.

    Without JavaScript the page is rendered again with the result and the input. A value calculated by the
    runtime is put into its field only if the form asks for it.
    """
    entered = forms.put_in(request.POST)
    asked, shown = _read(request, escalation_id, entered, always_shown=True)
    if isinstance(asked, Problem):
        error_page.record(request, asked)
    answer = (
        asked
        if isinstance(asked, Problem)
        else dry_running.dry_run(
            tenant=tenant_of(request.user),
            escalation_id=escalation_id,
            person=person_of(request),
            request=asked,
        )
    )
    swaps = "HX-Request" in request.headers
    if isinstance(answer, Problem):
        if not swaps:
            return detail.page(request, escalation_id, problem=answer, entered=entered)
        # htmx does not insert responses with an error status.
        return render(request, "escalations/_dry_run.html", {"problem": answer})
    units = AmountUnits() if shown is None else shown.amounts
    context = {
        "verdict": answer,
        "reasons": proposal_presenters.findings(answer.reasons, units),
        "predicted": evidence_page.differences(answer.predicted, units),
        "stated": evidence_page.stated(
            answer.figures, {} if shown is None else shown.kind.params_schema, units.params
        ),
    }
    if not swaps:
        return detail.page(request, escalation_id, answered=context, entered=entered)
    return render(request, "escalations/_dry_run.html", {**context, "escalation_id": escalation_id})


@post_here
@require(Permission.DECIDE)
def choose_after(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Keep in this browser where the person goes after a decision."""
    chosen = request.POST.get("after", "")
    query = queue_walk.read_query(request)
    answer = _go_to(request, queue_walk.item_url(escalation_id, query))
    if "HX-Request" in request.headers:
        answer = HttpResponse(status=204)  # the open page stays as it is
    if chosen in set(AfterDecision):
        queue_walk.keep_choice(answer, AfterDecision(chosen))
    return answer


@post_here
@require(Permission.DECIDE)
def claim(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Claim the escalation, so that colleagues see who works on it."""
    return _after_claim(
        request,
        escalation_id,
        claiming.claim(tenant=tenant_of(request.user), escalation_id=escalation_id, user=request.user),
    )


@post_here
@require(Permission.DECIDE)
def release(request: HttpRequest, escalation_id: UUID) -> HttpResponse:
    """Release the claim."""
    return _after_claim(
        request,
        escalation_id,
        claiming.release(tenant=tenant_of(request.user), escalation_id=escalation_id, user=request.user),
    )


def _read(
    request: HttpRequest, escalation_id: UUID, post: QueryDict, *, always_shown: bool = False
) -> tuple[DecisionRequest | Problem, JudgedEvidence | None]:
    """Read the form, with the evidence whose schema types its parameters, for actions that change them.

    With `always_shown` the evidence is read whatever the action is. Evidence that does not match the ledger
    is left out: the service refuses such an escalation.
    """
    row = Escalation.objects.of(tenant_of(request.user)).filter(escalation_id=escalation_id).first()
    if row is None:
        return NOT_FOUND, None
    reads_params = post.get("action") in {action for action in Action if action.spec.changes_params}
    evidence = comparing.check_basis(row).evidence if always_shown or reads_params else None
    shown = evidence if isinstance(evidence, JudgedEvidence) else None
    schema = {} if shown is None else shown.kind.params_schema
    proposed = {} if shown is None else shown.proposal.params
    asked = forms.DecisionForm(post, params_schema=schema, proposed=proposed).read()
    if isinstance(asked, Problem):
        return asked, shown
    of = reading.Page(escalation_id, asked.evidence_hash, request.user.pk or 0)
    shown_at_ms = reading.read(post.get("shown", ""), of=of)
    return replace(asked, shown_at_ms=shown_at_ms), shown


def _claimed_by_another(request: HttpRequest, escalation_id: UUID, asked: DecisionRequest) -> Problem | None:
    """Require a confirmation to decide over another person's claim; only forms of the page ask for it."""
    is_confirmed = "asks_claim" not in request.POST or "over_claim" in request.POST
    if is_confirmed or asked.action.spec.stops or asked.action.spec.asks:
        return None
    row = queries.get(tenant=tenant_of(request.user), escalation_id=escalation_id)
    if row is None or row.state != State.OPEN or row.claimed_by is None or row.claimed_by == request.user:
        return None
    if not row.is_claimed(clock.now()):
        return None
    detail_text = f"{row.claimed_by.get_username()} has claimed this. Tick Decide anyway, or abort."
    return Problem(code=ProblemCode.CLAIMED_BY_ANOTHER, detail=detail_text)


def _lead_on(
    request: HttpRequest,
    escalation_id: UUID,
    outcome: deciding.DecisionResult,
    query: str,
    before: Sequence[UUID],
) -> HttpResponse:
    """Lead the person on: to the next open item of the same queue, unless they chose otherwise."""
    spec, chosen = outcome.action.spec, queue_walk.choice_of(request)
    following = None
    if chosen is AfterDecision.NEXT:
        now = queue_walk.list_ids(request, query)
        following = queue_walk.next_after(escalation_id, before=before, now=now)
    first = outcome.first_of_two
    if first is not None:
        messages.success(request, words_of_first(first))
    if following is not None and not spec.asks:
        # Its page says on a strip what was decided.
        return _go_to(request, queue_walk.item_url(following, query, done=escalation_id))
    if first is None:
        messages.success(request, spec.worded(outcome.family).done)
    if following is not None:
        return _go_to(request, queue_walk.item_url(following, query))
    if chosen is AfterDecision.QUEUE:
        return _go_to(request, queue_walk.queue_url(query))
    if spec.asks:
        return _go_to(request, queue_walk.item_url(escalation_id, query))
    if chosen is AfterDecision.TIMELINE:
        return _go_to(request, reverse("flow", args=[outcome.dfid]))
    messages.info(request, "No other open escalation matches." if query else "No other escalation is open.")
    return _go_to(request, queue_walk.queue_url(query))


def _go_to(request: HttpRequest, address: str) -> HttpResponse:
    """Redirect to the address; a form that was sent in place is told of it, and the page goes there."""
    if "HX-Request" in request.headers:
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return redirect(address)


def _again(request: HttpRequest, escalation_id: UUID, problem: Problem) -> HttpResponse:
    drafts.keep(request, escalation_id)
    return detail.page(request, escalation_id, problem=problem, entered=request.POST)


def _after_claim(request: HttpRequest, escalation_id: UUID, problem: Problem | None) -> HttpResponse:
    if problem is not None:
        return _again(request, escalation_id, problem)
    return redirect(queue_walk.item_url(escalation_id, queue_walk.read_query_or_referer(request)))
