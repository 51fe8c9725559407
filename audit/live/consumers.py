"""The live socket at /ws/live/: hints for signed-in people with a role, from the console's own pages only.

Out: `{"stream": "...", "seq": n}` and `pong`. In: `ping`, which checks the session too, and `beat`, which
only asks whether the server is there. Everything else that comes in is ignored.
A page looks for news once when its socket opens: hints are told from then on, not from before.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.http import parse_cookie
from django.http.request import split_domain_port, validate_host

from audit.access import session_check
from audit.access.session_check import CloseCode
from audit.live import hints
from audit.live.socket_hub import Connection

PATH = "/ws/live/"
REASONS = {
    CloseCode.SIGNED_OUT: "sign in again",
    CloseCode.NO_ROLE: "this account holds no role",
}
_FOREIGN = 4400
_NOWHERE = 4404
_FULL = 4429
_LOCAL_HOSTS = [".localhost", "127.0.0.1", "[::1]"]  # what Django allows in debug when nothing is set
_DEFAULT_PORTS = {"http": "80", "https": "443"}

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def live_app() -> Application:
    """The ASGI application for every WebSocket of the site; a refused handshake is an HTTP 403."""
    return _serve


async def _serve(scope: Scope, receive: Receive, send: Send) -> None:
    if (await receive())["type"] != "websocket.connect":
        return
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    if scope["path"] != PATH:
        await _refuse(send, _NOWHERE, "no socket here")
    elif not is_own_origin(headers):
        await _refuse(send, _FOREIGN, "the page is not from this site")
    else:
        await _admit(headers, receive, send)


async def _admit(headers: dict[str, str], receive: Receive, send: Send) -> None:
    session_key = parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME, "")
    room = hints.this_board().room

    async def send_text(text: str) -> None:
        await send({"type": "websocket.send", "text": text})

    async def close(refusal: CloseCode) -> None:
        await _refuse(send, refusal, REASONS[refusal])

    member = Connection(session_key=session_key, send=send_text, close=close)
    answer = (await database_sync_to_async(session_check.check_sessions)({session_key}))[session_key]
    if isinstance(answer, CloseCode):
        await close(answer)
        return
    if room.is_full_for(answer.person):
        await _refuse(send, _FULL, "too many open pages")
        return
    member.person = answer.person
    room.arriving.add(member)
    try:
        await send({"type": "websocket.accept"})
    finally:
        room.arriving.discard(member)
    room.members.add(member)
    try:
        while (message := await receive())["type"] != "websocket.disconnect":
            match message.get("text"):
                case "ping":
                    room.take_ping(member)
                case "beat":
                    member.answer_beat()
    finally:
        room.leave(member)


def is_own_origin(headers: dict[str, str]) -> bool:
    """Whether the page that opens the socket is ours: Origin names this host, or one trusted by settings.

    A missing Origin is refused: browsers always send one, and other programs have the API.
    """
    origin = headers.get("origin", "")
    scheme, _, origin_host = origin.partition("://")
    host = headers.get("host", "")
    if settings.USE_X_FORWARDED_HOST:
        host = headers.get("x-forwarded-host", host)
    domain, _ = split_domain_port(host)
    allowed = list(settings.ALLOWED_HOSTS) or (_LOCAL_HOSTS if settings.DEBUG else [])
    if scheme not in _DEFAULT_PORTS or not domain or not validate_host(domain, allowed):
        return False
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    return _with_port(origin_host, scheme) == _with_port(host, scheme)


def _with_port(host: str, scheme: str) -> tuple[str, str]:
    domain, port = split_domain_port(host)
    return domain, port or _DEFAULT_PORTS[scheme]


async def _refuse(send: Send, code: int, reason: str) -> None:
    await send({"type": "websocket.close", "code": int(code), "reason": reason})
