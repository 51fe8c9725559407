"""`GET /audit/reports/...`: questions that are asked of DecisionRecords again and again.

They are here, and not with the records, since they read proposals and replay flows.
"""

from decimal import Decimal
from typing import Annotated, Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router
from pydantic import WithJsonSchema

from audit.access import readers
from audit.api.calls import JSON, canonical_json, describe
from audit.api.record_calls import Period, Text
from audit.api.record_schema import MISMATCHES, listed, members
from runtime.proposals.queries import record_reports

router = Router(tags=["Audit"])

_WRONG: Final = {422: "A parameter is missing or not of its form."}
# Only integers are promised, since a fraction of a JSON number may be written in ways that are not taken.
_NUMBER: Final = {"type": "integer", "minimum": -(10**15), "maximum": 10**15}
_COUNT: Final = {"type": "integer", "minimum": 0}
_TEXT: Final = {"type": "string"}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}
_PERIOD: Final[dict[str, dict[str, Any]]] = {"from": _TEXT_OR_NULL, "to": _TEXT_OR_NULL}
_EXTENT: Final[dict[str, dict[str, Any]]] = {
    "records_read": _COUNT,
    "flows": _COUNT,
    "complete": {"type": "boolean", "description": "Whether all that matches was read."},
    "mismatches": MISMATCHES,
}
_OUTCOME: Final = members(
    {
        "record_id": _TEXT,
        "dfid": {"type": "string", "format": "uuid"},
        "trace_id": _TEXT,
        "timestamp": {"type": "string", "format": "date-time"},
        "decision_version": _TEXT_OR_NULL,
        "status": _TEXT,
        "terminal": {"type": "boolean"},
        "subject_ids": listed(_TEXT),
        "outcome": _TEXT,
        "amount": {"type": "number"},
        "approvals": listed({"type": "object"}),
        "evidence_refs": listed(_TEXT),
        "lineage": {"type": "object"},
    }
)
_OUTCOMES: Final = members(
    {
        "decision_key": _TEXT,
        "param": _TEXT,
        "over": _TEXT,
        **_PERIOD,
        "outcomes": listed(_OUTCOME),
        "without_amount": listed(members({"record_id": _TEXT, "why": _TEXT})),
        **_EXTENT,
    }
)
_DENIALS: Final = members(
    {
        **_PERIOD,
        "rules": listed(members({"rule_id": _TEXT, "denials": _COUNT, "flows": _COUNT})),
        "by_people": _COUNT,
        **_EXTENT,
    }
)
_HEALTH: Final = members(
    {
        **_PERIOD,
        "decision_specs": listed(
            members(
                {
                    "decision_spec": _TEXT_OR_NULL,
                    "records": _COUNT,
                    "flows": _COUNT,
                    "replay_equal": _COUNT,
                    "difference": _COUNT,
                    "not_replayable": _COUNT,
                    "replay_equal_rate": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
                }
            )
        ),
        **_EXTENT,
    }
)


class HighValueQuery(Period):
    """Which decisions, and which of their parameters is above what."""

    decision_key: Text = Field(min_length=1, description="The policy kind.")
    param: Text = Field(min_length=1, description="The parameter of the proposal that holds the amount.")
    over: Annotated[Decimal, WithJsonSchema(_NUMBER)] = Field(
        max_digits=24, description="In the unit in which the proposal states the amount."
    )


class ReplayQuery(Period):
    """Which flows are replayed."""

    flows: int = Field(record_reports.MOST_FLOWS, ge=1, le=record_reports.MOST_FLOWS)


@router.get(
    "/reports/high_value_outcomes",
    openapi_extra=describe(_WRONG, media_type=JSON, schema=_OUTCOMES),
)
def high_value_outcomes(request: HttpRequest, asked: Query[HighValueQuery]) -> HttpResponse:
    """What was decided about amounts above a value: one record of each flow, its newest one.

    `without_amount` has the records whose amount cannot be read, and why not.
    """
    tenant = readers.reader_of(request).tenant
    return canonical_json(record_reports.high_value_outcomes(tenant=tenant, **asked.model_dump()))


@router.get("/reports/most_denials", openapi_extra=describe(_WRONG, media_type=JSON, schema=_DENIALS))
def most_denials(
    request: HttpRequest,
    days: Annotated[int, Query(ge=1, le=record_reports.MOST_DAYS)] = record_reports.DAYS_OF_DENIALS,
) -> HttpResponse:
    """The rules that refused most proposals in the last days; `by_people` counts what people aborted."""
    return canonical_json(record_reports.most_denials(tenant=readers.reader_of(request).tenant, days=days))


@router.get("/reports/replay_health", openapi_extra=describe(_WRONG, media_type=JSON, schema=_HEALTH))
def replay_health(request: HttpRequest, asked: Query[ReplayQuery]) -> HttpResponse:
    """For each version of a policy kind, the share of its newest flows that replay equal.

    The flows are replayed during the call, some twenty a second. Without `from`, of the last thirty days.
    """
    tenant = readers.reader_of(request).tenant
    return canonical_json(record_reports.replay_health(tenant=tenant, **asked.model_dump()))
