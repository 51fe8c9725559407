"""Targets: the systems that steps call, their circuits, and their pending calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access import roles
from audit.access.permissions import actor_of, held_by, require, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.contracts.states import CircuitState, IntentState
from runtime.core import clock
from runtime.core.views import error_page, forms, labels
from runtime.execution.queries import target_list
from runtime.execution.services import circuit, connectivity
from runtime.flows.views import timeline
from runtime.registry.queries import people

_WORDS: Mapping[str, str] = {
    IntentState.PENDING: "waiting",
    IntentState.CLAIMED: "being called",
    IntentState.IN_DOUBT: "in doubt",
    IntentState.AWAITING: "awaiting an answer",
    IntentState.WITH_PERSON: "with a person",
}


@dataclass(frozen=True, slots=True)
class TargetView:
    """A target, ready to show; `since` is None if it never failed, `retry_at` if it can be called."""

    name: str
    base_url: str
    moved: bool
    secret_env: str
    is_whole: bool
    says: list[str]
    circuit: labels.Badge
    since: Any
    retry_at: Any
    failures: int
    waiting: list[str]
    may_close: bool


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List all targets with their circuits, and recent events."""
    tenant = tenant_of(request.user)
    held = held_by(request.user)
    rows = [
        _shown(found, may_close=roles.allows(held, Permission.CLOSE_CIRCUITS))
        for found in target_list.list_targets(tenant=tenant)
    ]
    newest = target_list.list_newest(tenant=tenant, names=[row.name for row in rows])
    context = {
        "rows": rows,
        "awaited": target_list.list_awaited(tenant=tenant),
        "lines": timeline.lines(newest, names=people.names_of([entry.actor for entry in newest])),
        "may_test": roles.allows(held, Permission.TEST_TARGETS),
    }
    swapped = "HX-Request" in request.headers
    return render(request, "runtime/_targets.html" if swapped else "runtime/targets.html", context)


@require_POST
@require(Permission.TEST_TARGETS)
def check(request: HttpRequest, name: str) -> HttpResponse:
    """Test the connection to a target without sending a request, and show the result."""
    if target_list.get_target(tenant=tenant_of(request.user), name=name) is None:
        raise Http404
    found = connectivity.check_target(tenant=tenant_of(request.user), name=name, actor=actor_of(request.user))
    if found is None:
        raise Http404
    tell = messages.success if found.is_good else messages.error
    can = "can be called" if found.is_good else "cannot be called"
    tell(request, f"{name} {can}: {'; '.join(found.findings)}. No request was sent.")
    return redirect("targets")


@require_POST
@require(Permission.CLOSE_CIRCUITS)
def close(request: HttpRequest, name: str) -> HttpResponse:
    """Close a target's circuit manually: calls resume immediately."""
    if target_list.get_target(tenant=tenant_of(request.user), name=name) is None:
        raise Http404
    form = forms.ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=reverse("targets"))
    answer = circuit.close_circuit(
        tenant=tenant_of(request.user),
        name=name,
        actor=actor_of(request.user),
        reason=form.cleaned_data["reason"],
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=reverse("targets"))
    if answer:
        messages.success(request, f"The circuit of {name} is closed. Pending calls are made now.")
    else:
        messages.info(request, f"The circuit of {name} was already closed.")
    return redirect("targets")


def _shown(found: target_list.TargetRow, *, may_close: bool) -> TargetView:
    row = found.circuit
    state = CircuitState.CLOSED if row is None else CircuitState(row.state)
    retry_at = None if row is None else row.retry_at
    says = []
    if found.is_whole:
        says.append(
            "honours idempotency keys: a repeated call takes effect once"
            if found.place.honours_keys
            else "does not honour idempotency keys: a repeated call may take effect twice"
        )
        if found.place.refuses:
            says.append(f"{', '.join(map(str, sorted(found.place.refuses)))} means the call had no effect")
        if found.place.health:
            says.append(f"health check at {found.place.health}")
        if found.place.deep_link:
            says.append(f"calls can be looked up at {found.place.deep_link}")
    return TargetView(
        name=found.target.name,
        base_url=found.place.base_url,
        moved=found.moved,
        secret_env=found.place.secret_env,
        is_whole=found.is_whole,
        says=says,
        circuit=labels.badge(labels.CIRCUITS, state),
        since=None if row is None else row.changed_at,
        # After it, the next call is a trial; do not show a time in the past.
        retry_at=retry_at if retry_at is not None and retry_at > clock.now() else None,
        failures=0 if row is None else row.failures,
        waiting=[f"{number} {_WORDS[state]}" for state, number in found.waiting.items()],
        may_close=may_close and state is not CircuitState.CLOSED,
    )
