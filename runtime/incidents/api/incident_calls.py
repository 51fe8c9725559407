"""`GET /audit/incidents` and `/audit/incidents/{incident_id}`: what auditors' programs read of incidents."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from audit import actors, canonical, chain
from audit.access import readers
from audit.api.calls import describe
from audit.api.record_schema import listed, members
from audit.api.refusals import RefusedError, Why
from runtime.contracts.incident import IncidentState, LinkKind, Severity
from runtime.contracts.post_mortem import PostMortemBody
from runtime.incidents.models import Incident
from runtime.incidents.queries import incident_detail, incident_list
from runtime.incidents.queries.incident_detail import Worded
from runtime.incidents.queries.incident_list import IncidentFilter

router = Router(tags=["Audit"])

_JSON: Final = "application/json"
_LARGEST_PAGE: Final = 200
_TAMPERED: Final = 409, "What is stored of the incident is not what its ledger entries recorded."
_TEXT: Final[dict[str, Any]] = {"type": "string"}
_TEXT_OR_NULL: Final[dict[str, Any]] = {"type": ["string", "null"]}
_ID: Final[dict[str, Any]] = {"type": "string", "format": "uuid"}
_TIME: Final[dict[str, Any]] = {"type": "string", "format": "date-time"}
_TIME_OR_NULL: Final[dict[str, Any]] = {"type": ["string", "null"], "format": "date-time"}
_COUNT: Final[dict[str, Any]] = {"type": "integer", "minimum": 0}
_SHORT: Final[dict[str, dict[str, Any]]] = {
    "incident_id": _ID,
    "title": _TEXT,
    "severity": {"type": "string", "enum": Severity.values()},
    "state": {"type": "string", "enum": IncidentState.values()},
    "lead": _TEXT_OR_NULL,
    "opened_by": _TEXT,
    "opened_at": _TIME,
    "mitigated_at": _TIME_OR_NULL,
    "resolved_at": _TIME_OR_NULL,
    "closed_at": _TIME_OR_NULL,
    "rule": _TEXT_OR_NULL,
    "sightings": _COUNT,
    "stream": {"type": "string", "description": "The stream of its ledger entries."},
}
_LINK: Final = members(
    {
        "kind": {"type": "string", "enum": LinkKind.values()},
        "ref": _TEXT,
        "dfid": {"type": ["string", "null"], "format": "uuid"},
        "linked_by": _TEXT,
        "linked_at": _TIME,
    }
)
_WORDS: Final = {"type": ["string", "null"], "description": "null where they were erased."}
_NOTE: Final = members({"author": _TEXT, "written_at": _TIME, "text": _WORDS})
_ACTION: Final = members(
    {
        "text": _WORDS,
        "owner": _TEXT,
        "due_on": {"type": "string", "format": "date"},
        "done_at": _TIME_OR_NULL,
        "done_by": _TEXT_OR_NULL,
    }
)
_POST_MORTEM: Final = {
    "anyOf": [
        members(
            {
                "version": {"type": "integer", "minimum": 1},
                "author": _TEXT,
                "saved_at": _TIME,
                "signed_by": _TEXT_OR_NULL,
                "signed_at": _TIME_OR_NULL,
                "parts": {
                    "anyOf": [members(dict.fromkeys(PostMortemBody.model_fields, _TEXT)), {"type": "null"}]
                },
            }
        ),
        {"type": "null"},
    ]
}
_PAGE: Final = members({"incidents": listed(members(_SHORT)), "next": {"type": ["string", "null"]}})
_WHOLE: Final = members(
    {
        **_SHORT,
        "links": listed(_LINK),
        "notes": listed(_NOTE),
        "actions": listed(_ACTION),
        "post_mortem": _POST_MORTEM,
    }
)


@router.get(
    "/incidents",
    openapi_extra=describe({422: "A parameter is not of its form."}, media_type=_JSON, schema=_PAGE),
)
def list_incidents(
    request: HttpRequest,
    state: Literal["", "OPEN", "MITIGATED", "RESOLVED", "CLOSED"] = "",
    severity: Literal["", "SEV1", "SEV2", "SEV3", "SEV4"] = "",
    after: Annotated[UUID | None, Query(description="`next` of the page before this one.")] = None,
    limit: Annotated[int, Query(ge=1, le=_LARGEST_PAGE)] = incident_list.PAGE,
) -> HttpResponse:
    """Incidents that match all that is asked, newest first; a page at a time."""
    wanted = IncidentFilter(states=(state,) if state else (), severity=severity)
    tenant = readers.reader_of(request).tenant
    page = incident_list.list_page(tenant=tenant, wanted=wanted, after=after, size=limit)
    following = str(page.rows[-1].pk) if page.more else None
    return _json({"incidents": [_short(incident) for incident in page.rows], "next": following})


@router.get(
    "/incidents/{incident_id}",
    openapi_extra=describe(
        {404: "No incident has this id.", _TAMPERED[0]: _TAMPERED[1]}, media_type=_JSON, schema=_WHOLE
    ),
)
def show_incident(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """One incident with links, notes, actions and post-mortem; its history is its stream in the ledger."""
    incident = incident_detail.get(tenant=readers.reader_of(request).tenant, incident_id=incident_id)
    if incident is None:
        raise RefusedError(Why.UNKNOWN, "No incident has this id.")
    if incident_detail.compare(incident):
        raise RefusedError(Why.TAMPERED, _TAMPERED[1])
    return _json(
        {
            **_short(incident),
            "links": [
                {
                    "kind": link.kind,
                    "ref": link.ref,
                    "dfid": None if link.flow_id is None else str(link.flow_id),
                    "linked_by": link.linked_by,
                    "linked_at": _iso(link.linked_at),
                }
                for link in incident_detail.list_links(incident)
            ],
            "notes": [
                {
                    "author": actors.user(note.row.author_id),
                    "written_at": _iso(note.row.written_at),
                    "text": _words(note),
                }
                for note in incident_detail.list_notes(incident)
            ],
            "actions": [
                {
                    "text": _words(action),
                    "owner": actors.user(action.row.owner_id),
                    "due_on": action.row.due_on.isoformat(),
                    "done_at": _iso(action.row.done_at),
                    "done_by": action.row.done_by or None,
                }
                for action in incident_detail.list_actions(incident)
            ],
            "post_mortem": _post_mortem(incident),
        }
    )


def _short(incident: Incident) -> dict[str, Any]:
    return {
        "incident_id": str(incident.pk),
        "title": incident.title,
        "severity": incident.severity,
        "state": incident.state,
        "lead": None if incident.lead_id is None else actors.user(incident.lead_id),
        "opened_by": incident.opened_by,
        "opened_at": _iso(incident.opened_at),
        "mitigated_at": _iso(incident.mitigated_at),
        "resolved_at": _iso(incident.resolved_at),
        "closed_at": _iso(incident.closed_at),
        "rule": incident.rule_name or None,
        "sightings": incident.sightings,
        "stream": actors.incident(incident.pk),
    }


def _post_mortem(incident: Incident) -> dict[str, Any] | None:
    found = incident_detail.get_post_mortem(incident)
    if found is None:
        return None
    return {
        "version": found.row.version,
        "author": actors.user(found.row.author_id),
        "saved_at": _iso(found.row.saved_at),
        "signed_by": found.row.signed_by or None,
        "signed_at": _iso(found.row.signed_at),
        "parts": None if found.body is None else found.body.model_dump(),
    }


def _words(item: Worded) -> str | None:
    return item.words if item.is_whole else None


def _iso(at: datetime | None) -> str | None:
    return None if at is None else chain.time_text(at)


def _json(answer: dict[str, Any]) -> HttpResponse:
    return HttpResponse(canonical.encode(answer), content_type=_JSON)
