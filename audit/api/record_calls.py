"""DecisionRecords: `GET /audit/records`, `.../records/{record_id}` and `/audit/flows/{dfid}/records`.

A record that is not what its ledger entry recorded is never answered as one: it is named as a mismatch.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema
from pydantic import BeforeValidator, WithJsonSchema

from audit.access import readers
from audit.api import record_schema
from audit.api.calls import JSON, canonical_json, describe
from audit.api.refusals import RefusedError, Why
from audit.records import dsse, feedback, periods, queries
from audit.records.queries import Found, OtherRecord, Record, RecordFilter, Superseded

router = Router(tags=["Audit"])

_LONGEST: Final = 300
_LARGEST_PAGE: Final = 200
_UNKNOWN: Final = "No record has this id."
_TAMPERED: Final = 409, "What is stored of the record is not what its ledger entry recorded."


def _moment(text: object) -> datetime | None:
    return periods.moment(str(text)) if text else None


Text = Annotated[str, Field(max_length=_LONGEST)]
Moment = Annotated[
    datetime | None,
    BeforeValidator(_moment),
    WithJsonSchema({"anyOf": [{"type": "string", "format": name} for name in ("date-time", "date")]}),
]


Flow = Annotated[
    UUID | None,
    BeforeValidator(lambda text: text or None),
    WithJsonSchema({"type": "string", "format": "uuid"}),
]


class Period(Schema):
    """From when until when; either may be missing."""

    since: Moment = Field(None, alias="from", description="The first time that is included.")
    until: Moment = Field(None, alias="to", description="The first time that is not included.")


class RecordQuery(Period):
    """What is searched for. A field that is missing or empty asks nothing."""

    decision_key: Text = Field("", description="The policy kind.")
    subject: Text = Field("", description="What the decision is about, as the kind names it: `order:881`.")
    status: Literal["", "DECIDED", "DEFERRED", "REJECTED", "ESCALATED", "IN_FLIGHT", "CLOSED"] = ""
    approver: Text = Field("", description="The username of a person who decided, or `user:7`.")
    policy_decision: Text = Field(
        "", description="The id of a policy decision or of a rule; or allow, require_approval, deny."
    )
    trace_id: Text = Field("", description="The W3C trace: 32 hexadecimal digits.")
    agent_id: Text = ""
    outcome: Text = Field("", description="What the policy kind calls the end of a flow: `filled`.")
    approval_mode: Literal["", "none", "person", "destructive", "two_persons"] = ""
    scorecard: Literal["", "passed", "failed", "unscored"] = Field(
        "", description="The result of its scores."
    )
    failed_evaluator: Literal["", "policy", "utility", "latency", "safety", "cost"] = Field(
        "", description="An evaluator whose value is below the minimum."
    )
    superseded: Literal["", "all", "only"] = Field(
        "", description="Also, or only, records whose place another one has taken; without it, none of them."
    )
    feedback: Literal["", "RIGHT", "WRONG", "UNSAFE", "UNNECESSARY_ESCALATION", "MISSING_ESCALATION"] = Field(
        "", description="What somebody's newest feedback says of the record."
    )
    dfid: Flow = Field(None, description="The flow.")

    def to_filter(self) -> RecordFilter:
        """The same, as a search takes it."""
        given = self.model_dump()
        return RecordFilter(**given | {"superseded": Superseded(given["superseded"])})


@router.get(
    "/records",
    openapi_extra=describe(
        {422: "A parameter is not of its form."}, media_type=JSON, schema=record_schema.PAGE
    ),
)
def list_records(
    request: HttpRequest,
    wanted: Query[RecordQuery],
    after: Annotated[
        str, Query(pattern="^[0-9]{0,16}$", description="`next` of the page before this one.")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=_LARGEST_PAGE)] = queries.PAGE,
) -> HttpResponse:
    """Records that match all that is asked, newest first; a page at a time."""
    found = queries.search(
        tenant=readers.reader_of(request).tenant,
        wanted=wanted.to_filter(),
        after=int(after) if after else None,
        size=limit,
    )
    following = None if found.following is None else str(found.following)
    return canonical_json({**_members(found), "next": following})


@router.get(
    "/records/{record_id}",
    openapi_extra=describe(
        {404: _UNKNOWN, _TAMPERED[0]: _TAMPERED[1]}, media_type=JSON, schema=record_schema.RECORD
    ),
)
def show_record(request: HttpRequest, record_id: str) -> HttpResponse:
    """One record: the bytes that were signed, canonical JSON (RFC 8785).

    Where another record has taken its place, a `Link` header with `rel="successor-version"` names that.
    """
    record = _record(request, record_id)
    answer = HttpResponse(record.body, content_type=JSON)
    if record.superseded_by:
        answer["Link"] = f'<{record.superseded_by}>; rel="successor-version"'
    return answer


@router.get(
    "/records/{record_id}/dsse",
    openapi_extra=describe(
        {404: _UNKNOWN, _TAMPERED[0]: _TAMPERED[1]}, media_type=JSON, schema=record_schema.DSSE
    ),
)
def show_envelope(request: HttpRequest, record_id: str) -> HttpResponse:
    """One record with its signature, as a DSSE envelope; `GET /audit/keys` has the public key."""
    record = _record(request, record_id)
    return canonical_json(dsse.envelope(record.body, signature=record.signature, key_id=record.key_id))


@router.get(
    "/flows/{uuid:dfid}/records",
    openapi_extra=describe({404: "No flow has this DFID."}, media_type=JSON, schema=record_schema.RECORDS),
)
def records_of_flow(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """All records of a flow, oldest first: one for each checkpoint, and one for its end."""
    found = queries.list_of_flow(tenant=readers.reader_of(request).tenant, dfid=dfid)
    if found is None:
        raise RefusedError(Why.UNKNOWN, "No flow has this DFID.")
    return canonical_json(_members(found))


@router.get(
    "/records/{record_id}/feedback",
    openapi_extra=describe(
        {404: _UNKNOWN, _TAMPERED[0]: _TAMPERED[1]}, media_type=JSON, schema=record_schema.FEEDBACK
    ),
)
def list_feedback(request: HttpRequest, record_id: str) -> HttpResponse:
    """What people said of a record, newest first; of each person the newest counts."""
    record = _record(request, record_id)
    given = feedback.list_of_record(tenant=readers.reader_of(request).tenant, record=record)
    return canonical_json({"record_id": record.record_id, "feedback": [item.plain() for item in given]})


def _record(request: HttpRequest, record_id: str) -> Record:
    found = queries.get(tenant=readers.reader_of(request).tenant, record_id=record_id)
    match found:
        case None:
            raise RefusedError(Why.UNKNOWN, _UNKNOWN)
        case OtherRecord(is_erased=True):
            raise RefusedError(Why.UNKNOWN, queries.ERASED)
        case OtherRecord(mismatch=words):
            raise RefusedError(Why.TAMPERED, f"{words} Run verify_ledger.")
    return found


def _members(found: Found) -> dict[str, Any]:
    return {
        "records": [record.document for record in found.records],
        "mismatches": [other.plain() for other in found.others],
        "superseded_by": {
            record.record_id: record.superseded_by for record in found.records if record.superseded_by
        },
    }
