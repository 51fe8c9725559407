"""Reviews that are alike: a page that lists them, and one form that closes those that are ticked."""

from collections.abc import Collection
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts.guard import ReviewResult
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import mismatches, transactions
from runtime.core.views import error_page, query_params
from runtime.flows.queries import recorded_flow
from runtime.guards.models import Review
from runtime.guards.queries import recorded_guards, review_list
from runtime.guards.services import reviews
from runtime.guards.views import review_pages

_NONE_TICKED = "Tick the reviews that you mean."
_NOT_ALIKE = "These reviews are not of one agent and guard with the same findings. Close them one by one."
_BUSY = Problem(
    code=ProblemCode.BUSY, detail="Someone else changed these. Those that are left are still open."
)


@require_safe
@signed_in
def show(request: HttpRequest, review_id: UUID) -> HttpResponse:
    """List the open reviews that are like one, with the form that closes them."""
    return _page(request, _review_or_404(request, review_id))


@require_POST
@require(Permission.REVIEW)
def close(request: HttpRequest) -> HttpResponse:
    """Record one answer for several reviews that are alike; each is closed for itself."""
    ids = [found for text in request.POST.getlist("id") if (found := query_params.uuid(text)) is not None]
    ids = ids[: review_list.PAGE]
    tenant, back = tenant_of(request.user), reverse("reviews")
    if not ids:
        return error_page.page(request, _invalid(_NONE_TICKED), back=back)
    first = _review_or_404(request, ids[0])
    given = review_list.list_by_id(tenant=tenant, ids=ids)
    kinds = {(row.agent_id, row.guard_id, review_list.codes_of(row)) for row in given}
    if len(kinds) > 1 or first.guard is None:
        return error_page.page(request, _invalid(_NOT_ALIKE), back=back)
    form = review_pages.ReviewForm(request.POST)
    if not form.is_valid():
        return _page(request, first, form=form, ticked=ids)
    try:
        answers = reviews.close_all(
            tenant=tenant,
            review_ids=ids,
            result=ReviewResult(form.cleaned_data["result"]),
            note=form.cleaned_data["note"],
            actor=actor_of(request.user),
        )
    except transactions.BusyError:
        return error_page.page(request, _BUSY, back=reverse("reviews-alike", args=[first.pk]))
    refused = [answer for answer in answers.values() if isinstance(answer, Problem)]
    closed = len(answers) - len(refused)
    if closed:
        messages.success(request, f"{closed} closed. Nothing was executed.")
    if refused:
        words = f"{len(refused)} not closed: somebody had closed them meanwhile, and what was found stays."
        messages.warning(request, words)
    return redirect("reviews")


def _page(
    request: HttpRequest,
    review: Review,
    *,
    form: review_pages.ReviewForm | None = None,
    ticked: Collection[UUID] | None = None,
) -> HttpResponse:
    alike = review_list.list_alike(review=review)
    for row in alike:
        known = recorded_flow.of_flow(tenant=row.tenant, dfid=row.flow_id)
        is_asked = None if row.proposal is None else known.compare_proposal(row.proposal)
        mismatches.require(is_asked, recorded_guards.compare_findings(row))
    context = {
        "agent_id": review.agent.agent_id,
        "guard_id": review.asked_by,
        "rows": [review_pages.row(row) | {"ticked": ticked is None or row.pk in ticked} for row in alike],
        "form": form,
        "answers": review_pages.answers(form),
        "longest": reviews.MAX_NOTE_CHARS,
        "may_review": may(request.user, Permission.REVIEW),
    }
    return render(request, "runtime/reviews_alike.html", context, status=200 if form is None else 400)


def _review_or_404(request: HttpRequest, review_id: UUID) -> Review:
    found = review_list.get_review(tenant=tenant_of(request.user), review_id=review_id)
    if found is None:
        raise Http404
    return found


def _invalid(detail: str) -> Problem:
    return Problem(code=ProblemCode.INVALID_REQUEST, status=400, detail=detail)
