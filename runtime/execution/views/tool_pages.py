"""Tools: MCP servers, what they say of their tools, and what was pinned. No request speaks to a server."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms as django_forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import ToolState
from runtime.core import mismatches
from runtime.core.views import error_page, forms, labels
from runtime.kernel import tool_drafts
from runtime.registry.models import PolicyKind
from runtime.registry.models.tools import ToolServer, UpstreamTool
from runtime.registry.queries import kind_versions, people, target_endpoints, tool_pins
from runtime.registry.queries.target_endpoints import COMMAND
from runtime.registry.services import tools

_MEMBERS: Mapping[str, str] = {
    "description": "Description",
    "input_schema": "Input schema",
    "output_schema": "Output schema",
    "annotations": "Annotations",
}


class PinForm(forms.ReasonForm):
    """Why a person pins a tool, and what they looked at."""

    name = django_forms.CharField(max_length=128)
    shown = django_forms.RegexField(r"\A[0-9a-f]{64}\Z", max_length=64)


class SwitchForm(forms.ReasonForm):
    """Why a person switches a server, and which way."""

    enabled = django_forms.ChoiceField(choices=(("yes", "on"), ("no", "off")))


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member of a description: as it is pinned, and as the server says now where that is otherwise."""

    label: str
    pinned: str
    found: str
    differs: bool


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List the MCP servers and the tools that were seen."""
    tenant = tenant_of(request.user)
    kept = tool_pins.list_servers(tenant=tenant)
    rows = tool_pins.list_tools(tenant=tenant)
    recorded = {
        name: tool_pins.recorded_server(tenant=tenant, server=name)
        for name in {*kept, *(row.server for row in rows)}
    }
    places = target_endpoints.list_servers(tenant=tenant)
    context = {
        "servers": [
            _server(name, place.base_url, kept.get(name), rows) for name, place in sorted(places.items())
        ],
        "tools": [
            {
                "row": row,
                "url": _url_of(row.server, row.name),
                "state": labels.badge(labels.TOOL_STATES, row.state),
                "is_untrusted": tool_pins.compare_tool(row, recorded[row.server].tools.get(row.name))
                is not None,
                "is_gone": row.server not in places,
            }
            for row in rows
        ],
        "every_s": settings.DIR_TOOL_CHECK_S,
        "may_manage": may(request.user, Permission.MANAGE_REGISTRY),
    }
    swapped = "HX-Request" in request.headers
    return render(request, "runtime/_tools.html" if swapped else "runtime/tools.html", context)


@require_safe
@signed_in
def detail(request: HttpRequest, server: str) -> HttpResponse:
    """Show one tool (`?name=`): what is pinned of it, beside what its server says now."""
    tenant = tenant_of(request.user)
    row = tool_pins.get_tool(tenant=tenant, server=server, name=request.GET.get("name", ""))
    if row is None:
        raise Http404
    recorded = tool_pins.recorded_server(tenant=tenant, server=server)
    mismatches.require(tool_pins.compare_tool(row, recorded.tools.get(row.name)))
    kind = tool_drafts.kind_name(server, row.name)
    names = people.names_of([row.changed_by])
    state = ToolState(row.state)
    context = {
        "row": row,
        "state": labels.badge(labels.TOOL_STATES, state),
        "by": labels.actor_words(row.changed_by, names),
        "members": list(_members(row)),
        "is_compared": state is ToolState.CHANGED,
        "is_offered": state in (ToolState.FOUND, ToolState.CHANGED),
        "is_vanished": state is ToolState.VANISHED,
        "is_off": not recorded.enabled,
        "kind": kind if kind_versions.list_version_names(tenant=tenant, kind=kind) else "",
        "may_manage": may(request.user, Permission.MANAGE_REGISTRY),
    }
    return render(request, "runtime/tool.html", context)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def pin(request: HttpRequest, server: str) -> HttpResponse:
    """Pin a tool as it was shown; the first time, a draft of a policy kind comes of it."""
    form = PinForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=reverse("tools"))
    name = form.cleaned_data["name"]
    back = _url_of(server, name)
    answer = tools.pin(
        tenant=tenant_of(request.user),
        server=server,
        name=name,
        shown=form.cleaned_data["shown"],
        reason=form.cleaned_data["reason"],
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        missing = answer.code is ProblemCode.NOT_FOUND
        return error_page.page(request, answer, back=reverse("tools") if missing else back)
    messages.success(request, f"{name} of {server} is pinned as it was shown.")
    if isinstance(answer.draft, PolicyKind):
        messages.success(
            request, f"{answer.draft.kind} {answer.draft.version} is drafted. It can be activated now."
        )
    elif isinstance(answer.draft, Problem):
        wrong = "; ".join(f"{item.pointer}: {item.message}" for item in answer.draft.violations)
        messages.error(request, f"No policy kind could be drafted of it: {wrong or answer.draft.detail}.")
    return redirect(back)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def look(request: HttpRequest, server: str) -> HttpResponse:
    """Let a worker look at a server as soon as it can."""
    _require_server(request, server)
    tools.ask_look(tenant=tenant_of(request.user), server=server)
    messages.success(request, f"The tools of {server} are listed again within a few seconds.")
    return redirect("tools")


@require_POST
@require(Permission.MANAGE_REGISTRY)
def switch(request: HttpRequest, server: str) -> HttpResponse:
    """Switch a server off, so that nothing of it is called, or on."""
    _require_server(request, server)
    form = SwitchForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=reverse("tools"))
    enabled = form.cleaned_data["enabled"] == "yes"
    answer = tools.switch(
        tenant=tenant_of(request.user),
        server=server,
        enabled=enabled,
        reason=form.cleaned_data["reason"],
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("tools"))
    words = "on" if enabled else "off. None of its tools is called"
    messages.success(request, f"{server} is switched {words}.")
    return redirect("tools")


def _require_server(request: HttpRequest, server: str) -> None:
    """404 for a name that is no server: nothing is kept of it."""
    if server not in target_endpoints.list_servers(tenant=tenant_of(request.user)):
        raise Http404


def _url_of(server: str, name: str) -> str:
    return f"{reverse('tool', args=(server,))}?{urlencode({'name': name})}"


def _server(name: str, base_url: str, kept: ToolServer | None, rows: Any) -> dict[str, Any]:
    """A server as the table shows it. Of a command its words are shown, and never what its variables hold."""
    command = settings.DIR_TOOL_COMMANDS.get(name) if base_url.startswith(COMMAND) else None
    states = [ToolState(row.state) for row in rows if row.server == name and row.state in ToolState.values()]
    return {
        "name": name,
        "address": base_url if command is None else " ".join(command.words),
        "is_command": command is not None,
        "enabled": kept is None or kept.enabled,
        "checked_at": None if kept is None else kept.checked_at,
        "trouble": "" if kept is None else kept.trouble,
        "pinned": states.count(ToolState.PINNED),
        "found": states.count(ToolState.FOUND),
        "quarantined": states.count(ToolState.CHANGED) + states.count(ToolState.VANISHED),
    }


def _members(row: UpstreamTool) -> Iterator[MemberView]:
    pinned, found = tool_pins.definition_of(row.pinned), tool_pins.definition_of(row.found)
    for name, label in _MEMBERS.items():
        before, now = (None if tool is None else getattr(tool, name) for tool in (pinned, found))
        yield MemberView(label=label, pinned=_text(before), found=_text(now), differs=before != now)


def _text(value: object) -> str:
    """A claim as a person reads it: what cannot be seen in it is written out."""
    if not value:
        return ""
    return labels.visible_lines(value) if isinstance(value, str) else labels.pretty(value)
