"""`POST /artifacts`: references to content that is kept elsewhere."""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.contracts import api_schemas
from runtime.core.api import body_parsing, openapi
from runtime.core.api.responses import reply
from runtime.registry.api import auth
from runtime.state.services import artifacts

router = Router(tags=["Memory"], auth=auth.SessionToken())


@router.post(
    "/artifacts",
    response={201: api_schemas.ArtifactAnswer},
    openapi_extra=openapi.describe(body=api_schemas.ArtifactRequest),
)
def register_artifact(request: HttpRequest) -> HttpResponse:
    """Register a reference by digest; the agent's later contexts name it. Nothing is fetched."""
    body, _ = body_parsing.read(request, api_schemas.ArtifactRequest)
    return reply(
        artifacts.register(agent=auth.session_of(request).agent, asked=body), status=HTTPStatus.CREATED
    )
