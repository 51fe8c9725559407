"""The whole application under a real uvicorn, on a port of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from dir_console.asgi import application
from tests.support.wait_until import until


@contextmanager
def on_a_port() -> Iterator[int]:
    """The port of a running server, for tests with a database of their own (`real_db`)."""
    config = uvicorn.Config(application, port=0, log_level="critical", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    try:
        yield int(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(timeout=60)
