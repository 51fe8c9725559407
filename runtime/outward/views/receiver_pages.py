"""Receivers of events: everybody sees where events go and how far; admins change it."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from audit.events import Kind
from runtime.contracts.problem import Problem
from runtime.contracts.receiver import ReceiverState
from runtime.core.views import error_page, labels
from runtime.core.views.forms import ActionForm, ReasonForm
from runtime.core.views.labels import Badge
from runtime.outward.models import Receiver
from runtime.outward.queries import receiver_list
from runtime.outward.queries.receiver_list import ReceiverShown
from runtime.outward.services import receivers
from runtime.outward.views.forms import BEGINNING, NOW, MoveForm, ReceiverForm, held, ways

_ACTIVE = Badge("ok", "check", "Active")
_FAILING = Badge("danger", "high", "Failing", "It did not take the last message; it is tried again")
_PAUSED = Badge("warn", "wait", "Paused", "It keeps its position and gets nothing")
_EMPTY = {"patterns": "*", "begin": NOW}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def index(request: HttpRequest) -> HttpResponseBase:
    """List the receivers; on POST, add one."""
    return _add(request) if request.method == "POST" else _show(request, ReceiverForm(), _EMPTY)


@require(Permission.MANAGE_OUTWARD)
def _add(request: HttpRequest) -> HttpResponse:
    form = ReceiverForm(request.POST)
    if not form.is_valid():
        return _show(request, form, request.POST.dict(), status=422)
    answer = receivers.add(
        tenant=tenant_of(request.user),
        wanted=form.wanted(),
        from_beginning=form.cleaned_data["begin"] == BEGINNING,
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        form.add_problem(answer)
        return _show(request, form, request.POST.dict(), status=answer.status)
    messages.success(request, f"{answer.name} was added. Send it a test event.")
    return redirect("receivers")


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.MANAGE_OUTWARD)
def edit(request: HttpRequest, receiver_id: UUID) -> HttpResponse:
    """Show what was chosen for a receiver; on POST, change it."""
    row = receiver_list.get(tenant=tenant_of(request.user), receiver_id=receiver_id)
    if row is None:
        raise Http404
    if request.method != "POST":
        return _show_edit(request, row, ReceiverForm(), held(row))
    given = held(row) | {name: text for name, text in request.POST.dict().items() if isinstance(text, str)}
    form = ReceiverForm(given | {"name": row.name})
    if not form.is_valid():
        return _show_edit(request, row, form, given, status=422)
    answer = receivers.change(
        tenant=row.tenant, receiver_id=row.pk, wanted=form.wanted(row), actor=actor_of(request.user)
    )
    if isinstance(answer, Problem):
        form.add_problem(answer)
        return _show_edit(request, row, form, given, status=answer.status)
    messages.success(request, f"{answer.name} was changed. Send it a test event.")
    return redirect("receivers")


@require_POST
@require(Permission.MANAGE_OUTWARD)
def test(request: HttpRequest, receiver_id: UUID) -> HttpResponse:
    """Send a test event now."""
    answer = receivers.test(
        tenant=tenant_of(request.user), receiver_id=receiver_id, actor=actor_of(request.user)
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("receivers"))
    if answer:
        messages.error(request, f"The test event was not taken: {answer}.")
    else:
        messages.success(request, "The test event was taken.")
    return redirect("receivers")


@require_POST
@require(Permission.MANAGE_OUTWARD)
def pause(request: HttpRequest, receiver_id: UUID) -> HttpResponse:
    """Send it nothing more."""
    return _act(request, receiver_id, ReasonForm(request.POST), receivers.pause, "{name} is paused.")


@require_POST
@require(Permission.MANAGE_OUTWARD)
def resume(request: HttpRequest, receiver_id: UUID) -> HttpResponse:
    """Send it everything from its position on."""
    return _act(request, receiver_id, ReasonForm(request.POST), receivers.resume, "{name} is active.")


@require_POST
@require(Permission.MANAGE_OUTWARD)
def move(request: HttpRequest, receiver_id: UUID) -> HttpResponse:
    """Move its position."""
    said = "{name} gets events from leaf {leaf} on."
    return _act(request, receiver_id, MoveForm(request.POST), receivers.move, said)


def _act(
    request: HttpRequest,
    receiver_id: UUID,
    form: ActionForm,
    work: Callable[..., Receiver | Problem],
    done: str,
) -> HttpResponse:
    back = reverse("receivers")
    if not form.is_valid():
        return error_page.invalid(request, form, back=back)
    answer = work(
        tenant=tenant_of(request.user),
        receiver_id=receiver_id,
        actor=actor_of(request.user),
        **form.cleaned_data,
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=back)
    messages.success(request, done.format(name=answer.name, leaf=answer.next_leaf))
    return redirect("receivers")


def _show(
    request: HttpRequest, form: ReceiverForm, given: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    shown = receiver_list.list_receivers(tenant=tenant_of(request.user))
    context = {
        "rows": [_shown(one) for one in shown],
        "may_manage": may(request.user, Permission.MANAGE_OUTWARD),
        **_choices(form, given),
    }
    return render(request, "runtime/receivers.html", context, status=status)


def _show_edit(
    request: HttpRequest, row: Receiver, form: ReceiverForm, given: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    context = {"row": row, **_choices(form, given)}
    context["ways"] = [way for way in ways() if way[0].startswith(f"{row.kind} ")]
    return render(request, "runtime/receiver.html", context, status=status)


def _choices(form: ReceiverForm, given: dict[str, Any]) -> dict[str, Any]:
    """What `_receiver_form.html` offers."""
    return {
        "form": form,
        "held": given,
        "ways": ways(),
        "kinds": sorted(kind.value for kind in Kind),
        "begin_now": NOW,
        "begin_at_first": BEGINNING,
    }


def _shown(one: ReceiverShown) -> dict[str, Any]:
    row = one.row
    is_paused = row.state == ReceiverState.PAUSED
    return {
        "row": row,
        "behind": one.behind,
        "state": _PAUSED if is_paused else _FAILING if row.tries else _ACTIVE,
        "why": labels.visible_lines(row.paused_why or row.error),
        "is_paused": is_paused,
        "switch_url": reverse("resume-receiver" if is_paused else "pause-receiver", args=[row.pk]),
        "next_try": None if is_paused or not row.tries else row.next_at,
    }
