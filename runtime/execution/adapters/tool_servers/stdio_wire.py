"""MCP over stdio: a command of this installation, started for one conversation and killed after it.

It gets a clean environment, an empty folder of its own that is deleted afterwards, and limits (`bounded.py`).
One JSON message a line; whatever else a server writes ends the conversation.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final

from audit import canonical
from runtime.contracts.receipt import FailureCategory
from runtime.execution.adapters.tool_servers import wire
from runtime.execution.adapters.tool_servers.wire import Gate, WireError

C = FailureCategory
_BOUNDED: Final = str(Path(__file__).with_name("bounded.py"))
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_PIECE: Final = 65_536
_UNREADABLE: Final = "the server wrote what is no answer to the request; the call may have taken effect"


class StdioWire:
    """A conversation with a command, which ends `timeout_s` after it began.

    `variables` are those of this process that the command is given by name; nothing else of it is. It runs as
    `user`, or as this process does where that is empty.
    """

    def __init__(
        self, *, command: tuple[str, ...], variables: tuple[str, ...], user: str, timeout_s: float
    ) -> None:
        self._command = command
        self._user = user
        self._variables = variables
        self._ends_at = time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._folder: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._read = b""

    def agree(self, version: str) -> None:
        """Nothing: over stdio a version is not named again."""

    def ask(self, message: dict[str, Any], *, gate: Gate, most_bytes: int) -> dict[str, Any]:
        """Send a request and wait for its answer; see `Wire`."""
        process = self._running()
        self._write(process, message, gate=gate)
        taken = 0
        while True:
            line = self._line(process, most_bytes=most_bytes - taken)
            taken += len(line)
            if not line.strip():
                continue
            found = wire.read(line, sent_words=_UNREADABLE)
            if wire.is_answer_to(found, message["id"]):
                return found

    def tell(self, message: dict[str, Any]) -> None:
        """Send a notification; see `Wire`."""
        self._write(self._running(), message, gate=nullcontext)

    def close(self) -> None:
        """Kill the command with everything that it started, and delete its folder."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
            process.wait()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        self._folder = tempfile.mkdtemp(prefix="dir-tool-")
        # The interpreter only sets the limits, and becomes the command.
        bounds = [sys.executable, "-I", "-S", _BOUNDED, str(max(1, int(self._timeout_s) + 1)), self._user]
        words = [*bounds, *self._command]
        try:
            if self._user:
                shutil.chown(self._folder, self._user)
            self._process = subprocess.Popen(  # noqa: S603  # the words are of the deployment's settings
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=clean_environment(self._variables, os.environ, home=self._folder),
                cwd=self._folder,
                start_new_session=True,
            )
        except (OSError, LookupError):
            words_of = "the command of the server cannot be started; nothing was sent"
            raise WireError(C.CONNECT_FAILED, words_of, sent=False) from None
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        return self._process

    def _write(self, process: subprocess.Popen[bytes], message: dict[str, Any], *, gate: Gate) -> None:
        left = memoryview(canonical.encode(message) + b"\n")
        pipe = process.stdin
        if pipe is None:
            raise AssertionError("unreachable: the pipe was asked for")
        sent = False
        try:
            # Before the gate, inside which nothing waits: it holds a transaction.
            self._wait(write=pipe.fileno(), sent=False)
            with gate():
                sent = True
                left = left[os.write(pipe.fileno(), left) :]
            while left:
                self._wait(write=pipe.fileno(), sent=True)
                left = left[os.write(pipe.fileno(), left) :]
        except OSError:
            # `sent` from the first attempt to write on: what the pipe took of it, nobody knows.
            raise _ended(sent=sent) from None

    def _line(self, process: subprocess.Popen[bytes], *, most_bytes: int) -> bytes:
        pipe = process.stdout
        if pipe is None:
            raise AssertionError("unreachable: the pipe was asked for")
        while b"\n" not in self._read:
            if len(self._read) > most_bytes:
                raise WireError(C.ANSWER_TOO_LARGE, "the server writes more than is read", sent=True)
            self._wait(read=pipe.fileno(), sent=True)
            piece = os.read(pipe.fileno(), _PIECE)
            if not piece:
                raise _ended(sent=True)
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        if len(line) > most_bytes:
            raise WireError(C.ANSWER_TOO_LARGE, "the server writes more than is read", sent=True)
        return line + b"\n"

    def _wait(self, *, sent: bool, read: int | None = None, write: int | None = None) -> None:
        left_s = self._ends_at - time.monotonic()
        reads, writes = ([] if one is None else [one] for one in (read, write))
        if left_s <= 0 or not any(select.select(reads, writes, [], left_s)):
            raise WireError(C.TIMED_OUT, "no complete answer arrived in time", sent=sent)


def _ended(*, sent: bool) -> WireError:
    words = "the command of the server ended before the answer"
    return WireError(C.CONNECTION_LOST, words, sent=sent)


def clean_environment(names: tuple[str, ...], environment: Mapping[str, str], *, home: str) -> dict[str, str]:
    """What a command sees: a path, its own folder, and the variables that the deployment gives it by name."""
    given = {name: environment[name] for name in names if name in environment}
    return {"PATH": _PATH, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", **given}
