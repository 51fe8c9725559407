"""`POST /handshake`: an agent key becomes a session."""

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.api import auth, documents, envelopes
from runtime.api.replies import reply
from runtime.contracts import wire
from runtime.services import handshakes

router = Router(tags=["Handshake"])


@router.post(
    "/handshake",
    auth=auth.AgentKey(),
    response=wire.HandshakeAnswer,
    openapi_extra=documents.describe(body=wire.HandshakeRequest),
)
def handshake(request: HttpRequest) -> HttpResponse:
    """Negotiate versions and kinds; the answer's session token is the Bearer of every later call."""
    key, agent = auth.agent_key_of(request)
    body, _ = envelopes.read(request, wire.HandshakeRequest)
    return reply(handshakes.shake(key=key, agent=agent, request=body))
