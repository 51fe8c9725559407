"""The waiting room of long polls under ASGI: a wait holds neither a thread nor a database connection.

It answers nothing itself. When there is something to say (an event, an error, the end of patience), it lets
the request through to the ordinary endpoint, so that answers and problem documents have one form.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qs
from uuid import UUID

from channels.db import database_sync_to_async
from django.core.handlers.asgi import ASGIHandler

from audit import live
from runtime.contracts import wire
from runtime.queries import feedback
from runtime.services import credentials

PATTERN: Final = (
    r"^api/v1/flows/(?P<dfid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/feedback$"
)
_DIGITS = re.compile(r"[0-9]{1,10}", re.ASCII)

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[Message], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A long poll: whose flow, past which event, for how long."""

    token: str
    dfid: UUID
    after: int
    wait_s: int


class FeedbackConsumer:
    """Holds a long poll until its flow has news, then passes it on to Django."""

    @classmethod
    def as_asgi(cls) -> Any:
        """The application for Channels' router, whose addresses are typed as Django's views."""
        return cls()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = _read(scope)
        first = await receive()
        if asked is None or first["type"] != "http.request" or first.get("more_body"):
            await _django()(scope, _replay([first], receive), send)
            return
        # The body is complete: the next message can only be the caller hanging up.
        gone = asyncio.ensure_future(receive())
        try:
            if await _wait(asked, gone):
                await _django()(scope, _replay([first], lambda: asyncio.shield(gone)), send)
        finally:
            gone.cancel()


def _read(scope: Scope) -> Wait | None:
    """The wait that is asked for; None for what the endpoint can answer, or refuse, at once."""
    if scope["method"] != "GET":
        return None
    query = parse_qs(scope["query_string"].decode("latin-1"))
    after, wait = query.get("after", ["0"])[-1], query.get("wait", ["0"])[-1]
    if not _DIGITS.fullmatch(after) or not _DIGITS.fullmatch(wait) or not 0 < int(wait) <= wire.MAX_WAIT_S:
        return None
    sent = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, token = (sent[0].decode("latin-1") if len(sent) == 1 else "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    dfid = UUID(scope["url_route"]["kwargs"]["dfid"])
    return Wait(token=token, dfid=dfid, after=int(after), wait_s=int(wait))


async def _wait(asked: Wait, gone: "asyncio.Future[dict[str, Any]]") -> bool:
    """Wait until the endpoint has something to say; False where the caller hung up."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + asked.wait_s
    # Listening starts before the first look: a hint that falls between would be lost otherwise.
    async with live.listening(str(asked.dfid)) as bell:
        while True:
            if await _look(asked):
                return True
            left_s = ends_at - loop.time()
            if left_s <= 0:
                return True
            rung = asyncio.ensure_future(live.ring_or_timeout(bell, left_s))
            either: list[asyncio.Future[Any]] = [rung, gone]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                rung.cancel()
                return False


def _has_news(asked: Wait) -> bool:
    """Whether to stop waiting: an event, a session that has ended, a flow that is not the caller's."""
    session = credentials.session(asked.token)
    flow = feedback.get_flow(agent=session.agent, dfid=asked.dfid) if session is not None else None
    if flow is None:
        return True
    return flow.feedback_seq > asked.after


# In the pool: Channels' default is one thread for all, where a single slow look would hold up every poll.
_look = database_sync_to_async(_has_news, thread_sensitive=False)


def _replay(messages: list[dict[str, Any]], receive: Receive) -> Receive:
    async def replayed() -> dict[str, Any]:
        return messages.pop(0) if messages else await receive()

    return replayed


@cache
def _django() -> ASGIHandler:
    return ASGIHandler()
