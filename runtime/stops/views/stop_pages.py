"""The kill switches: everything, or one agent. Operators can stop; seniors and admins can also resume."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, require, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.core.views import error_page, forms, query_params
from runtime.flows.queries import due_intents
from runtime.registry.models import Agent
from runtime.registry.views import agent_lookup
from runtime.stops.queries import stop_list
from runtime.stops.services import stops

NAMED = 20


@require_POST
@require(Permission.STOP)
def stop_all(request: HttpRequest) -> HttpResponse:
    """Stop everything of the tenant."""
    form = forms.ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=_back(request))
    tenant = tenant_of(request.user)
    stops.stop_all(tenant=tenant, actor=actor_of(request.user), reason=form.cleaned_data["reason"])
    _name_calls(request, due_intents.list_under_way(tenant=tenant, limit=NAMED))
    return redirect(_back(request))


@require_safe
@signed_in
def state(request: HttpRequest) -> HttpResponse:
    """Return the banner of an active stop, for live updates; empty otherwise."""
    # The form in the banner leads back to the page around it, not to this fragment.
    page_path = query_params.page_path(request.headers.get("HX-Current-URL", ""))
    return render(request, "components/stop_banner.html", {"page_path": page_path})


@require_POST
@require(Permission.RESUME)
def resume_all(request: HttpRequest) -> HttpResponse:
    """Resume everything of the tenant."""
    form = forms.ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=_back(request))
    tenant = tenant_of(request.user)
    # Counted before: once resumed, they are called.
    waiting = stop_list.count_waiting(tenant=tenant)
    stops.resume_all(tenant=tenant, actor=actor_of(request.user), reason=form.cleaned_data["reason"])
    return _done(request, f"Everything is resumed. Intents that waited: {waiting}.")


@require_POST
@require(Permission.STOP)
def stop_agent(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Stop one agent."""
    agent_lookup.get_or_404(request, agent_id)
    form = forms.ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=_back(request))
    answer = stops.stop_agent(
        tenant=tenant_of(request.user),
        agent_id=agent_id,
        actor=actor_of(request.user),
        reason=form.cleaned_data["reason"],
    )
    if isinstance(answer, Agent):
        begun = due_intents.list_under_way(tenant=answer.tenant, agent_pk=answer.pk, limit=NAMED)
        _name_calls(request, begun)
    return _answer(request, answer, f"{agent_id} is stopped.")


@require_POST
@require(Permission.RESUME)
def resume_agent(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Resume one agent."""
    agent_lookup.get_or_404(request, agent_id)
    form = forms.ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=_back(request))
    answer = stops.resume_agent(
        tenant=tenant_of(request.user),
        agent_id=agent_id,
        actor=actor_of(request.user),
        reason=form.cleaned_data["reason"],
    )
    return _answer(request, answer, f"{agent_id} is resumed.")


def _name_calls(request: HttpRequest, begun: list[UUID]) -> None:
    """Name the calls that had started before the stop: their targets have the requests."""
    if begun:
        ids = ", ".join(str(intent_id) for intent_id in begun)
        words = "No further calls start. These had already started, and their outcomes are still recorded"
        messages.warning(request, f"{words}: intent {ids}.")


def _answer(request: HttpRequest, answer: Agent | Problem, done: str) -> HttpResponse:
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=_back(request))
    return _done(request, done)


def _done(request: HttpRequest, words: str) -> HttpResponse:
    messages.success(request, words)
    return redirect(_back(request))


def _back(request: HttpRequest) -> str:
    """Return the page the form was on, if it is on this host; never an external URL."""
    target = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(target, allowed_hosts=None) and target.startswith("/")
    return target if safe else reverse("overview")
