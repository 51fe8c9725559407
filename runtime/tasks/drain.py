"""The embedded work queue: intent rows, a finder, four attempt threads, a sweeper, and guards.

Rows are the truth; the bell only shortens the wait. Other processes cannot ring it, so the finder also looks
by itself, at most a second apart.
"""

import logging
import os
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

from django.db import connection

from runtime.queries import clock, intents
from runtime.services import execution, races, sweeping
from runtime.tasks import guards

ATTEMPT_THREADS = 4
# One slow target must not block the rest.
PER_TARGET = 2
POLL_S = 1.0
SWEEP_S = 1.0
_LOOK_AHEAD = 50
_AFTER_ERROR_S = 1.0

_log = logging.getLogger(__name__)
_bell = threading.Event()


def ring(intent_ids: Sequence[UUID]) -> None:
    """Wake the finder of this process, where it has one."""
    _bell.set()


class Drain:
    """Attempts due intents until it is stopped. One per process, and one process per data folder."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._work: queue.SimpleQueue[intents.Due | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._taken: dict[UUID, str] = {}
        self._resting: dict[UUID, float] = {}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads and return."""
        self._begin("finder", self._find)
        self._begin("sweeper", self._sweep)
        for number in range(ATTEMPT_THREADS):
            self._begin(f"attempts-{number}", self._attempt)
        for number in range(guards.THREADS):
            self._begin(f"guards-{number}", lambda: guards.serve(self._stopping))

    def stop(self, *, timeout_s: float) -> bool:
        """Take no more work and wait for the calls under way; True when all of them have been recorded.

        What was found but not claimed stays in its row. A call that outlives `timeout_s` is found at the next
        start, as an attempt of unknown result.
        """
        self._stopping.set()
        _bell.set()
        guards.ring(())
        for _ in range(ATTEMPT_THREADS):
            self._work.put(None)
        ends_at = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, ends_at - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _begin(self, name: str, target: Callable[[], None]) -> None:
        def run() -> None:
            try:
                target()
            finally:
                connection.close()

        thread = threading.Thread(target=run, name=f"drain-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _find(self) -> None:
        wait_s = 0.0
        while not self._stopping.is_set():
            _bell.wait(wait_s)
            _bell.clear()
            try:
                wait_s = self._hand_out()
            except Exception:
                _log.exception("the finder failed")
                connection.close()
                wait_s = _AFTER_ERROR_S
            execution.give_back_connection()

    def _hand_out(self) -> float:
        """Give due intents to the attempt threads; seconds until it is worth looking again."""
        with self._lock:
            now = time.monotonic()
            self._resting = {pk: until for pk, until in self._resting.items() if until > now}
            busy = Counter(self._taken.values())
            without = self._taken.keys() | self._resting.keys()
        full = {target for target, calls in busy.items() if calls >= PER_TARGET}
        at = clock.now()
        found = intents.list_due(at=at, limit=_LOOK_AHEAD, without=without, without_targets=full)
        for due in found:
            if busy[due.target] < PER_TARGET:
                busy[due.target] += 1
                with self._lock:
                    self._taken[due.intent_id] = due.target
                self._work.put(due)
        if len(found) == _LOOK_AHEAD:
            # A long queue of one target may hide the others: look again past it.
            return 0.0
        next_at = intents.get_next_due_at(after=at)
        soon = POLL_S if next_at is None else (next_at - at) / timedelta(seconds=1)
        return min(POLL_S, soon)

    def _attempt(self) -> None:
        owner = f"{socket.gethostname()}:{os.getpid()}:{threading.current_thread().name}"[:80]
        while (due := self._work.get()) is not None:
            whole = self._stopping.is_set() or attempt_quietly(due.intent_id, owner=owner)
            with self._lock:
                del self._taken[due.intent_id]
                if not whole:
                    # It is still due: without a rest it would be found again at once, and for ever.
                    self._resting[due.intent_id] = time.monotonic() + _AFTER_ERROR_S
            # The next intent of this target may have waited for this place.
            _bell.set()

    def _sweep(self) -> None:
        while not self._stopping.wait(SWEEP_S):
            try:
                sweeping.sweep()
            except Exception:
                _log.exception("the sweeper failed")
                connection.close()
            execution.give_back_connection()


def attempt_quietly(intent_id: UUID, *, owner: str) -> bool:
    """Attempt an intent; False when something went wrong, which is logged: its row waits for a next round."""
    try:
        execution.attempt(intent_id, owner=owner)
    except races.BusyError:
        _log.info("intent %s is contended; it waits for the next round", intent_id)
        return False
    except Exception:
        _log.exception("the attempt of intent %s failed", intent_id)
        connection.close()
        return False
    finally:
        execution.give_back_connection()
    return True
