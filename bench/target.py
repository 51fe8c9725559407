"""A target on loopback that takes every call at once, and remembers when each new key arrived."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = b'{"order_id":"o1"}'


@dataclass
class Target:
    """A running target; `arrivals` maps each key to the moment of its first call, by `time.time()`.

    `repeats` are the keys that came again.
    """

    port: int = 0
    arrivals: dict[str, float] = field(default_factory=dict)
    repeats: list[str] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def last_at(self) -> float:
        """When the newest effect came."""
        return max(self.arrivals.copy().values(), default=0.0)


@contextlib.contextmanager
def running() -> Iterator[Target]:
    """A target in a thread of this process."""
    target = Target()

    class Request(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            key, at = self.headers["Idempotency-Key"], time.time()
            if target.arrivals.setdefault(key, at) != at:
                target.repeats.append(key)
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
    server.daemon_threads = True
    target.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield target
    finally:
        server.shutdown()
        server.server_close()
