"""`GET /audit/reports/decision_metrics`: how well agents decide, and what they propose is executed."""

from typing import Annotated, Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from audit.access import readers
from audit.api.calls import JSON, canonical_json, describe
from audit.api.record_schema import listed, members
from audit.api.refusals import RefusedError, Why
from runtime.kernel.decision_metrics import MetricName, Unit
from runtime.maintenance.queries import decision_metrics, metric_words
from runtime.registry.queries import agent_list

router = Router(tags=["Audit"])

_TEXT: Final = {"type": "string"}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}
_COUNT: Final = {"type": "integer", "minimum": 0}
_METRIC: Final = members(
    {
        "metric": {"type": "string", "enum": [name.value for name in MetricName]},
        "paper": _TEXT,
        "unit": {"type": "string", "enum": [unit.value for unit in Unit]},
        "value": {"type": ["number", "null"], "minimum": 0},
        "numerator": {"type": ["integer", "null"], "minimum": 0},
        "denominator": _COUNT,
        "note": _TEXT_OR_NULL,
        "numerator_is": _TEXT,
        "denominator_is": _TEXT,
    }
)
_SCHEMA: Final[dict[str, Any]] = members(
    {
        "agent_id": _TEXT_OR_NULL,
        "days": _COUNT,
        "proposals": _COUNT,
        "flows": _COUNT,
        "least": _COUNT,
        "mismatches": _COUNT,
        "complete": {"type": "boolean"},
        "metrics": listed(_METRIC),
        "not_measured": listed(members({"metric": _TEXT, "why": _TEXT})),
    }
)


@router.get(
    "/reports/decision_metrics",
    openapi_extra=describe(
        {404: "No agent has this id.", 422: "A parameter is not of its form."},
        media_type=JSON,
        schema=_SCHEMA,
    ),
)
def show_decision_metrics(
    request: HttpRequest,
    agent: Annotated[str, Query(max_length=128, description="An agent; without it, all of them.")] = "",
    days: Annotated[int, Query(ge=1, le=decision_metrics.MOST_DAYS)] = decision_metrics.DAYS,
) -> HttpResponse:
    """The metrics of the papers over the newest proposals, each with what is counted of what.

    Below `least` the value is null, and `note` says "not enough".
    """
    tenant = readers.reader_of(request).tenant
    row = agent_list.get_agent(tenant=tenant, agent_id=agent) if agent else None
    if agent and row is None:
        raise RefusedError(Why.UNKNOWN, "No agent has this id.")
    found = decision_metrics.measure(tenant=tenant, agent=row, days=days)
    return canonical_json(metric_words.exported(found))
