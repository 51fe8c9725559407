"""Reviews of what soft guards flag: everyone reads, operators and seniors close them."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit import canonical
from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from audit.verification.verify import UNREADABLE
from runtime.contracts.guard import (
    FindingCode,
    GuardDocument,
    ReviewResult,
    ReviewState,
    text,
)
from runtime.contracts.problem import Problem
from runtime.contracts.verdict import Segment
from runtime.contracts.workflow import INTERRUPT
from runtime.core import clock, mismatches, paging
from runtime.core.views import error_page, labels, query_params
from runtime.core.views.forms import ActionForm, ReasonForm, RequiredText
from runtime.flows.models import Proposal
from runtime.flows.queries import recorded_flow
from runtime.flows.views import erased_words
from runtime.guards.models import Review
from runtime.guards.queries import recorded_guards, review_list
from runtime.guards.services import guard_config, reviews
from runtime.guards.views import review_presenters
from runtime.kernel import effects
from runtime.kernel.guards import confidence
from runtime.proposals.views import proposal_presenters
from runtime.registry.queries import people
from runtime.state.models import MemoryItem
from runtime.state.queries import memory_entries

LONGEST = reviews.MAX_NOTE_CHARS
MOST_KEPT = review_list.PAGE
NO_FINDINGS, ERASED = "The findings cannot be read", "Words erased"
SURE_BPS, LIKELY_BPS = 9000, 7000
_NOT_CLOSED = (
    f"Choose whether the guard was right, and say why in at most {reviews.MAX_NOTE_CHARS} characters."
)


class ReviewForm(ActionForm):
    """Whether the guard was right, and why."""

    result = forms.ChoiceField(
        choices=ReviewResult.pairs(), error_messages={"required": _NOT_CLOSED, "invalid_choice": _NOT_CLOSED}
    )
    note = RequiredText(longest=reviews.MAX_NOTE_CHARS, refusal=_NOT_CLOSED)


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List open reviews, highest confidence first; closed ones with `?show=closed`; and guard accuracy."""
    tenant = tenant_of(request.user)
    closed = request.GET.get("show") == "closed"
    listed = review_list.list_reviewed if closed else review_list.list_open
    page = listed(tenant=tenant, after=query_params.uuid(request.GET.get("after", "")))
    swapped = "HX-Request" in request.headers
    gone: Sequence[Review] = ()
    if swapped and not closed:
        # Rows of the open page that were closed meanwhile change in place, and do not disappear.
        have = (query_params.uuid(part) for part in request.GET.get("have", "").split(",")[:MOST_KEPT])
        known = {review.pk for review in page.rows}
        kept = [found for found in have if found is not None and found not in known]
        gone = review_list.list_by_id(tenant=tenant, ids=kept)
    context: dict[str, Any] = {
        "rows": [row(review) for review in (*page.rows, *gone)],
        "pager": paging.pager(
            page=page,
            query=request.GET,
            key="after",
            last=str(page.rows[-1].pk) if page.rows else "",
            order="newest first" if closed else "highest confidence first",
        ),
        "shown_closed": closed,
    }
    if swapped:
        return render(request, "runtime/_reviews.html", context)
    groups = [] if closed else review_list.list_groups(tenant=tenant)
    context |= {
        "groups": [_group(found) for found in groups],
        "open": review_list.count_open(tenant=tenant),
        "guards": [_rating(rating) for rating in review_list.rate_guards(tenant=tenant, now=clock.now())],
        "rated_days": review_list.RATED_DAYS,
        "may_switch": may(request.user, Permission.MANAGE_GUARDS),
        "list_url": request.get_full_path(),
    }
    return render(request, "runtime/reviews.html", context)


@require_safe
@signed_in
def count(request: HttpRequest) -> HttpResponse:
    """Return the number of open reviews, for live updates of the navigation."""
    context = {"open": review_list.count_open(tenant=tenant_of(request.user))}
    return render(request, "runtime/_review_count.html", context)


@require_safe
@signed_in
def detail(request: HttpRequest, review_id: UUID) -> HttpResponse:
    """Show the agent's explanation beside its proposal, and the guard's findings."""
    review = _review_or_404(request, review_id)
    erased = erased_words.find(review.flow)
    if erased is not None:
        return erased_words.page(request, erased, what="review")
    return _page(request, review)


@require_POST
@require(Permission.REVIEW)
def close(request: HttpRequest, review_id: UUID) -> HttpResponse:
    """Record whether the guard was right. This executes nothing."""
    review = _review_or_404(request, review_id)
    form = ReviewForm(request.POST)
    if not form.is_valid():
        return _page(request, review, form)
    result = ReviewResult(form.cleaned_data["result"])
    answer = reviews.close(
        tenant=review.tenant,
        review_id=review_id,
        result=result,
        note=form.cleaned_data["note"],
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("review", args=[review_id]))
    messages.success(
        request, f"Recorded: {review_presenters.RESULTS[result].word.lower()}. Nothing was executed."
    )
    following = review_list.get_next(review=review)
    return redirect("reviews") if following is None else redirect("review", review_id=following)


@require_POST
@require(Permission.MANAGE_GUARDS)
def switch_on(request: HttpRequest, guard_id: str) -> HttpResponse:
    """Switch a guard on."""
    return _switch(request, guard_id, enabled=True)


@require_POST
@require(Permission.MANAGE_GUARDS)
def switch_off(request: HttpRequest, guard_id: str) -> HttpResponse:
    """Switch a guard off."""
    return _switch(request, guard_id, enabled=False)


def _switch(request: HttpRequest, guard_id: str, *, enabled: bool) -> HttpResponse:
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=reverse("reviews"))
    answer = guard_config.switch(
        tenant=tenant_of(request.user),
        guard_id=guard_id,
        enabled=enabled,
        reason=form.cleaned_data["reason"],
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("reviews"))
    messages.success(request, f"{guard_id} is now {'on' if enabled else 'off'}.")
    return redirect("reviews")


def _group(found: review_list.Group) -> dict[str, Any]:
    return {
        "first": found.review_ids[0],
        "agent_id": found.agent_id,
        "guard_id": found.guard_id,
        "size": len(found.review_ids),
        "titles": [review_presenters.FINDINGS.get(code, effects.visible(code)) for code in found.codes],
    }


def _review_or_404(request: HttpRequest, review_id: UUID) -> Review:
    review = review_list.get_review(tenant=tenant_of(request.user), review_id=review_id)
    if review is None:
        raise Http404
    return review


def row(review: Review) -> dict[str, Any]:
    found, sure = _findings(review), review.confidence_bps
    shown = {
        "review": review,
        "is_waiting": review.state == ReviewState.OPEN,
        "url": reverse("review", args=[review.pk]),
        "result": review_presenters.RESULTS.get(review.result),
        "stopped": review.agent_suspended,
    }
    if review.proposal is None:
        return shown | {"words": effects.visible(review.request_reason), "kind": review.flow.policy_kind}
    return shown | {
        "confidence": text(sure),
        "tone": "danger" if sure >= SURE_BPS else "warn" if sure >= LIKELY_BPS else "idle",
        "words": found[0]["message"] if found else NO_FINDINGS if review.findings else ERASED,
        "more": max(0, len(found) - 1),
        "kind": review.proposal.policy_kind,
    }


def _page(request: HttpRequest, review: Review, form: ReviewForm | None = None) -> HttpResponse:
    if review.memory is not None:
        template, parts = "runtime/review_memory.html", _of_memory(review, review.memory)
        words = review_presenters.MEMORY_ANSWERS
    elif review.proposal is not None:
        template, parts = "runtime/review.html", _of_guard(review, review.proposal)
        words = review_presenters.ANSWERS
    else:
        template, parts = "runtime/review_route.html", _of_router(review)
        words = review_presenters.ROUTE_ANSWERS
    intent = review_list.get_intent(review=review)
    shown = row(review)
    is_open = shown["is_waiting"]
    context = shown | {
        "is_open": is_open,
        "state": labels.badge(review_presenters.REVIEW_STATES, review.state),
        "stop_words": review_presenters.STOPS[review.emergency_stop],
        "intent_state": "" if intent is None else intent.state,
        "may_review": may(request.user, Permission.REVIEW),
        "may_stop": may(request.user, Permission.STOP),
        "may_edit": may(request.user, Permission.MANAGE_REGISTRY),
        "place": review_list.place_of(review) if is_open else None,
        "alike": len(review_list.list_alike_ids(review=review)) if is_open else 0,
        "longest": LONGEST,
        "form": form,
        "answers": answers(form, words),
    }
    return render(request, template, context | parts, status=200 if form is None else 400)


def _of_guard(review: Review, proposal: Proposal) -> dict[str, Any]:
    known = recorded_flow.of_flow(tenant=review.tenant, dfid=review.flow_id)
    mismatches.require(
        known.compare_proposal(proposal),
        known.compare_verdict(proposal.verdict),
        recorded_guards.compare_findings(review),
    )
    names = people.names_of([review.reviewed_by, proposal.author])
    verdict = canonical.decode(bytes(proposal.verdict.body))
    return {
        "findings": _findings(review),
        "proposal": proposal_presenters.shown(proposal, names),
        "effect": [Segment.model_validate(part) for part in verdict["effect"]],
        "reviewed_by": labels.actor_words(review.reviewed_by, names),
    }


def _of_memory(review: Review, item: MemoryItem) -> dict[str, Any]:
    mismatches.require(recorded_guards.compare_request(review), memory_entries.compare_written(item))
    names = people.names_of([review.reviewed_by, review.requested_by])
    return {
        "item": item,
        "question": "Did the memory affect this flow?",
        "value": labels.visible_lines(labels.stored_value(item.value)),
        "reason": labels.visible_lines(review.request_reason),
        "requested_by": labels.actor_words(review.requested_by, names),
        "reviewed_by": labels.actor_words(review.reviewed_by, names),
    }


def _of_router(review: Review) -> dict[str, Any]:
    route = recorded_guards.get_route(review)
    mismatches.require(recorded_guards.compare_route(review, route))
    return {
        "route": route,
        "asks_person": route["next"] == INTERRUPT,
        "requested_by": f"the router {review.router}",
        "question": "Does it matter to what was proposed?",
        "reason": labels.visible_lines(review.request_reason),
        "reviewed_by": labels.actor_words(review.reviewed_by, people.names_of([review.reviewed_by])),
    }


def answers(
    form: ReviewForm | None = None,
    words: Mapping[ReviewResult, tuple[str, str]] = review_presenters.ANSWERS,
) -> list[dict[str, Any]]:
    """Return the two answers of the form, each with its key; chosen is what was entered."""
    entered = "" if form is None else form["result"].value()
    return [
        {"value": value.value, "word": word, "key": key, "chosen": value == entered}
        for value, (word, key) in words.items()
    ]


def _findings(review: Review) -> list[dict[str, str]]:
    """Return the guard's findings; empty if the stored ones cannot be read."""
    try:
        return [
            {
                "code": item["code"],
                "title": review_presenters.FINDINGS[item["code"]],
                "message": effects.visible(item["message"]),
                "confidence": item["confidence"],
                "why": weight.why if (weight := confidence.WEIGHTS.get(FindingCode(item["code"]))) else "",
            }
            for item in canonical.decode(bytes(review.findings))
        ]
    except UNREADABLE:
        return []


def _rating(rating: review_list.Rating) -> dict[str, Any]:
    guard = rating.guard
    wrong = recorded_guards.compare_guard(guard)
    contract = GuardDocument.from_bytes(bytes(guard.body)) if wrong is None else None
    judged = rating.confirmed + rating.false_alarms
    return {
        "rating": rating,
        "guard": guard,
        "does": review_presenters.GUARD_KINDS.get(guard.kind, guard.kind),
        "is_whole": contract is not None,
        "target": contract.target or "" if contract else "",
        "kinds": ", ".join(contract.policy_kinds) or "every kind" if contract else "",
        "stops_at": contract.stop_confidence if contract and contract.emergency_stop else "",
        "switched_by": labels.actor_words(guard.switched_by, people.names_of([guard.switched_by])),
        "judged": judged,
        "right": f"{rating.confirmed * 100 // judged} %" if judged else "",
        "width": rating.confirmed * 100 // judged if judged else 0,
    }
