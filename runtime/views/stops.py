"""The kill switches: everything, or one agent. Operators may stop; seniors and admins may resume too."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from audit.permissions import Role, require, signed_in, tenant_of
from runtime.contracts.problem import Problem
from runtime.models import Agent
from runtime.queries.pages import agents
from runtime.services import stops
from runtime.views import reading

LONGEST = 500


@require_POST
@require(Role.OPERATOR, Role.SENIOR, Role.ADMIN)
def stop_all(request: HttpRequest) -> HttpResponse:
    """Stop everything of the tenant."""
    if (reason := _reason(request)) is None:
        return _no_reason(request)
    stops.stop_all(tenant=tenant_of(request.user), actor=_actor(request), reason=reason)
    return redirect(_back(request))


@require_safe
@signed_in
def state(request: HttpRequest) -> HttpResponse:
    """The banner of a stop in force, for pages that are open; empty otherwise."""
    # The form in the banner leads back to the page around it, not to this fragment.
    page_path = reading.page_path(request.headers.get("HX-Current-URL", "/"))
    return render(request, "components/stop_banner.html", {"page_path": page_path})


@require_POST
@require(Role.SENIOR, Role.ADMIN)
def resume_all(request: HttpRequest) -> HttpResponse:
    """Lift the stop of the tenant."""
    stops.resume_all(tenant=tenant_of(request.user), actor=_actor(request))
    return _done(request, "Everything runs again.")


@require_POST
@require(Role.OPERATOR, Role.SENIOR, Role.ADMIN)
def stop_agent(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Stop one agent."""
    if agents.get_agent(tenant=tenant_of(request.user), agent_id=agent_id) is None:
        raise Http404
    if (reason := _reason(request)) is None:
        return _no_reason(request)
    answer = stops.stop_agent(
        tenant=tenant_of(request.user), agent_id=agent_id, actor=_actor(request), reason=reason
    )
    return _answer(request, answer, f"{agent_id} is stopped.")


@require_POST
@require(Role.SENIOR, Role.ADMIN)
def resume_agent(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Let one agent run again."""
    if agents.get_agent(tenant=tenant_of(request.user), agent_id=agent_id) is None:
        raise Http404
    answer = stops.resume_agent(tenant=tenant_of(request.user), agent_id=agent_id, actor=_actor(request))
    return _answer(request, answer, f"{agent_id} runs again.")


def _actor(request: HttpRequest) -> str:
    return f"user:{request.user.pk}"


def _reason(request: HttpRequest) -> str | None:
    reason = request.POST.get("reason", "").strip()
    return reason if 0 < len(reason) <= LONGEST else None


def _no_reason(request: HttpRequest) -> HttpResponse:
    detail = f"Give a reason of at most {LONGEST} characters. It is kept in the ledger. Nothing was changed."
    return _refused(request, status=400, title="A reason is needed", detail=detail)


def _answer(request: HttpRequest, answer: Agent | Problem, done: str) -> HttpResponse:
    if isinstance(answer, Problem):
        return _refused(request, status=answer.status, title="Nothing was changed", detail=answer.detail)
    return _done(request, done)


def _done(request: HttpRequest, words: str) -> HttpResponse:
    messages.success(request, words)
    return redirect(_back(request))


def _refused(request: HttpRequest, *, status: int, title: str, detail: str) -> HttpResponse:
    context = {
        "status": status,
        "title": title,
        "detail": detail,
        "href": _back(request),
        "action": "Go back",
    }
    return render(request, "error.html", context, status=status)


def _back(request: HttpRequest) -> str:
    """The page the form was on, if it is one of ours; never an address of someone else."""
    target = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(target, allowed_hosts=None) and target.startswith("/")
    return target if safe else "/"
