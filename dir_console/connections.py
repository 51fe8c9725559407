"""The HTTP connections of one server: none waits for ever for its client, and there are not too many.

uvicorn bounds only the time between two requests. Here a head has HEAD_S and a whole request REQUEST_S to
come, and an answer REQUEST_S to be taken. Where there are too many connections, the one that has been waited
for longest ends. A request that has come whole is never cut: long polls and live sockets last as they like.
"""

import asyncio
import resource
from collections import Counter
from typing import Any, Final
from weakref import WeakKeyDictionary

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from dir_console import addresses

HEAD_S: Final = 10.0
REQUEST_S: Final = 30.0
MOST_FILES: Final = 65_536
MOST_CONNECTIONS: Final = 4096
# A request at work needs a connection of its own to the database: three files on SQLite.
FILES_PER_CONNECTION: Final = 5
LONGEST_BACKLOG: Final = 1024

_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
)


def raise_file_limit() -> None:
    """Take as many open files as the system lets this process have, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> int:
    """How many connections there may be at once, from the files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, soft // FILES_PER_CONNECTION))


def backlog() -> int:
    """How many may come between two looks: the event loop takes them all before it can turn one out."""
    return min(LONGEST_BACKLOG, most_connections())


class Door:
    """Who is connected to one server, and which of them the server waits for, the longest first."""

    def __init__(self, *, total: int, per_address: int) -> None:
        self.total = total
        self.per_address = per_address
        self.inside: set[PatientProtocol] = set()
        self.waited_for: dict[PatientProtocol, None] = {}
        self._of_address: Counter[str] = Counter()

    def let_in(self, guest: "PatientProtocol") -> bool:
        """Let a connection in; where it is full, one that is waited for must go. False where none is."""
        crowded = self._of_address[guest.address] >= self.per_address
        if crowded or len(self.inside) >= self.total:
            others = (each for each in self.waited_for if not crowded or each.address == guest.address)
            leaving = next(others, None)
            if leaving is None:
                return False
            self.see_off(leaving)
            leaving.transport.abort()
        self.inside.add(guest)
        self._of_address[guest.address] += 1
        return True

    def see_off(self, guest: "PatientProtocol") -> None:
        """Forget a connection; harmless when it was forgotten before."""
        self.waited_for.pop(guest, None)
        if guest in self.inside:
            self.inside.remove(guest)
            self._of_address[guest.address] -= 1
            if not self._of_address[guest.address]:
                del self._of_address[guest.address]


_doors: WeakKeyDictionary[ServerState, Door] = WeakKeyDictionary()


def door_of(server: ServerState) -> Door:
    """The one door of a server. Behind a proxy all come from its address, so none is bounded by that."""
    door = _doors.get(server)
    if door is None:
        total = most_connections()
        per_address = total if settings.DIR_PROXY_DEPTH else max(1, total // 2)
        door = _doors[server] = Door(total=total, per_address=per_address)
    return door


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol with an end to its patience."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.address = ""
        self.door = door_of(self.server_state)
        self._over: asyncio.TimerHandle | None = None
        self._untaken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Let it in, or turn it away at once."""
        super().connection_made(transport)
        self.address = addresses.network_of(self.client[0]) if self.client else ""
        if not self.door.let_in(self):
            transport.write(_FULL)
            transport.close()
            return
        self._wait_for_client()
        self._expect_within(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone, whoever ended it."""
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Any byte ends uvicorn's patience between two requests; where none is at work, ours begins."""
        super().data_received(data)
        is_over = self.transport.is_closing() or self not in self.door.inside
        if self._over is None and not is_over and not self._is_at_work():
            self._expect_within(HEAD_S)

    def on_message_begin(self) -> None:
        """The first byte of a request; that of a later one on the same connection starts a new time."""
        super().on_message_begin()
        if self._over is None:
            self._expect_within(HEAD_S)

    def on_headers_complete(self) -> None:
        """The head has come; the body has its own time."""
        self._expect_within(REQUEST_S - HEAD_S)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request has come whole: from here on the server is the one that is waited for."""
        self._expect_within(None)
        self.door.waited_for.pop(self, None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Answered: the connection waits for its client again, and uvicorn bounds how long.

        Unless the next request has come meanwhile, which uvicorn has just begun.
        """
        super().on_response_complete()
        if not self.transport.is_closing() and not self._is_at_work():
            self._wait_for_client()

    def handle_websocket_upgrade(self) -> None:
        """A live socket: those are counted in their room, and each is a signed-in person's."""
        self._leave()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        """The client takes its answer too slowly."""
        super().pause_writing()
        self._untaken = self.loop.call_later(REQUEST_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It takes again."""
        super().resume_writing()
        self._stop_minding_answer()

    def _wait_for_client(self) -> None:
        if self in self.door.inside:
            self.door.waited_for.pop(self, None)
            self.door.waited_for[self] = None

    def _expect_within(self, seconds: float | None) -> None:
        if self._over is not None:
            self._over.cancel()
        self._over = None if seconds is None else self.loop.call_later(seconds, self._turn_out)

    def _turn_out(self) -> None:
        self._over = None
        if self.transport.is_closing():
            return
        if self._is_at_work():
            # An earlier request of the same connection is at work, and is not to be cut for a later one.
            self._expect_within(HEAD_S)
            return
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(_TOO_SLOW)
        self.transport.close()

    def _is_at_work(self) -> bool:
        """Whether a request that has come whole is not answered yet."""
        cycle = self.cycle
        is_idle = cycle is None or cycle.response_complete or cycle.more_body
        return bool(self.pipeline) or not is_idle

    def _leave(self) -> None:
        self.door.see_off(self)
        self._expect_within(None)
        self._stop_minding_answer()

    def _stop_minding_answer(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None
