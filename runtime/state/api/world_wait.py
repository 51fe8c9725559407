"""`Prefer: wait=1` (RFC 7240) on a write of a fact: its answer is held back until the write is numbered.

Under ASGI, after the endpoint has answered: the wait holds neither a thread nor a database connection. SQLite
numbers in the transaction, so nobody waits there.
"""

import asyncio
import json
import re
from typing import Final

from channels.db import database_sync_to_async

from audit.live import hints
from runtime.core.api.long_poll import Application, Message, Receive, Scope, Send
from runtime.state.queries import world
from runtime.state.services.world_writes import HINTS

PATTERN: Final = r"^api/v1/state/facts/[^/]+$"
MAX_WAIT_S: Final = 5
# Hints may be lost.
LOOK_S: Final = 0.25
_WAIT: Final = re.compile(r'(?:^|,)\s*wait\s*=\s*"?([0-9]{1,6})"?\s*(?:[,;]|$)', re.ASCII | re.IGNORECASE)


class WorldWait:
    """Passes a write on to the endpoint, an ASGI application, and completes its answer."""

    def __init__(self, endpoint: Application) -> None:
        self.endpoint = endpoint
        self._look = database_sync_to_async(world.number_of_write, thread_sensitive=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait_s = 0 if scope["method"] == "GET" else _wait_of(scope)
        if not wait_s:
            await self.endpoint(scope, receive, send)
            return
        sent: list[Message] = []

        async def keep(message: Message) -> None:
            sent.append(message)

        # Listening starts before the write: a hint that falls between would be lost otherwise.
        async with hints.listening(HINTS) as bell:
            await self.endpoint(scope, receive, keep)
            if not sent:  # who asked has hung up
                return
            body = b"".join(message.get("body", b"") for message in sent[1:])
            completed = await self._complete(body, wait_s, bell)
        start = sent[0]
        if completed is not None:
            headers = [item for item in start["headers"] if item[0].lower() != b"content-length"]
            headers.append((b"content-length", str(len(completed)).encode()))
            headers.append((b"preference-applied", f"wait={wait_s}".encode()))
            start = {**start, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": body if completed is None else completed})

    async def _complete(self, body: bytes, wait_s: int, bell: asyncio.Event) -> bytes | None:
        """The answer with its version of the world; None where it has one, is none, or gets none in time."""
        try:
            answer = json.loads(body)
        except ValueError:
            return None
        if not isinstance(answer, dict) or answer.get("world_version_id", 0) is not None:
            return None
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + wait_s
        while (number := await self._look(write_id=answer["write_id"])) is None:
            left_s = ends_at - loop.time()
            if left_s <= 0:
                return None
            await hints.ring_or_timeout(bell, min(left_s, LOOK_S))
        answer["world_version_id"] = number
        return json.dumps(answer, separators=(",", ":")).encode()


def _wait_of(scope: Scope) -> int:
    """The seconds that the Prefer header asks for, at most MAX_WAIT_S; 0 for none."""
    for name, value in scope["headers"]:
        if name == b"prefer" and (asked := _WAIT.search(value.decode("latin-1"))):
            return min(int(asked[1]), MAX_WAIT_S)
    return 0
