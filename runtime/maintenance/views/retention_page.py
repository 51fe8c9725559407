"""Retention and legal holds: everyone reads; admins place and release holds, with the password."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit import sentences
from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification.verify import UNREADABLE
from runtime.contracts import hold as contract
from runtime.contracts.hold import HoldTarget
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.retention import WORDS
from runtime.core import clock, transactions
from runtime.core.views import error_page, labels, step_up
from runtime.core.views.forms import ActionForm, ReasonField, ReasonForm, RequiredText
from runtime.core.views.stream_names import entry_url
from runtime.maintenance.models import LegalHold
from runtime.maintenance.queries import holds as held
from runtime.maintenance.queries import old_facts
from runtime.maintenance.queries import retention as due
from runtime.maintenance.services import holds
from runtime.registry.queries import people

BUSY = Problem(code=ProblemCode.BUSY, detail="Someone else changed a hold. Nothing was changed; try again.")


class HoldForm(ActionForm):
    """A new hold: its name, what it keeps, and why."""

    name = RequiredText(longest=contract.LONGEST_NAME, refusal="Give the hold a name, such as case-2026-14.")
    target = forms.ChoiceField(choices=HoldTarget.pairs())
    ref = RequiredText(
        longest=contract.LONGEST_SUBJECT, refusal="Enter the id of the flow, or the subject, to keep."
    )
    reason = ReasonField(suffix=" Nothing was changed.")

    def clean(self) -> dict[str, Any]:
        """A flow is named by its id."""
        given = super().clean() or self.cleaned_data
        given["dfid"] = None
        if given.get("target") == HoldTarget.FLOW and "ref" in given:
            try:
                given["dfid"] = UUID(given["ref"])
            except ValueError as error:
                raise ValidationError("This is not the id of a flow.") from error
        return given


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show the classes, what the round comes to next, what was erased lately, and the holds."""
    given = {name: request.GET.get(name, "") for name in ("target", "ref")}
    return _page(request, given=given)


@require_POST
@require(Permission.MANAGE_HOLDS)
def place(request: HttpRequest) -> HttpResponse:
    """Place a hold; whatever is wrong is said on the page, above what was entered."""
    form = HoldForm(request.POST)
    if not form.is_valid():
        return _page(request, given=request.POST.dict(), problem=form.problem())
    if not step_up.is_fresh(request):
        return _page(request, given=request.POST.dict(), problem=step_up.NEEDED)
    said = form.cleaned_data
    try:
        answer = holds.place(
            tenant=tenant_of(request.user),
            name=said["name"],
            dfid=said["dfid"],
            subject="" if said["dfid"] is not None else said["ref"],
            reason=said["reason"],
            actor=actor_of(request.user),
        )
    except transactions.BusyError:
        answer = BUSY
    if isinstance(answer, Problem):
        return _page(request, given=request.POST.dict(), problem=answer)
    messages.success(request, f"The hold {answer.name} is placed.")
    if answer.subject and not holds.is_subject_known(tenant=answer.tenant, subject=answer.subject):
        messages.info(request, "No decision record names this subject so far: the hold keeps nothing yet.")
    return redirect("retention")


@require_POST
@require(Permission.MANAGE_HOLDS)
def release(request: HttpRequest, hold_id: UUID) -> HttpResponse:
    """Release a hold."""
    back, form = reverse("retention"), ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=back)
    if not step_up.is_fresh(request):
        return error_page.page(request, step_up.NEEDED, back=back)
    try:
        answer = holds.release(
            tenant=tenant_of(request.user),
            hold_id=hold_id,
            reason=form.cleaned_data["reason"],
            actor=actor_of(request.user),
        )
    except transactions.BusyError:
        answer = BUSY
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=back)
    messages.success(request, f"The hold {answer.name} is released.")
    return redirect("retention")


def _page(request: HttpRequest, *, given: dict[str, Any], problem: Problem | None = None) -> HttpResponse:
    tenant = tenant_of(request.user)
    live, released = held.list_live(tenant=tenant), held.list_released(tenant=tenant)
    reasons = held.reasons_of([*live, *released], tenant=tenant)
    names = people.names_of(
        [who for hold in (*live, *released) for who in (hold.placed_by, hold.released_by)]
    )
    context: dict[str, Any] = {
        **_retention(tenant),
        "live": [_shown(hold, reasons, names) for hold in live],
        "released": [_shown(hold, reasons, names) for hold in released],
        "most_shown": held.MOST_SHOWN,
        "may_manage": may(request.user, Permission.MANAGE_HOLDS),
        "is_fresh": step_up.is_fresh(request),
        "given": given,
        "problem": problem,
    }
    status = 200 if problem is None else problem.status
    return render(request, "runtime/retention.html", context, status=status)


def _retention(tenant: str) -> dict[str, Any]:
    """Bounded: each count and list ends somewhere, and is read from an index."""
    at, classes = clock.now(), due.list_classes(tenant=tenant)
    lately = due.list_lately(Kind.FLOW_ERASED, tenant=tenant)
    names = people.names_of([entry.actor for entry in lately])
    before = due.preview(classes, tenant=tenant, at=at)
    return {
        "classes": [(of, due.count_due(of, tenant=tenant, at=at)) for of in classes],
        "most_counted": due.MOST_COUNTED,
        "preview": before,
        "has_more": before.looked == due.MOST_PREVIEWED,
        "kept_because": [(WORDS[why], count) for why, count in before.kept.items()],
        "lately": [_erased(entry, names) for entry in lately],
        "fact_classes": old_facts.list_classes(),
        "pruned_lately": [_pruned(entry) for entry in due.list_lately(Kind.FACTS_PRUNED, tenant=tenant)],
    }


def _erased(entry: LedgerEntry, names: dict[str, str]) -> dict[str, Any]:
    try:
        reason = str(entry.payload["reason"])
    except UNREADABLE:
        reason = labels.DIFFERENT
    return {
        "flow": entry.stream,
        "at": entry.at,
        "by": labels.actor_words(entry.actor, names),
        "reason": reason,
        "url": entry_url(entry.stream, entry.seq),
    }


def _pruned(entry: LedgerEntry) -> dict[str, Any]:
    try:
        said = sentences.facts_pruned(entry.payload)
    except UNREADABLE:
        said = labels.DIFFERENT
    return {"at": entry.at, "said": said, "url": entry_url(entry.stream, entry.seq)}


def _shown(hold: LegalHold, reasons: dict[str, bytes | None], names: dict[str, str]) -> dict[str, Any]:
    return {
        "row": hold,
        "placed_by": labels.actor_words(hold.placed_by, names),
        "released_by": labels.actor_words(hold.released_by, names) if hold.released_by else "",
        "reason": labels.recorded_text(reasons.get(hold.commitment)),
        "release_reason": labels.recorded_text(reasons.get(hold.release_commitment)),
    }
