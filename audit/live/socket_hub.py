"""The open live sockets of one event loop: hints are gathered, every session is checked again, then sent.

At most one round per WINDOW_S, and the first hint after a quiet moment goes out at once. One database
look answers for all sockets of a round.
"""

import asyncio
import contextvars
import json
import logging
import resource
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from channels.db import database_sync_to_async

from audit.access import session_check
from audit.access.session_check import CloseCode, Valid

WINDOW_S = 0.1
SEND_TIMEOUT_S = 5.0
MEMBER_LIMIT = 1000
PERSON_LIMIT = 40  # pages of one person; a page without a socket looks for news by itself
FILES_PER_MEMBER = 5  # of the files that this process may open, a fifth may be sockets
STREAM_LIMIT = 1000  # per member; beyond it the oldest is dropped, and the page's own poll finds it

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Connection:
    """One socket. `send` takes a text frame, `close` a refusal; both belong to the socket's own task."""

    session_key: str
    send: Callable[[str], Awaitable[None]]
    close: Callable[[CloseCode], Awaitable[None]]
    person: int = 0
    waiting: dict[str, int] = field(default_factory=dict)
    owes_pong: bool = False
    refused: CloseCode | None = None
    sending: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Start sending unless it is under way: a slow browser holds up nobody else."""
        if self.sending is None or self.sending.done():
            self.sending = asyncio.get_running_loop().create_task(self._send_all())

    def answer_beat(self) -> None:
        """Answer at once, without the database: a visible page asks every two seconds."""
        self.owes_pong = True
        self.wake()

    async def _send_all(self) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                while self.refused is None and (self.waiting or self.owes_pong):
                    await self.send(self._next_frame())
                if self.refused is not None:
                    await self.close(self.refused)
        except Exception as error:
            # The socket went away or its reader stalled; its own task ends it.
            _log.debug("a live socket took no more: %s", type(error).__name__)
            self.waiting.clear()
            self.owes_pong = False

    def _next_frame(self) -> str:
        if self.owes_pong:
            self.owes_pong = False
            return "pong"
        stream = next(iter(self.waiting))
        return json.dumps({"stream": stream, "seq": self.waiting.pop(stream)})


@dataclass(slots=True, eq=False)
class SocketHub:
    """The members on one loop and what they have not been told yet."""

    members: set[Connection] = field(default_factory=set)
    arriving: set[Connection] = field(default_factory=set)
    pinged: set[Connection] = field(default_factory=set)
    pending: dict[str, dict[str, int]] = field(default_factory=dict)
    round: asyncio.Task[None] | None = None
    last_round_at: float = float("-inf")

    def is_full_for(self, person: int) -> bool:
        """Whether another socket of `person` would be one too many, of theirs or of all."""
        most = min(MEMBER_LIMIT, _files() // FILES_PER_MEMBER)
        present = self.members | self.arriving
        theirs = sum(member.person == person for member in present)
        return len(present) >= most or theirs >= PERSON_LIMIT

    def take_hint(self, tenant: str, stream: str, seq: int) -> None:
        """A stream has grown; told to the members of the tenant in the next round."""
        if self.members:
            streams = self.pending.setdefault(tenant, {})
            _remember(streams, stream, seq)
            self._start_round()

    def take_ping(self, member: Connection) -> None:
        """A page asks whether the socket lives: the answer also says that its session still does."""
        self.pinged.add(member)
        self._start_round()

    def leave(self, member: Connection) -> None:
        """Forget a socket that has ended."""
        self.members.discard(member)
        self.pinged.discard(member)
        if member.sending is not None:
            member.sending.cancel()

    def _start_round(self) -> None:
        if self.round is None or self.round.done():
            # A hint comes with the context of the request that wrote: its thread is gone when the round asks.
            fresh = contextvars.Context()
            self.round = asyncio.get_running_loop().create_task(self._run(), context=fresh)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self.pending or self.pinged:
            await asyncio.sleep(max(0.0, self.last_round_at + WINDOW_S - loop.time()))
            self.last_round_at = loop.time()
            pending, self.pending = self.pending, {}
            pinged, self.pinged = self.pinged, set()
            asked = list(self.members) if pending else list(pinged & self.members)
            try:
                answers = await database_sync_to_async(session_check.check_sessions)(
                    {each.session_key for each in asked}
                )
            except Exception:
                # Unknown is no: nothing is sent in this round, and the pages' polls find what came.
                _log.exception("the live sockets could not be checked")
                continue
            for member in asked:
                _tell(member, answers[member.session_key], pending, ponged=member in pinged)


def _tell(
    member: Connection, answer: Valid | CloseCode, pending: dict[str, dict[str, int]], *, ponged: bool
) -> None:
    if isinstance(answer, CloseCode):
        member.refused = answer
        member.waiting.clear()
    else:
        member.owes_pong = member.owes_pong or ponged
        for stream, seq in pending.get(answer.tenant, {}).items():
            _remember(member.waiting, stream, seq)
    member.wake()


def _files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _remember(streams: dict[str, int], stream: str, seq: int) -> None:
    streams[stream] = max(seq, streams.get(stream, 0))
    if len(streams) > STREAM_LIMIT:
        del streams[next(iter(streams))]
