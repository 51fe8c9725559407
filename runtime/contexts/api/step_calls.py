"""`POST /flows/{dfid}/steps`: what an agent reports about its reasoning."""

from http import HTTPStatus
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.contexts.services import steps
from runtime.contracts import api_schemas
from runtime.core.api import body_parsing, openapi
from runtime.core.api.responses import reply
from runtime.registry.api import auth

router = Router(tags=["Flows"], auth=auth.SessionToken())


@router.post(
    "/flows/{uuid:dfid}/steps",
    response={201: api_schemas.StepAnswer},
    openapi_extra=openapi.describe(body=api_schemas.StepRequest),
)
def report_step(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Add a claim about the agent's own reasoning to the flow; it is shown and recorded, never judged."""
    body, _ = body_parsing.read(request, api_schemas.StepRequest)
    return reply(
        steps.report(agent=auth.session_of(request).agent, dfid=dfid, asked=body),
        status=HTTPStatus.CREATED,
    )
