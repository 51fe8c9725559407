"""`POST /artifacts`: references to content that is kept elsewhere."""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.api import auth, documents, envelopes
from runtime.api.replies import reply
from runtime.contracts import wire
from runtime.services import artifacts

router = Router(tags=["Memory"], auth=auth.SessionToken())


@router.post(
    "/artifacts",
    response={201: wire.ArtifactAnswer},
    openapi_extra=documents.describe(body=wire.ArtifactRequest),
)
def register_artifact(request: HttpRequest) -> HttpResponse:
    """Register a reference by digest; the agent's later contexts name it. Nothing is fetched."""
    body, _ = envelopes.read(request, wire.ArtifactRequest)
    return reply(
        artifacts.register(agent=auth.session_of(request).agent, asked=body), status=HTTPStatus.CREATED
    )
