"""Ties a child process to its parent's life, whatever ends the parent."""

import ctypes
import os
import signal
import sys
import threading
import time

PARENT_ENV = "DIR_DEMO_PARENT"
"""Process id of the launcher, so that a child started just as its parent died still notices."""

_PR_SET_PDEATHSIG = 1
_WATCH_S = 0.5
_GRACE_S = 3.0


def bind() -> None:
    """Ask the kernel for SIGTERM at the parent's death, and watch for it where the kernel cannot.

    The kernel signals when the parent's *thread* that spawned us ends, so a launcher must spawn
    from a thread that lives as long as the child should.
    """
    parent_pid = int(os.environ.get(PARENT_ENV) or os.getppid())
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if parent_pid > 1:
        threading.Thread(target=_watch, args=(parent_pid,), name="lifeline", daemon=True).start()


def stop_when_told(stop: threading.Event) -> None:
    """Set ``stop`` at SIGTERM, at SIGINT, and at the parent's end."""
    bind()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())


def _watch(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(_WATCH_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os._exit(1)
