"""`POST /flows/{dfid}/steps`: what an agent reports about its reasoning."""

from http import HTTPStatus
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.api import auth, documents, envelopes
from runtime.api.replies import reply
from runtime.contracts import wire
from runtime.services import steps

router = Router(tags=["Flows"], auth=auth.SessionToken())


@router.post(
    "/flows/{uuid:dfid}/steps",
    response={201: wire.StepAnswer},
    openapi_extra=documents.describe(body=wire.StepRequest),
)
def report_step(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Add a claim about the agent's own reasoning to the flow; it is shown and recorded, never judged."""
    body, _ = envelopes.read(request, wire.StepRequest)
    return reply(
        steps.report(agent=auth.session_of(request).agent, dfid=dfid, asked=body),
        status=HTTPStatus.CREATED,
    )
