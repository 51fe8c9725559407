"""Admin actions on an agent: register, edit, change status, issue and revoke keys, bind tokens."""

from collections.abc import Callable

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from audit.access.permissions import actor_of, require, tenant_of
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentRole, AgentStatus
from runtime.core.views import error_page, labels, query_params
from runtime.registry.models import Agent, OwnerChange
from runtime.registry.queries import agent_list, people
from runtime.registry.services import agents, credentials, ownership, registration
from runtime.registry.views import agent_forms, agent_lookup


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.MANAGE_REGISTRY)
def register(request: HttpRequest) -> HttpResponse:
    """Show an empty form; on POST, register an agent without permissions."""
    if request.method != "POST":
        return _show(request, agent_forms.RegistrationForm(), agent=None)
    form = agent_forms.RegistrationForm(request.POST)
    if not form.is_valid():
        return _show(request, form, agent=None, status=422)
    answer = registration.register(
        tenant=tenant_of(request.user),
        agent_id=form.cleaned_data["agent_id"],
        role=form.cleaned_data["role"],
        profile=form.profile(),
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        form.add_problem(answer)
        return _show(request, form, agent=None, status=answer.status)
    messages.success(
        request, f"{answer.agent_id} is registered. Draft a manifest: without one it cannot propose anything."
    )
    return redirect("agent", answer.agent_id)


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.MANAGE_REGISTRY)
def edit(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show owner, mission and review date; on POST, change them."""
    agent = agent_lookup.get_or_404(request, agent_id)
    if request.method != "POST":
        return _show(request, agent_forms.EditForm.of(agent), agent=agent)
    form = agent_forms.EditForm(request.POST)
    if not form.is_valid():
        return _show(request, form, agent=agent, status=422)
    wanted = form.profile()
    answer = registration.edit(
        tenant=agent.tenant,
        agent_id=agent_id,
        seen=form.seen(),
        wanted=wanted,
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        form.add_problem(answer)
        return _show(request, form, agent=agent, status=answer.status)
    if answer.owner == wanted.owner:
        messages.success(request, f"{agent_id} is updated.")
    else:
        messages.info(request, f"{wanted.owner} becomes the owner once another admin approves.")
    return redirect("agent", agent_id)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def agree_to_owner(request: HttpRequest, agent_id: str, change: int) -> HttpResponse:
    """Approve the change of owner that another admin requested."""
    return _end_owner_change(
        request, agent_id, change, ownership.agree, lambda made: f"{made.owner_after} now owns {agent_id}."
    )


@require_POST
@require(Permission.MANAGE_REGISTRY)
def drop_owner(request: HttpRequest, agent_id: str, change: int) -> HttpResponse:
    """Reject the requested change of owner."""
    return _end_owner_change(
        request,
        agent_id,
        change,
        ownership.drop,
        lambda dropped: f"{dropped.owner_before} remains the owner of {agent_id}.",
    )


def _end_owner_change(
    request: HttpRequest,
    agent_id: str,
    change: int,
    end: Callable[..., OwnerChange | Problem],
    words: Callable[[OwnerChange], str],
) -> HttpResponse:
    agent = agent_lookup.get_or_404(request, agent_id)
    answer = end(tenant=agent.tenant, agent_id=agent_id, change_pk=change, actor=actor_of(request.user))
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("agent", args=[agent_id]))
    messages.success(request, words(answer))
    return redirect("agent", agent_id)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def move(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Change the status, as the transition table allows; retiring is permanent, so it requires the id."""
    agent = agent_lookup.get_or_404(request, agent_id)
    back = reverse("agent", args=[agent_id])
    form = agent_forms.StatusForm(request.POST, agent_id=agent_id)
    if not form.is_valid():
        return error_page.invalid(request, form, back=back)
    answer = agents.set_status(
        tenant=agent.tenant,
        agent_id=agent_id,
        status=AgentStatus(form.cleaned_data["status"]),
        reason=form.cleaned_data["reason"],
        actor=actor_of(request.user),
        seen=AgentStatus(form.cleaned_data["seen"]),
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=back)
    word = labels.AGENT_STATUSES[
        AgentStatus(answer.status)
    ].word  # a partially executed flow may keep it locked
    messages.success(request, f"{agent_id} is now {word.lower()}.")
    return redirect(back)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def issue_key(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Issue a key, shown in this response only: it is neither stored nor kept in the session."""
    agent = agent_lookup.get_or_404(request, agent_id)
    answer = credentials.issue_agent_key(
        tenant=agent.tenant,
        agent_id=agent_id,
        actor=actor_of(request.user),
        environment=query_params.text(request.POST.get("environment", "")).strip(),
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("agent", args=[agent_id]))
    return render(request, "runtime/agent_key.html", {"agent": agent, "key": answer})


@require_POST
@require(Permission.MANAGE_REGISTRY)
def bind_token(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Let tokens of a trusted issuer for one subject open sessions of this agent."""
    agent = agent_lookup.get_or_404(request, agent_id)
    given = {
        name: query_params.text(request.POST.get(name, "")).strip()
        for name in ("issuer", "subject", "environment")
    }
    answer = credentials.bind_token(
        tenant=agent.tenant, agent_id=agent_id, actor=actor_of(request.user), **given
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("agent", args=[agent_id]))
    messages.success(request, f"Tokens for {answer.subject} now open sessions of {agent_id}.")
    return redirect("agent", agent_id)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def revoke_key(request: HttpRequest, agent_id: str, key_id: str) -> HttpResponse:
    """Revoke a key of this agent and end its sessions."""
    agent = agent_lookup.get_or_404(request, agent_id)
    if not agent_list.has_key(agent=agent, key_id=key_id):
        raise Http404
    answer = credentials.revoke_key(key_id=key_id, actor=actor_of(request.user))
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("agent", args=[agent_id]))
    messages.success(request, f"{key_id} is revoked. Its sessions have ended.")
    return redirect("agent", agent_id)


def _show(
    request: HttpRequest, form: agent_forms.ProfileForm, *, agent: Agent | None, status: int = 200
) -> HttpResponse:
    users, groups = people.list_owners()
    owner = form["owner"].value() or ""
    context = {
        "agent": agent,
        "form": form,
        "owner": owner,
        "roles": AgentRole.values(),
        "users": users,
        "groups": groups,
        "is_known": not owner or owner in users or owner in groups,
    }
    return render(request, "runtime/agent_form.html", context, status=status)
