"""Hints that a stream has grown. A hint carries no content: losing every one of them costs seconds.

A hint reaches the pages and long polls of this process over the event loop, and other processes over the
channel layer where one is shared (`audit.live.hint_relay`). `hint` is called from request threads, workers
and sweepers; everything else here runs on a server's event loop.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from django.db import transaction

from audit.live import hint_relay
from audit.live.socket_hub import SocketHub

POLL_S = 2.0  # the longest a listener sleeps without looking: hints may be lost

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class LoopListeners:
    """Who listens on one event loop; touched on that loop only."""

    loop: asyncio.AbstractEventLoop
    bells: dict[str, set[asyncio.Event]] = field(default_factory=dict)
    room: SocketHub = field(default_factory=SocketHub)

    def deliver(self, tenant: str, stream: str, seq: int) -> None:
        """Ring everyone who waits for the stream, and tell the open pages."""
        for bell in self.bells.get(stream, ()):
            bell.set()
        self.room.take_hint(tenant, stream, seq)


_boards: dict[asyncio.AbstractEventLoop, LoopListeners] = {}
_boards_lock = threading.Lock()


def hint_after_commit(*, tenant: str, streams: Iterable[str], seq: int) -> None:
    """Tell every listener of these streams once the caller's transaction is committed, and only then."""
    for stream in streams:
        transaction.on_commit(partial(hint, tenant=tenant, stream=stream, seq=seq), robust=True)


def hint(*, tenant: str, stream: str, seq: int) -> None:
    """Tell every listener that `stream` has reached `seq`; call after the commit, from any thread.

    Never raises and never waits for the network: a page that misses it looks again by itself.
    """
    try:
        _tell_boards(tenant, stream, seq)
        hint_relay.publish(tenant=tenant, stream=stream, seq=seq)
    except Exception:
        # The state is committed: whatever goes wrong here must not look like a failure of the request.
        _log.exception("a live hint was dropped")


def register_loop(loop: asyncio.AbstractEventLoop) -> LoopListeners:
    """Register a server's event loop; done by itself at the first socket or long poll on it."""
    board = _boards.get(loop)
    if board is None:
        with _boards_lock:
            for closed in [known for known in _boards if known.is_closed()]:
                del _boards[closed]
            board = _boards.setdefault(loop, LoopListeners(loop))
        hint_relay.listen(_tell_boards)
    return board


def this_board() -> LoopListeners:
    """The board of the running event loop."""
    return register_loop(asyncio.get_running_loop())


@asynccontextmanager
async def listening(*streams: str) -> AsyncIterator[asyncio.Event]:
    """An event that is set by each hint for one of the streams. Enter it before reading the database.

    A reader that looks first and listens then loses the hint that falls between.
    """
    bells = this_board().bells
    bell = asyncio.Event()
    for stream in streams:
        bells.setdefault(stream, set()).add(bell)
    try:
        yield bell
    finally:
        for stream in streams:
            bells[stream].discard(bell)
            if not bells[stream]:
                del bells[stream]


async def ring_or_timeout(bell: asyncio.Event, timeout_s: float) -> bool:
    """Wait for the bell of `listening`, at most `timeout_s` and at most POLL_S; True when it rang."""
    try:
        # Not wait_for: on Python 3.11 it loses a cancellation that comes together with the bell.
        async with asyncio.timeout(min(timeout_s, POLL_S)):
            await bell.wait()
    except TimeoutError:
        return False
    bell.clear()
    return True


async def wait(stream: str, timeout_s: float) -> bool:
    """Return at the next hint for `stream`, after `timeout_s` or after POLL_S, whichever comes first.

    True means a hint came. Read the database again in either case.
    """
    async with listening(stream) as bell:
        return await ring_or_timeout(bell, timeout_s)


def _tell_boards(tenant: str, stream: str, seq: int) -> None:
    for board in list(_boards.values()):
        if not board.loop.is_closed():
            board.loop.call_soon_threadsafe(board.deliver, tenant, stream, seq)
