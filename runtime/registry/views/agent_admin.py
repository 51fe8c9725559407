"""Admin actions on an agent: register, edit, change status, issue and revoke keys."""

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from audit.access.permissions import actor_of, require, tenant_of
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentRole, AgentStatus
from runtime.core.views import error_page, labels
from runtime.registry.models import Agent, OwnerChange
from runtime.registry.queries import agent_list, people
from runtime.registry.services import agents, credentials, ownership, registration
from runtime.registry.views import agent_lookup

LONGEST_REASON = 200
_UNREADABLE_DATE = "Enter the date as YYYY-MM-DD, or leave it empty."
_ERRORS = {"agent_id": "", "role": "", "owner": "", "mission": "", "review_on": ""}


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.MANAGE_REGISTRY)
def register(request: HttpRequest) -> HttpResponse:
    """Show an empty form; on POST, register an agent without permissions."""
    if request.method != "POST":
        return _form(request, given={"role": AgentRole.EXECUTOR.value}, errors={}, agent=None)
    given = _given(request)
    review_on = _date(given["review_on"])
    if isinstance(review_on, str):
        return _form(request, given=given, errors={"review_on": review_on}, agent=None, status=422)
    answer = registration.register(
        tenant=tenant_of(request.user),
        agent_id=given["agent_id"],
        role=given["role"],
        profile=registration.Profile(owner=given["owner"], mission=given["mission"], review_on=review_on),
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        return _again(request, answer, given, agent=None)
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
        review = "" if agent.review_on is None else agent.review_on.isoformat()
        stored = {"owner": agent.owner, "mission": agent.mission, "review_on": review}
        stored |= {f"seen_{name}": value for name, value in stored.items()}
        return _form(request, given=stored, errors={}, agent=agent)
    given = _given(request)
    review_on, seen_review = _date(given["review_on"]), _date(given["seen_review_on"])
    if isinstance(review_on, str) or isinstance(seen_review, str):
        return _form(request, given=given, errors={"review_on": _UNREADABLE_DATE}, agent=agent, status=422)
    answer = registration.edit(
        tenant=agent.tenant,
        agent_id=agent_id,
        seen=registration.Profile(
            owner=given["seen_owner"], mission=given["seen_mission"], review_on=seen_review
        ),
        wanted=registration.Profile(owner=given["owner"], mission=given["mission"], review_on=review_on),
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        return _again(request, answer, given, agent=agent)
    if answer.owner == given["owner"]:
        messages.success(request, f"{agent_id} is updated.")
    else:
        messages.info(request, f"{given['owner']} becomes the owner once another admin approves.")
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
    asked = _asked_move(request, agent_id)
    if isinstance(asked, Problem):
        return error_page.page(request, asked, back=back)
    seen, status, reason = asked
    answer = agents.set_status(
        tenant=agent.tenant,
        agent_id=agent_id,
        status=status,
        reason=reason,
        actor=actor_of(request.user),
        seen=seen,
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
    answer = credentials.issue_agent_key(tenant=agent.tenant, agent_id=agent_id, actor=actor_of(request.user))
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("agent", args=[agent_id]))
    return render(request, "runtime/agent_key.html", {"agent": agent, "key": answer})


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


def _asked_move(request: HttpRequest, agent_id: str) -> tuple[AgentStatus, AgentStatus, str] | Problem:
    """Return the status that was shown, the requested one, and the reason."""
    given = {name: request.POST.get(name, "").strip() for name in ("seen", "status", "reason", "typed_id")}
    if not {given["seen"], given["status"]} <= set(AgentStatus.values()):
        said = "Choose one of the statuses listed on the page."
        return Problem(code=ProblemCode.STATUS_UNKNOWN, detail=said)
    if not 0 < len(given["reason"]) <= LONGEST_REASON or "\x00" in given["reason"]:
        said = f"Enter a reason of at most {LONGEST_REASON} characters. It is recorded in the ledger."
        return Problem(code=ProblemCode.REASON_MISSING, detail=said)
    if given["status"] == AgentStatus.RETIRED and given["typed_id"] != agent_id:
        said = "Retiring is permanent. Type the exact agent ID to confirm."
        return Problem(code=ProblemCode.ID_NOT_TYPED, detail=said)
    return AgentStatus(given["seen"]), AgentStatus(given["status"]), given["reason"]


def _given(request: HttpRequest) -> dict[str, str]:
    # A browser sends the lines of a text area with CRLF, whatever they were.
    names = (*_ERRORS, "seen_owner", "seen_mission", "seen_review_on")
    return {name: request.POST.get(name, "").replace("\r\n", "\n").strip() for name in names}


def _date(text: str) -> date | str | None:
    """Return the date, None for no text, or an error message."""
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return _UNREADABLE_DATE


def _again(
    request: HttpRequest, problem: Problem, given: Mapping[str, str], *, agent: Agent | None
) -> HttpResponse:
    errors = {violation.pointer: violation.message for violation in problem.violations}
    summary = "" if errors else problem.detail
    return _form(request, given=given, errors=errors, agent=agent, status=problem.status, summary=summary)


def _form(
    request: HttpRequest,
    *,
    given: Mapping[str, str],
    errors: Mapping[str, str],
    agent: Agent | None,
    status: int = 200,
    summary: str = "",
) -> HttpResponse:
    users, groups = people.list_owners()
    owner = given.get("owner", "")
    context: dict[str, Any] = {
        "agent": agent,
        "given": given,
        "errors": {**_ERRORS, **errors},
        "summary": summary,
        "roles": AgentRole.values(),
        "users": users,
        "groups": groups,
        "is_known": not owner or owner in users or owner in groups,
    }
    return render(request, "runtime/agent_form.html", context, status=status)
