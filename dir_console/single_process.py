"""Parts of `manage.py up`: the folder's lock, the port, and a server that ends its drain and demo too."""

import asyncio
import fcntl
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from dir_console import connections, env
from runtime.workers.embedded import Drain

# Together with uvicorn's own grace they stay under ten seconds.
DRAIN_STOP_S = 6.0
GRACE_S = 2
BACKLOG = 1024


class FolderBusyError(Exception):
    """Another process has the data folder."""


class PortTakenError(Exception):
    """Another process listens on the port."""


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the data folder for this process alone; the kernel lets go when the process ends, however it ends.

    The folder itself is locked: a lock file can be removed under a running server. Never the database file:
    SQLite loses its own locks when any descriptor of that file is closed. Raises `FolderBusyError`.
    """
    env.make_private(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderBusyError from error
        yield
    finally:
        os.close(handle)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that a port in use is reported before anything else happens.

    Whoever calls before the server is ready waits for it. Raises `PortTakenError`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise PortTakenError(error.strerror) from error
    return bound


def free_port(wanted: int) -> int:
    """`wanted` where it is free on the loopback address, else another that is."""
    for port in (wanted, 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise PortTakenError("no port is free on the loopback address")


class EmbeddedServer(uvicorn.Server):
    """uvicorn, with the drain and the demo started after it listens and ended before it stops.

    uvicorn raises SIGTERM again when it has ended, so nothing after `run()` can be relied on.
    """

    def __init__(
        self, config: uvicorn.Config, *, on_ready: Callable[[], None], on_stop: list[Callable[[], Any]]
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._drain = Drain()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then work: what the drain executes may call back."""
        await super().startup(sockets)
        if not self.should_exit:
            self._drain.start()
            await asyncio.to_thread(self._on_ready)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the demo and finish the calls under way, then the server."""
        ends = [*self._on_stop, lambda: self._drain.stop(timeout_s=DRAIN_STOP_S)]
        await asyncio.gather(*(asyncio.to_thread(end) for end in ends), return_exceptions=True)
        await super().shutdown(sockets)


def serve(
    bound: socket.socket, *, on_ready: Callable[[], None], on_stop: list[Callable[[], Any]], log_level: str
) -> None:
    """Serve until SIGTERM or Ctrl-C, and return."""
    connections.raise_file_limit()
    config = uvicorn.Config(
        "dir_console.asgi:application",
        http=connections.PatientProtocol,
        backlog=connections.backlog(),
        log_level=log_level,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    # uvicorn hands the signal on after its shutdown: to these, so that a clean end is no death by signal.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    EmbeddedServer(config, on_ready=on_ready, on_stop=on_stop).run(sockets=[bound])
