"""`GET /audit/flows/{dfid}/reasoning`: what led to a decision, as a graph that is signed."""

from typing import Annotated, Any, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from audit import canonical
from audit.access import readers
from audit.api.calls import describe
from audit.api.refusals import RefusedError, Why
from audit.contracts.flow import NotThereError
from audit.packs.flow_reading import DamagedError
from audit.reasoning import signed
from audit.verification.verify import snapshot

router = Router(tags=["Audit"])

_UNKNOWN: Final = "No flow has this DFID."
_HASH: Final[dict[str, Any]] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
GRAPH: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["root", "graph", "nodes", "signature"],
    "properties": {
        "root": {**_HASH, "description": "SHA-256 of the canonical JSON of `graph`."},
        "graph": {
            "type": "object",
            "required": ["schema", "dfid", "decision_id", "trace_id", "nodes", "edges"],
            "properties": {
                "nodes": {"type": "array", "items": _HASH, "description": "The addresses of the nodes."},
                "edges": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["source", "target"],
                        "properties": {"source": _HASH, "target": _HASH},
                    },
                },
            },
        },
        "nodes": {
            "type": "object",
            "description": "Each node under its address, SHA-256 of its canonical JSON.",
            "additionalProperties": {"type": "object"},
        },
        "signature": {
            "type": "object",
            "description": "A DSSE envelope; its payload names the decision and the root.",
        },
    },
}


@router.get(
    "/flows/{uuid:dfid}/reasoning",
    openapi_extra=describe(
        {
            404: "No flow has this DFID, or nothing was proposed in it.",
            409: "An entry of the flow is not what was written.",
        },
        media_type="application/json",
        schema=GRAPH,
    ),
)
def show_reasoning(
    request: HttpRequest, dfid: UUID, decision: Annotated[UUID | None, Query()] = None
) -> HttpResponse:
    """What led to a verdict as a graph: nodes by their content, a root over all, signed by the runtime.

    `decision` is the id of a proposal, intent or escalation of the flow; without it, the newest verdict.
    """
    tenant = readers.reader_of(request).tenant
    try:
        with snapshot():
            found = signed.of_flow(tenant=tenant, dfid=dfid, decision_id=str(decision or ""))
    except DamagedError as error:
        raise RefusedError(Why.TAMPERED, str(error)) from error
    except NotThereError as error:
        raise RefusedError(Why.UNKNOWN, str(error)) from error
    if found is None:
        raise RefusedError(Why.UNKNOWN, _UNKNOWN)
    return HttpResponse(canonical.encode(found.plain()), content_type="application/json")
