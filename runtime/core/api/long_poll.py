"""The waiting room of long polls under ASGI: a wait holds neither a thread nor a database connection.

It answers nothing itself. When there is something to return (an event, an error, a timeout), it lets
the request through to the ordinary endpoint, so that answers and problem documents have one form.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qs

from channels.db import database_sync_to_async

from audit.live import hints
from runtime.contracts import api_schemas

_DIGITS = re.compile(r"[0-9]{1,10}", re.ASCII)

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Gone = asyncio.Future[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollWait:
    """A long poll: whose, of what (the parts of its path), past which event, for how long."""

    token: str
    named: Mapping[str, str]
    after: int
    wait_s: int


class Subscription(Protocol):
    """What is waited for. Both calls may read the database; they run in a thread."""

    # The shortest time between two looks, for streams that grow faster than anybody wants to know.
    pause_s: float

    def streams(self, asked: PollWait) -> Sequence[str]:
        """The streams whose hints are worth a look."""

    def has_news(self, asked: PollWait) -> bool:
        """Whether to stop waiting: an event, or something to refuse."""


class LongPoll:
    """Holds a long poll until its topic has news, then passes it on to the endpoint, an ASGI application."""

    def __init__(self, topic: Subscription, endpoint: Application, *, waits: str = "wait") -> None:
        self.topic = topic
        # The parameter of the address that says for how many seconds.
        self.waits = waits
        self.endpoint = endpoint
        # In the pool: Channels' default is one thread for all, where one slow look would hold up every poll.
        self._look = database_sync_to_async(topic.has_news, thread_sensitive=False)
        self._streams = database_sync_to_async(topic.streams, thread_sensitive=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = _read(scope, self.waits)
        first = await receive()
        if asked is None or first["type"] != "http.request" or first.get("more_body"):
            await self.endpoint(scope, _replay([first], receive), send)
            return
        # The body is complete: the next message can only be the caller hanging up.
        gone = asyncio.ensure_future(receive())
        try:
            if await self._wait(asked, gone):
                await self.endpoint(scope, _replay([first], lambda: asyncio.shield(gone)), send)
        finally:
            gone.cancel()

    async def _wait(self, asked: PollWait, gone: Gone) -> bool:
        """Wait until the endpoint has something to return; False where the caller disconnected."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + asked.wait_s
        # Listening starts before the first look: a hint that falls between would be lost otherwise.
        async with hints.listening(*await self._streams(asked)) as bell:
            while True:
                if await self._look(asked):
                    return True
                left_s = ends_at - loop.time()
                if left_s <= 0:
                    return True
                rung = asyncio.ensure_future(self._ring(bell, left_s))
                either: list[asyncio.Future[Any]] = [rung, gone]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    rung.cancel()
                    return False

    async def _ring(self, bell: asyncio.Event, left_s: float) -> None:
        if await hints.ring_or_timeout(bell, left_s) and self.topic.pause_s:
            await asyncio.sleep(min(self.topic.pause_s, left_s))


def _read(scope: Scope, waits: str) -> PollWait | None:
    """The wait that is asked for; None for what the endpoint can answer, or refuse, at once."""
    if scope["method"] != "GET":
        return None
    query = parse_qs(scope["query_string"].decode("latin-1"))
    after, wait = query.get("after", ["0"])[-1], query.get(waits, ["0"])[-1]
    if (
        not _DIGITS.fullmatch(after)
        or not _DIGITS.fullmatch(wait)
        or not 0 < int(wait) <= api_schemas.MAX_WAIT_S
    ):
        return None
    sent = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, token = (sent[0].decode("latin-1") if len(sent) == 1 else "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    return PollWait(token=token, named=scope["url_route"]["kwargs"], after=int(after), wait_s=int(wait))


def _replay(messages: list[dict[str, Any]], receive: Receive) -> Receive:
    async def replayed() -> dict[str, Any]:
        return messages.pop(0) if messages else await receive()

    return replayed
