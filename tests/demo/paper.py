"""The paper broker for tests, as a process of its own or in a thread: start, control, count, stop."""

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demo.broker import Server
from demo.broker_http import handler_for
from demo.broker_state import Exchange
from demo.effect_store import Book
from demo.faults import Switch
from demo.http_client import HttpAnswer, Wire
from demo.market import Schedule, Walk

START_S = 60.0


class Paper:
    """What a test asks of a paper broker, wherever it runs."""

    port: int = 0

    @property
    def base_url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str = "",
        timeout_s: float = 10,
    ) -> HttpAnswer:
        """One unsigned call on a connection of its own, sent once."""
        wire = Wire(base_url=self.base_url, patience_s=0, timeout_s=timeout_s)
        try:
            return wire.call(method, path, body=body, headers={"Idempotency-Key": key} if key else {})
        finally:
            wire.close()

    def control(self, mode: str, **options: float) -> None:
        """Put a fault in force."""
        answer = self.call("POST", "/control", {"mode": mode, **options})
        assert answer.status == 200, answer.body

    def count(self) -> Mapping[str, int]:
        """The broker's own counters."""
        return self.call("GET", "/count").body


class PaperBroker(Paper):
    """One broker with one file in a process of its own; starting it again finds the same book."""

    def __init__(self, *, db: Path, secret: str = "", market: str = "open") -> None:
        self._db, self._secret, self._market = db, secret, market
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process and wait for its ready line."""
        argv = [sys.executable, "-m", "demo.broker", "--port", str(self.port)]
        argv += ["--db", str(self._db), "--market", self._market]
        env = {**os.environ, "BROKER_SECRET": self._secret}
        self._process = subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        ready, _, _ = select.select([self._process.stderr], [], [], START_S)
        line = self._process.stderr.readline() if ready else "nothing"
        assert line.startswith("broker ready on "), f"the broker said {line!r}"
        self.port = int(line.split()[-1])  # any free one at first, the same one after a crash

    def kill(self) -> None:
        """SIGKILL: the crash of a target."""
        assert self._process is not None
        self._process.kill()
        self._reap()

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        if self._process is None:
            return 0
        self._process.terminate()
        return self._reap()

    def _reap(self) -> int:
        assert self._process is not None
        try:
            return self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(timeout=60)
        finally:
            if self._process.stderr is not None:
                self._process.stderr.close()
            self._process = None


class ThreadBroker(Paper):
    """The same broker in a thread of the test, so that what it does is measured too."""

    def __init__(self, *, db: Path, secret: str = "", market: Schedule = Schedule.OPEN) -> None:
        self.exchange = Exchange(
            book=Book(path=db), walk=Walk(seed=7), schedule=market, switch=Switch(seed=7), secret=secret
        )
        self._server = Server(("127.0.0.1", 0), handler_for(self.exchange))
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it; calls that are being slowed end at once."""
        self.exchange.stopping.set()
        self._server.shutdown()
        self._thread.join(timeout=60)
        self._server.server_close()
        self.exchange.book.close()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie that nobody reaped counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
