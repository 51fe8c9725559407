"""Capabilities as a page: who offers what, how it does, and what a person decides about it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from audit.live.topics import Topic
from runtime.contracts.message_payloads import HealthStatus
from runtime.contracts.problem import Problem
from runtime.conversations.models import Capability
from runtime.conversations.queries import capability_list
from runtime.conversations.services import capabilities
from runtime.core import clock
from runtime.core.views import error_page, labels
from runtime.core.views.forms import ReasonForm
from runtime.core.views.labels import Badge
from runtime.kernel.capability_health import ListingState

STATES: Final[Mapping[str, Badge]] = {
    ListingState.LISTED: Badge("ok", "check", "Listed"),
    ListingState.QUARANTINED: Badge("warn", "clock", "Quarantined"),
    ListingState.DELISTED: Badge("danger", "cross", "Delisted"),
}
STATUSES: Final[Mapping[str, Badge]] = {
    HealthStatus.HEALTHY: Badge("ok", "check", "Healthy"),
    HealthStatus.DEGRADED: Badge("warn", "low", "Degraded"),
    HealthStatus.UNAVAILABLE: Badge("danger", "cross", "Unavailable"),
}
# What a person can decide, by the value of the form.
CHOICES: Final[Mapping[str, str]] = {
    ListingState.LISTED.value: "List it, whatever its health",
    ListingState.DELISTED.value: "Do not list it",
    "": "Let its health decide, from anew",
}


class OverrideForm(ReasonForm):
    """What a person decides about a capability, why, and what the page showed."""

    decision = forms.ChoiceField(choices=tuple(CHOICES.items()), required=False)
    seen = forms.CharField(required=False, max_length=12)


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List the records of all providers with their health."""
    at = clock.now()
    context = {
        "rows": [_shown(row, at=at) for row in capability_list.list_all(tenant=tenant_of(request.user))],
        "may_decide": may(request.user, Permission.MANAGE_REGISTRY),
        "choices": list(CHOICES.items()),
        "topic": Topic.CONVERSATIONS,
    }
    swapped = "HX-Request" in request.headers
    return render(request, f"runtime/{'_capabilities' if swapped else 'capabilities'}.html", context)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def override(request: HttpRequest, capability: int) -> HttpResponse:
    """Decide whether the registry names a provider."""
    form = OverrideForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=reverse("capabilities"))
    given = form.cleaned_data
    answer = capabilities.override(
        tenant=tenant_of(request.user),
        pk=capability,
        state=ListingState(given["decision"]) if given["decision"] else None,
        seen=given["seen"],
        reason=given["reason"],
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("capabilities"))
    messages.success(
        request, f"{answer.capability} of {answer.provider.agent_id}: your decision is recorded."
    )
    return redirect("capabilities")


def _shown(row: Capability, *, at: datetime) -> dict[str, Any]:
    claims = capability_list.claims_of(row)
    return {
        "row": row,
        "state": labels.badge(STATES, capability_list.state_of(row, at=at)),
        "status": labels.badge(STATUSES, row.status),
        "is_named": claims is not None and capability_list.is_named(row, at=at),
        "claims": None if claims is None else labels.pretty(claims.model_dump(mode="json")),
        "decision": CHOICES.get(row.override, row.override) if row.override else "",
    }
