"""The page of rule coverage: which rules fire, never fire, always fire, contradict, and are overridden."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from runtime.core.views import query_params
from runtime.maintenance.queries import rule_coverage


@require_safe
@signed_in
def show(request: HttpRequest) -> HttpResponse:
    """Show every rule of the active rulesets, and how often it fired in the last days."""
    typed = query_params.text(request.GET.get("days", str(rule_coverage.DAYS)))
    days = query_params.whole(typed)
    wrong, found = "", None
    if days is None or not 1 <= days <= rule_coverage.MOST_DAYS:
        wrong = f"{typed or 'An empty field'} is not a number of days from 1 to {rule_coverage.MOST_DAYS}."
    else:
        found = rule_coverage.measure(tenant=tenant_of(request.user), days=days)
    context = {"typed": typed, "wrong": wrong, "found": found, "most": rule_coverage.MOST}
    return render(request, "runtime/rule_coverage.html", context)
