"""`GET /audit/flows/{dfid}/evidence.zip`: what proves one flow, for a stranger to check elsewhere."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from audit.access import readers
from audit.api.calls import describe
from audit.packs import export
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.maintenance.services import evidence_packs

router = Router(tags=["Audit"])


@router.get(
    "/flows/{uuid:dfid}/evidence.zip",
    openapi_extra=describe(
        {404: "No flow has this DFID.", 409: "No checkpoint covers the flow yet; one will within seconds."},
        media_type="application/zip",
        schema={
            "type": "string",
            "format": "binary",
            "description": "The pack; its README says how to check it.",
        },
    ),
)
def evidence_of_flow(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """The evidence pack of a flow: its entries and what they commit to, proofs, keys and the verifier."""
    tenant = readers.reader_of(request).tenant
    try:
        pack = evidence_packs.make(tenant=tenant, dfid=dfid)
    except export.NotSealedError as error:
        detail = "No checkpoint covers the flow yet. Ask again in a few seconds."
        raise ProblemError(Problem(code=ProblemCode.NOT_SEALED, detail=detail)) from error
    if pack is None:
        raise ProblemError(Problem(code=ProblemCode.FLOW_NOT_FOUND, detail="No flow has this DFID."))
    answer = HttpResponse(pack, content_type="application/zip")
    answer["Content-Disposition"] = f'attachment; filename="evidence-{dfid}.zip"'
    return answer
