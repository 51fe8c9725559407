"""The rules that open incidents: everyone reads them, admins draft, activate and switch them off."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts.incident import RuleState, Scope, Severity
from runtime.contracts.problem import Problem
from runtime.contracts.states import Impact
from runtime.core.views import error_page, labels
from runtime.core.views.forms import ReasonForm
from runtime.incidents.queries import rule_list
from runtime.incidents.queries.rule_list import RuleShown
from runtime.incidents.services import incident_rules
from runtime.incidents.views import presenters
from runtime.incidents.views.forms import RuleForm
from runtime.registry.queries import people

MOST_SHOWN = 200
_EMPTY = {"severity": Severity.SEV3.value, "times": "1", "within_s": "3600", "per": Scope.EVERYTHING.value}


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List every version of every rule."""
    given = {name: request.GET.get(name, "") for name in RuleForm.base_fields}
    return _page(request, held=_EMPTY | {name: text for name, text in given.items() if text})


@require_POST
@require(Permission.MANAGE_INCIDENT_RULES)
def draft(request: HttpRequest) -> HttpResponse:
    """Draft the next version of a rule."""
    form = RuleForm(request.POST)
    if not form.is_valid() or form.document is None:
        return _page(request, held=request.POST.dict(), problem=form.problem())
    row = incident_rules.draft(
        tenant=tenant_of(request.user), document=form.document, actor=actor_of(request.user)
    )
    messages.success(request, f"{row.name} version {row.version} is drafted. Another admin activates it.")
    return redirect("incident-rules")


@require_POST
@require(Permission.MANAGE_INCIDENT_RULES)
def add_usual(request: HttpRequest) -> HttpResponse:
    """Draft the usual rules that are not there yet."""
    added = incident_rules.add_usual(tenant=tenant_of(request.user), actor=actor_of(request.user))
    messages.success(request, f"{added} usual rules are drafted. Nothing opens before they are activated.")
    return redirect("incident-rules")


@require_POST
@require(Permission.MANAGE_INCIDENT_RULES)
def activate(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """Put a version in force."""
    return _act(request, name, version, is_on=True)


@require_POST
@require(Permission.MANAGE_INCIDENT_RULES)
def switch_off(request: HttpRequest, name: str, version: int) -> HttpResponse:
    """End a version."""
    return _act(request, name, version, is_on=False)


def _act(request: HttpRequest, name: str, version: int, *, is_on: bool) -> HttpResponse:
    back, form = reverse("incident-rules"), ReasonForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=back)
    work = incident_rules.activate if is_on else incident_rules.switch_off
    answer = work(
        tenant=tenant_of(request.user),
        name=name,
        version=version,
        reason=form.cleaned_data["reason"],
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=back)
    messages.success(request, f"{name} version {version} is {'active' if is_on else 'off'} now.")
    return redirect("incident-rules")


def _page(request: HttpRequest, *, held: dict[str, Any], problem: Problem | None = None) -> HttpResponse:
    rules = rule_list.list_rules(tenant=tenant_of(request.user), most=MOST_SHOWN)
    names = people.names_of([who for rule in rules for who in (rule.row.drafted_by, rule.row.activated_by)])
    known = {rule.row.name for rule in rules}
    context = {
        "rules": [_shown(rule, names) for rule in rules],
        "held": held,
        "problem": problem,
        "may_manage": may(request.user, Permission.MANAGE_INCIDENT_RULES),
        "usual_left": [rule.name for rule in incident_rules.USUAL if rule.name not in known],
        "severities": [(value.value, presenters.SEVERITIES[value].title) for value in Severity],
        "impacts": Impact.values(),
        "scopes": [(scope.value, presenters.SCOPES[scope]) for scope in Scope],
        "kinds": presenters.countable_kinds(),
    }
    status = 200 if problem is None else problem.status
    return render(request, "runtime/incident_rules.html", context, status=status)


def _shown(rule: RuleShown, names: dict[str, str]) -> dict[str, Any]:
    row, document = rule.row, rule.document
    return {
        "row": row,
        "state": labels.badge(presenters.RULE_STATES, row.state),
        "title": document.title if document else "It differs from what was recorded, and counts nothing.",
        "severity": labels.badge(presenters.SEVERITIES, document.severity) if document else None,
        "words": presenters.rule_words(document) if document else (),
        "opened": rule.incidents,
        "drafted_by": labels.actor_words(row.drafted_by, names),
        "activated_by": labels.actor_words(row.activated_by, names) if row.activated_by else "",
        "may_activate": document is not None and row.state != RuleState.ACTIVE,
        "may_end": row.state != RuleState.OFF,
    }
