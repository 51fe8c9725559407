"""Processes of a stack under test: each in a session of its own, with its log, and never left behind."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Process:
    """One program; a kill reaches its whole session, as a machine that loses power would."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    log: Path
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; the log is appended to."""
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                self.argv,
                cwd=ROOT,
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # a killed test run must not leave a server behind
            )

    def alive(self) -> bool:
        """Whether it runs now."""
        return self.running is not None and self.running.poll() is None

    def ended(self) -> bool:
        """Whether it was started and has ended by itself."""
        return self.running is not None and self.running.poll() is not None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole session."""
        assert self.running is not None, f"{self.name} is not running"
        os.killpg(self.running.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.running is not None:
            self._end(signal.SIGKILL)

    def stop(self, *, timeout_s: float = 10) -> None:
        """SIGTERM, then SIGKILL."""
        if self.running is not None:
            self._end(signal.SIGTERM, timeout_s=timeout_s)

    def tail(self, lines: int = 30) -> str:
        """The end of the log, for a failure's message."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([f"--- {self.name} ---", *text.splitlines()[-lines:]])

    def _end(self, number: signal.Signals, *, timeout_s: float = 10) -> None:
        assert self.running is not None
        try:
            os.killpg(self.running.pid, number)
            self.running.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.running.pid, signal.SIGKILL)
            self.running.wait(timeout=60)
        except ProcessLookupError:
            self.running.wait(timeout=60)
        self.running = None


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The variables a stack gets: none of the caller's settings may leak into it."""
    kept = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "TMPDIR"}
    base = {name: value for name, value in os.environ.items() if name in kept}
    return {**base, "PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "dir_console.settings", **extra}


def inherited_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The variables of this test run: for a process that works on the test's own database."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "dir_console.settings", **extra}


def python(*words: str) -> list[str]:
    """An argv that runs this interpreter."""
    return [sys.executable, *words]
