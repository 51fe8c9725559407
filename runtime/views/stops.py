"""The kill switches: everything, or one agent. Stopping is for operators too; resuming is for seniors and admins."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from audit.permissions import Role, require, tenant_of
from runtime.queries.pages import agents
from runtime.services import stops

LONGEST = 500


@require_POST
@require(Role.OPERATOR, Role.SENIOR, Role.ADMIN)
def stop_all(request: HttpRequest) -> HttpResponse:
    """Stop everything of the tenant."""
    return _act(
        request,
        lambda reason, actor: stops.stop_all(tenant=tenant_of(request.user), actor=actor, reason=reason),
        done="Everything is stopped.",
    )


@require_POST
@require(Role.SENIOR, Role.ADMIN)
def resume_all(request: HttpRequest) -> HttpResponse:
    """Lift the stop of the tenant."""
    return _act(
        request,
        lambda reason, actor: stops.resume_all(tenant=tenant_of(request.user), actor=actor, reason=reason),
        done="Everything runs again.",
    )


@require_POST
@require(Role.OPERATOR, Role.SENIOR, Role.ADMIN)
def stop_agent(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Stop one agent."""
    if (missing := _missing(request, agent_id)) is not None:
        return missing
    return _act(
        request,
        lambda reason, actor: stops.stop_agent(
            tenant=tenant_of(request.user), agent_id=agent_id, actor=actor, reason=reason
        ),
        done=f"{agent_id} is stopped.",
    )


@require_POST
@require(Role.SENIOR, Role.ADMIN)
def resume_agent(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Let one agent run again."""
    if (missing := _missing(request, agent_id)) is not None:
        return missing
    return _act(
        request,
        lambda reason, actor: stops.resume_agent(
            tenant=tenant_of(request.user), agent_id=agent_id, actor=actor, reason=reason
        ),
        done=f"{agent_id} runs again.",
    )


def _missing(request: HttpRequest, agent_id: str) -> HttpResponse | None:
    if agents.get_agent(tenant=tenant_of(request.user), agent_id=agent_id) is not None:
        return None
    return _refused(request, status=404, title="No such agent", detail=f"No agent is named {agent_id}.")


def _act(request: HttpRequest, act: Callable[[str, str], object], *, done: str) -> HttpResponse:
    reason = request.POST.get("reason", "").strip()
    if not reason or len(reason) > LONGEST:
        detail = "Give a reason of at most 500 characters. It is kept in the ledger. Nothing was changed."
        return _refused(request, status=400, title="A reason is needed", detail=detail)
    act(reason, f"user:{request.user.pk}")
    messages.success(request, done)
    return redirect(_back(request))


def _refused(request: HttpRequest, *, status: int, title: str, detail: str) -> HttpResponse:
    context = {"status": status, "title": title, "detail": detail, "href": _back(request), "action": "Go back"}
    return render(request, "error.html", context, status=status)


def _back(request: HttpRequest) -> str:
    """The page the form was on, if it is one of ours; never an address of someone else."""
    target = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(target, allowed_hosts=None) and target.startswith("/")
    return target if safe else "/"
