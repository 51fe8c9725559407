"""The metrics of decisions: how agents decide and what they propose is executed, as a page and a file."""

import csv
import io
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from runtime.core.views import query_params
from runtime.kernel.decision_metrics import LEAST
from runtime.maintenance.queries import decision_metrics, metric_words
from runtime.maintenance.queries.decision_metrics import Measured
from runtime.registry.queries import agent_list

COLUMNS: Final = (
    "metric",
    "paper",
    "unit",
    "value",
    "numerator",
    "denominator",
    "note",
    "numerator_is",
    "denominator_is",
)


@require_safe
@signed_in
def show(request: HttpRequest) -> HttpResponse:
    """Show the metrics of an agent, or of all, in the last days; with `format=csv` as a file."""
    tenant = tenant_of(request.user)
    typed = {
        "agent": query_params.text(request.GET.get("agent", "")),
        "days": query_params.text(request.GET.get("days", str(decision_metrics.DAYS))),
    }
    wrong: dict[str, str] = {}
    days = query_params.whole(typed["days"])
    if days is None or not 1 <= days <= decision_metrics.MOST_DAYS:
        said = typed["days"] or "An empty field"
        wrong["days"] = f"{said} is not a number of days from 1 to {decision_metrics.MOST_DAYS}."
    agent = agent_list.get_agent(tenant=tenant, agent_id=typed["agent"]) if typed["agent"] else None
    if typed["agent"] and agent is None:
        wrong["agent"] = f"No agent is called {typed['agent']}."
    found = None
    if not wrong and days is not None:
        found = decision_metrics.measure(tenant=tenant, agent=agent, days=days)
    if found is not None and request.GET.get("format") == "csv":
        return _csv(found)
    return render(request, "runtime/decision_metrics.html", _context(tenant, typed, wrong, found))


def _context(
    tenant: str, typed: dict[str, str], wrong: dict[str, str], found: Measured | None
) -> dict[str, Any]:
    agents = agent_list.list_agents(tenant=tenant, after="", status="").rows
    return {
        "typed": typed,
        "wrong": wrong,
        "agents": [each.agent_id for each in agents],
        "found": found,
        "rows": [] if found is None else [metric_words.shown(metric) for metric in found.metrics],
        "least": LEAST,
        "most": decision_metrics.MOST,
        "not_measured": metric_words.NOT_MEASURED,
        "file": f"?{urlencode({**typed, 'format': 'csv'})}",
    }


def _csv(found: Measured) -> HttpResponse:
    written = io.StringIO()
    table = csv.writer(written)
    table.writerow(COLUMNS)
    # Every text is one of our own: none can begin a formula.
    for row in metric_words.exported(found)["metrics"]:
        table.writerow(["" if row[name] is None else row[name] for name in COLUMNS])
    response = HttpResponse(written.getvalue(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="decision-metrics.csv"'
    return response
