"""Targets on the loopback address that misbehave in one way each, and count what reached them."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answering = Callable[[BaseHTTPRequestHandler], object]


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    # Of the caller: two requests over one connection have the same.
    port: int


@dataclass
class StandIn:
    """A running target: `seen` grows with each request; `release` lets the slow ones go."""

    port: int
    seen: list[Seen] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def answer(status: int, body: bytes = b'{"ok":true}', *, headers: dict[str, str] | None = None) -> Answering:
    """Answer so, at once and whole."""

    def write(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return write


def drop(request: BaseHTTPRequestHandler) -> None:
    """Read the request and hang up."""
    request.connection.shutdown(socket.SHUT_RDWR)


def cut(request: BaseHTTPRequestHandler) -> None:
    """Promise more than is sent."""
    request.send_response(200)
    request.send_header("Content-Length", "100")
    request.end_headers()
    request.wfile.write(b'{"ok":')
    request.connection.shutdown(socket.SHUT_RDWR)


def endless(request: BaseHTTPRequestHandler) -> None:
    """A body without an end, as fast as it is read."""
    request.send_response(200)
    request.end_headers()
    try:
        while True:
            request.wfile.write(b"x" * 4096)
    except OSError:
        pass


@contextmanager
def stand_in(answering: Answering, *, is_held: bool = False, keeps: bool = False) -> Iterator[StandIn]:
    """A target that treats every request with `answering`; a held one only once it is released.

    It closes each connection after one answer, and says so; with `keeps` it leaves it open for the next call.
    """
    target = StandIn(port=0)

    class Request(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two packets: the second must not wait for an ACK

        def _treat(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            port = self.client_address[1]
            target.seen.append(Seen(self.command, self.path, dict(self.headers.items()), body, port))
            self.close_connection = not keeps
            if is_held:
                target.release.wait(10)
            answering(self)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _treat

        def end_headers(self) -> None:
            if not keeps:
                self.send_header("Connection", "close")
            super().end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A peer that hung up is what these tests are about."""

    server = Server(("127.0.0.1", 0), Request)
    target.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield target
    finally:
        target.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def trickle(request: BaseHTTPRequestHandler) -> None:
    """A head that comes one byte at a time, each soon enough to keep a reader waiting."""
    pause = threading.Event()
    try:
        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 10_000:
            request.wfile.write(bytes([byte]))
            pause.wait(0.02)
    except OSError:
        pass


def as_json(body: bytes) -> Any:
    return json.loads(body)
