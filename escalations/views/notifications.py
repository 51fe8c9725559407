"""Notification routes: who is told of what outside the console. Admins manage them."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from escalations import notice_presenters, notice_queries
from escalations.models import NotificationRoute
from escalations.notification_forms import LONGEST_AUDIENCE, LONGEST_GROUP, RouteForm
from escalations.services.notices import routes
from runtime.contracts.incident import Severity
from runtime.contracts.problem import Problem
from runtime.contracts.states import Impact
from runtime.core.views import error_page, labels


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def index(request: HttpRequest) -> HttpResponseBase:
    """List the routes with their last delivery, and the newest notices; on POST, add a route."""
    return _add(request) if request.method == "POST" else _show(request, None)


@require(Permission.MANAGE_NOTIFICATIONS)
def _add(request: HttpRequest) -> HttpResponseBase:
    """Add a route; the answer shows the signing secret of a webhook, which is never shown again."""
    form = _form(request)
    if not form.is_valid():
        return _show(request, form, status=422)
    answer = routes.add(tenant=tenant_of(request.user), request=form.request(), actor=actor_of(request.user))
    if isinstance(answer, Problem):
        form.add_problem(answer)
        return _show(request, form, status=answer.status)
    return _saved(request, answer, "added")


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.MANAGE_NOTIFICATIONS)
def edit(request: HttpRequest, route_id: UUID) -> HttpResponse:
    """Show what was chosen for a route; on POST, change it. Without a URL it keeps its address."""
    tenant = tenant_of(request.user)
    route = notice_queries.get_route(tenant=tenant, route_id=route_id)
    if route is None:
        raise Http404
    form = _form(request, route)
    if request.method != "POST":
        return _show_edit(request, route, form)
    if not form.is_valid():
        return _show_edit(request, route, form, status=422)
    answer = routes.change(
        tenant=tenant, route_id=route_id, request=form.request(), actor=actor_of(request.user)
    )
    if isinstance(answer, Problem):
        form.add_problem(answer)
        return _show_edit(request, route, form, status=answer.status)
    return _saved(request, answer, "changed")


def _saved(request: HttpRequest, saved: routes.SavedRoute, done: str) -> HttpResponse:
    if not saved.secret:
        messages.success(request, f"{saved.route.name} was {done}. Send it a test notice.")
        return redirect("notifications")
    context = {
        "route": saved.route,
        "secret": saved.secret,
        "where": notice_presenters.masked(saved.route),
        "done": done,
    }
    shown = render(request, "escalations/route_secret.html", context)
    shown["Cache-Control"] = "no-store"
    return shown


@require_POST
@require(Permission.MANAGE_NOTIFICATIONS)
def enable(request: HttpRequest, route_id: UUID) -> HttpResponse:
    """Switch a route on; what happened while it was off is not announced."""
    return _switch(request, route_id, enabled=True)


@require_POST
@require(Permission.MANAGE_NOTIFICATIONS)
def disable(request: HttpRequest, route_id: UUID) -> HttpResponse:
    """Switch a route off; what waits for it is dropped."""
    return _switch(request, route_id, enabled=False)


@require_POST
@require(Permission.MANAGE_NOTIFICATIONS)
def delete(request: HttpRequest, route_id: UUID) -> HttpResponse:
    """Delete a route and its address."""
    answer = routes.delete(tenant=tenant_of(request.user), route_id=route_id, actor=actor_of(request.user))
    return _answered(request, answer, "{name} was deleted.")


@require_POST
@require(Permission.MANAGE_NOTIFICATIONS)
def test(request: HttpRequest, route_id: UUID) -> HttpResponse:
    """Queue a test notice."""
    answer = routes.test(tenant=tenant_of(request.user), route_id=route_id, actor=actor_of(request.user))
    return _answered(request, answer, "A test notice for {name} was queued. Its result is in the list below.")


def _switch(request: HttpRequest, route_id: UUID, *, enabled: bool) -> HttpResponse:
    answer = routes.switch(
        tenant=tenant_of(request.user), route_id=route_id, enabled=enabled, actor=actor_of(request.user)
    )
    return _answered(request, answer, "{name} is switched on." if enabled else "{name} is switched off.")


def _answered(request: HttpRequest, answer: NotificationRoute | Problem, done: str) -> HttpResponse:
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("notifications"))
    messages.success(request, done.format(name=answer.name))
    return redirect("notifications")


def _form(request: HttpRequest, route: NotificationRoute | None = None) -> RouteForm:
    tenant = tenant_of(request.user)
    agents, kinds = notice_queries.list_agent_ids(tenant=tenant), notice_queries.list_kinds(tenant=tenant)
    if route is not None:
        # What was chosen stays a choice, also when it is no longer among those that are listed.
        agents = [*agents, *({route.agent_id} - {"", *agents})]
        kinds = [*kinds, *({route.policy_kind} - {"", *kinds})]
    data = request.POST if request.method == "POST" else None
    return RouteForm(data, agents=agents, kinds=kinds, route=route)


def _show_edit(
    request: HttpRequest, route: NotificationRoute, form: RouteForm, *, status: int = 200
) -> HttpResponse:
    context = {"route": route, "where": notice_presenters.masked(route), **_choices(form)}
    return render(request, "escalations/route.html", context, status=status)


def _choices(form: RouteForm) -> dict[str, Any]:
    """What `_route_form.html` offers."""
    return {
        "form": form,
        "occasions": notice_presenters.OCCASIONS.items(),
        "incident_occasions": notice_presenters.INCIDENT_OCCASIONS.items(),
        "task_occasions": notice_presenters.TASK_OCCASIONS.items(),
        "severities": [(value, notice_presenters.severity_words(value)) for value in Severity.values()],
        "families": notice_presenters.FAMILIES.items(),
        "impacts": [(value, labels.badge(labels.IMPACTS, value).word) for value in Impact.values()],
        "longest_name": routes.LONGEST_NAME,
        "longest_audience": LONGEST_AUDIENCE,
        "longest_group": LONGEST_GROUP,
    }


def _show(request: HttpRequest, form: RouteForm | None, *, status: int = 200) -> HttpResponse:
    tenant = tenant_of(request.user)
    may_manage = may(request.user, Permission.MANAGE_NOTIFICATIONS)
    context = {
        "routes": notice_presenters.routes(notice_queries.list_routes(tenant=tenant)),
        "notices": notice_presenters.notices(notice_queries.list_newest(tenant=tenant)),
        "may_manage": may_manage,
        "has_public_url": bool(settings.DIR_PUBLIC_URL),
    }
    if "HX-Request" in request.headers:
        return render(request, "escalations/_notification_lists.html", context)
    if may_manage:
        context |= _choices(form or _form(request))
    return render(request, "escalations/notifications.html", context, status=status)
