"""Where notices arrive in tests: an HTTP receiver and a mail server, both real, both on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import Envelope
from standardwebhooks.webhooks import Webhook

from dir_console import single_process
from escalations.models import NotificationRoute
from escalations.services.notices import routes
from tests.support import factories, misbehaving_targets
from tests.support.misbehaving_targets import StandIn

ADMIN = "user:1"
TOKEN = "T0pSecretToken"


@dataclass
class Receiver:
    """An HTTP receiver; `status` is what it answers from now on."""

    target: StandIn
    status: int = 204

    @property
    def url(self) -> str:
        """The address of its hook, with a token as chat services have it."""
        return f"{self.target.base_url}/hook/{TOKEN}"

    @property
    def ids(self) -> list[str]:
        """The id of each request, in order."""
        return [request.headers["webhook-id"] for request in self.target.seen]

    def bodies(self, secret: str = "") -> list[Any]:
        """Each request's body, in order; with `secret` once its signature is verified."""
        if not secret:
            return [misbehaving_targets.as_json(request.body) for request in self.target.seen]
        return [
            Webhook(secret).verify(request.body.decode(), {k.lower(): v for k, v in request.headers.items()})
            for request in self.target.seen
        ]


@contextmanager
def receiver(*, is_held: bool = False) -> Iterator[Receiver]:
    """An HTTP receiver; a held one answers once its target is released."""
    made: list[Receiver] = []

    def answering(request: BaseHTTPRequestHandler) -> None:
        misbehaving_targets.answer(made[0].status, b"")(request)

    with misbehaving_targets.stand_in(answering, is_held=is_held) as target:
        made.append(Receiver(target))
        yield made[0]


@dataclass
class MailServer:
    """An SMTP server that keeps what it is sent."""

    port: int
    messages: list[EmailMessage] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The route to one mailbox at this server."""
        return f"mailto://127.0.0.1:{self.port}?from=console@example.com&to=desk@example.com"

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:  # aiosmtpd's
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.messages.append(message)
        return "250 kept"


@contextmanager
def mail_server(port: int = 0) -> Iterator[MailServer]:
    """A mail server on `port`, or on a free one."""
    kept = MailServer(port=port or single_process.free_port(0))
    controller = Controller(kept, hostname="127.0.0.1", port=kept.port)
    controller.start()
    try:
        yield kept
    finally:
        controller.stop()


def add(url: str, **fields: Any) -> routes.SavedRoute:
    """A route by the service, named `desk` where nothing else is said."""
    request = routes.RouteRequest(**{"name": "desk", "url": url, **fields})
    added = routes.add(tenant=factories.TENANT, request=request, actor=ADMIN)
    assert isinstance(added, routes.SavedRoute), added
    return added


def again(route: NotificationRoute) -> NotificationRoute:
    """The route as it is stored now."""
    return NotificationRoute.objects.get(pk=route.pk)
