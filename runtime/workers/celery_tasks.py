"""The production work queue: Celery carries the ids of intents and guard runs, the rows decide.

No countdown and no retry of Celery's own: a redelivered message would run twice. Retry times live in the
row; the sweeper queues again whatever a lost message left behind.
"""

import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from celery import shared_task
from django.db import connection

from runtime.workers import embedded, guard_threads, sweep_rounds

QUEUE_LIMIT = 1000
PAUSE_S = 5.0
FULL_PAUSE_S = 1.0
LEAST_SWEEP_S = 0.5

_swept_at_s = float("-inf")
_log = logging.getLogger(__name__)


@shared_task(name="runtime.attempt", acks_late=True, ignore_result=True)
def attempt(intent_id: str) -> None:
    """Attempt one intent."""
    owner = f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}"[:80]
    embedded.attempt_quietly(UUID(intent_id), owner=owner)


@shared_task(name="runtime.guard", acks_late=True, ignore_result=True)
def guard(run_id: str) -> None:
    """Run one guard on one proposal."""
    guard_threads.run_quietly(int(run_id))


@shared_task(name="runtime.sweep", ignore_result=True)
def sweep() -> None:
    """One round of the sweeper; beat sends it every second; what piled up in between is skipped."""
    global _swept_at_s
    if time.monotonic() - _swept_at_s < LEAST_SWEEP_S:
        return
    _swept_at_s = time.monotonic()
    try:
        sweep_rounds.run()
    finally:
        connection.close()


class Ringer:
    """Sends ids to the broker from a thread of its own: a hung Redis once held a request for a minute.

    The queue is bounded, sends have timeouts (the broker's transport options), and after a failure nothing is
    sent for PAUSE_S. Dropping is fine, because the sweeper queues again.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._ids: queue.Queue[tuple[Any, UUID | int]] = queue.Queue(QUEUE_LIMIT)
        self._quiet_until = 0.0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def is_pausing(self) -> bool:
        """Whether offers are dropped just now."""
        return time.monotonic() < self._quiet_until

    def offer(self, task: Any, ids: Sequence[UUID | int]) -> None:
        """Take ids, or drop them when the queue is full or the broker failed a moment ago. Never waits."""
        if self.is_pausing:
            return
        try:
            for item in ids:
                self._ids.put_nowait((task, item))
        except queue.Full:
            _log.warning("the wake-up queue is full; the sweeper will queue the rest")
            self._quiet_until = time.monotonic() + FULL_PAUSE_S
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="ringer", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            task, item = self._ids.get()
            try:
                task.apply_async((str(item),), retry=False)
            except Exception as error:
                _log.warning("the broker cannot be reached (%s); pausing %s s", type(error).__name__, PAUSE_S)
                self._quiet_until = time.monotonic() + PAUSE_S
                self._empty()

    def _empty(self) -> None:
        try:
            while True:
                self._ids.get_nowait()
        except queue.Empty:
            return


_ringer = Ringer()


def ring(intent_ids: Sequence[UUID]) -> None:
    """Tell the workers; returns at once."""
    this_ringer().offer(attempt, intent_ids)


def ring_guards(run_ids: Sequence[int]) -> None:
    """The same for guards that are to look."""
    this_ringer().offer(guard, run_ids)


def this_ringer() -> Ringer:
    """The ringer of this process: after a fork the parent's thread and locks are not ours."""
    global _ringer
    if _ringer.pid != os.getpid():
        _ringer = Ringer()
    return _ringer
