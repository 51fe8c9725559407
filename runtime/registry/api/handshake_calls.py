"""`POST /handshake`: an agent key becomes a session."""

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.contracts import api_schemas
from runtime.core.api import body_parsing, openapi
from runtime.core.api.responses import reply
from runtime.registry.api import auth
from runtime.registry.services import handshakes

router = Router(tags=["Handshake"])


@router.post(
    "/handshake",
    auth=auth.AgentKey(),
    response=api_schemas.HandshakeAnswer,
    openapi_extra=openapi.describe(body=api_schemas.HandshakeRequest),
)
def handshake(request: HttpRequest) -> HttpResponse:
    """Negotiate versions and kinds; the answer's session token is the Bearer of every later call."""
    key, agent = auth.agent_key_of(request)
    body, _ = body_parsing.read(request, api_schemas.HandshakeRequest)
    return reply(handshakes.open_session(key=key, agent=agent, request=body))
