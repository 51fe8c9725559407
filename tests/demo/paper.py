"""The paper broker as a process of its own, for tests: start, control, count, stop."""

import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dir_console.demo.wire import Answer, Wire

START_S = 20.0


class PaperBroker:
    """One broker with one file; starting it again finds the same book."""

    def __init__(self, *, db: Path, secret: str = "", market: str = "open") -> None:
        self.port = 0
        self._db, self._secret, self._market = db, secret, market
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process and wait for its ready line."""
        argv = [sys.executable, "-m", "dir_console.demo.broker", "--port", str(self.port)]
        argv += ["--db", str(self._db), "--market", self._market]
        env = {**os.environ, "BROKER_SECRET": self._secret}
        self._process = subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        ready, _, _ = select.select([self._process.stderr], [], [], START_S)
        line = self._process.stderr.readline() if ready else "nothing"
        assert line.startswith("broker ready on "), f"the broker said {line!r}"
        self.port = int(line.split()[-1])  # any free one at first, the same one after a crash

    @property
    def base_url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def pid(self) -> int:
        """Process id of the running broker."""
        assert self._process is not None
        return self._process.pid

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

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str = "",
        timeout_s: float = 10,
    ) -> Answer:
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

    def effects(self) -> list[dict[str, Any]]:
        """Every stored effect, oldest first."""
        rows: list[dict[str, Any]] = []
        while True:
            after = rows[-1]["id"] if rows else 0
            page = self.call("GET", f"/effects?after={after}&limit=1000").body["effects"]
            rows += page
            if not page:
                return rows

    def _reap(self) -> int:
        assert self._process is not None
        try:
            return self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(timeout=10)
        finally:
            if self._process.stderr is not None:
                self._process.stderr.close()
            self._process = None


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
