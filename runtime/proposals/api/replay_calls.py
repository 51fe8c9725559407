"""`GET /audit/flows/{dfid}/replay`: whether everything recorded of a flow comes out again."""

import json
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from audit.access import readers
from audit.api.calls import JSON, describe
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import Change

router = Router(tags=["Audit"])

_ANSWER = {
    "type": "object",
    "required": ["result", "dfid"],
    "properties": {
        "result": {"type": "string", "enum": ["replay_equal", "difference", "not_replayable"]},
        "dfid": {"type": "string", "format": "uuid"},
        "verdicts": {"type": "integer", "description": "How many were judged again."},
        "checked": {"type": "object", "additionalProperties": {"type": "integer"}},
        "not_verified": {"type": "array", "items": {"type": "string"}},
        "class": {"type": "string", "enum": [change.value for change in Change]},
        "path": {"type": "string", "description": "Table, column, and the place inside."},
        "recorded": {"description": "The value there as it was recorded."},
        "found": {"description": "The value there now."},
        "stream": {"type": "string"},
        "seq": {"type": "integer", "description": "The entry that recorded it; 0 without one."},
        "row": {"type": "string"},
        "row_id": {"type": "string"},
        "proposal_id": {"type": ["string", "null"]},
        "why": {"type": "string", "enum": ["erased"]},
        "erased": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"seq": {"type": "integer"}, "field": {"type": "string"}},
            },
        },
    },
}


@router.get(
    "/flows/{uuid:dfid}/replay",
    openapi_extra=describe({404: "No flow has this DFID."}, media_type=JSON, schema=_ANSWER),
)
def replay_of_flow(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Judge a flow's verdicts again and compare its rows with its entries; the first difference, or equal."""
    result = flow_replay.replay(tenant=readers.reader_of(request).tenant, dfid=dfid)
    if result is None:
        raise ProblemError(Problem(code=ProblemCode.FLOW_NOT_FOUND, detail="No flow has this DFID."))
    return HttpResponse(json.dumps(result.plain()), content_type=JSON)
