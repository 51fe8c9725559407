"""The production work queue: Celery carries the ids of intents and guard runs, the rows decide.

No countdown and no retry of Celery's own: a redelivered message would run twice. Retry times live in the
row; the sweeper queues again whatever a lost message left behind.
"""

import itertools
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from celery import shared_task
from django.conf import settings
from django.db import connection

from audit.live.background import BackgroundSender, PerProcess
from runtime.core import ports
from runtime.execution.services import result_asking, tool_looks
from runtime.maintenance.services import (
    fact_pruning,
    payload_rounds,
    replay_runs,
    retention,
    scoring,
    sealing,
    witnessing,
)
from runtime.outward.services import sending
from runtime.workers import embedded, guard_threads, sweep_rounds

QUEUE_LIMIT = 1000
PAUSE_S = 5.0
FULL_PAUSE_S = 1.0
LEAST_SWEEP_S = 0.5

_swept_at_s = float("-inf")
_log = logging.getLogger(__name__)


@shared_task(name="runtime.attempt", acks_late=True, ignore_result=True)
def attempt(*intent_ids: str) -> None:
    """Attempt intents, which were rung for at about the same time."""
    owner = f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}"[:80]
    embedded.attempt_all([UUID(intent_id) for intent_id in intent_ids], owner=owner)


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


@shared_task(name="runtime.seal", ignore_result=True)
def seal() -> None:
    """Seal what was committed; beat sends this every second, and of several at once one does it."""
    try:
        sealing.seal_now()
    finally:
        connection.close()


@shared_task(name="runtime.number", ignore_result=True)
def number() -> None:
    """Give leaves to what was committed and numbers to writes of facts; sent five times a second."""
    try:
        sealing.add_waiting()
    finally:
        connection.close()


@shared_task(name="runtime.score", ignore_result=True)
def score() -> None:
    """Score the records of flows that have ended; beat sends this every second, and any number may run."""
    try:
        scoring.score_due()
    finally:
        connection.close()


@shared_task(name="runtime.erase_due", ignore_result=True)
def erase_due() -> None:
    """Erase what is over its time, and encrypt payloads anew; sent every minute, and any number may run."""
    try:
        retention.erase_due(tenant=settings.DIR_TENANT)
        fact_pruning.prune_due(tenant=settings.DIR_TENANT)
        payload_rounds.move_due(tenant=settings.DIR_TENANT)
    finally:
        connection.close()


@shared_task(name="runtime.replay", ignore_result=True)
def replay() -> None:
    """Work on the run that replays all flows, if there is one; beat sends this every second, one does it."""
    try:
        replay_runs.work_due()
    finally:
        connection.close()


@shared_task(name="runtime.send_checkpoints", ignore_result=True)
def send_checkpoints() -> None:
    """Send the newest checkpoint to witnesses whose turn it is; beat sends this where there are any."""
    try:
        witnessing.send_due()
    finally:
        connection.close()


@shared_task(name="runtime.send_notices", ignore_result=True)
def send_notices() -> None:
    """Send the notices that are due; beat sends this every second, and any number may run at once."""
    try:
        ports.send_notices(is_stopping=lambda: False)
    finally:
        connection.close()


@shared_task(name="runtime.send_events", ignore_result=True)
def send_events() -> None:
    """Send events to receivers outside; beat sends this every second, and any number may run at once."""
    try:
        sending.send_due()
    finally:
        connection.close()


@shared_task(name="runtime.look_at_tools", ignore_result=True)
def look_at_tools() -> None:
    """Look at the MCP servers that are due; beat sends this every two seconds, and any number may run."""
    try:
        tool_looks.look_due()
    finally:
        connection.close()


@shared_task(name="runtime.ask_for_results", ignore_result=True)
def ask_for_results() -> None:
    """Ask targets for results that are due; beat sends this every second, and any number may run at once."""
    try:
        result_asking.ask_due()
    finally:
        connection.close()


class Ringer(BackgroundSender[int, tuple[Any, UUID | int]]):
    """Sends ids to the broker, each as often as it was given.

    Intents that wait for the same moment go in one message, so that one worker claims them together. Sends
    have timeouts (the broker's transport options). Dropping is fine, because the sweeper queues again.
    """

    def __init__(self) -> None:
        super().__init__(
            name="ringer",
            connect=lambda: _send,
            on_failure=lambda error: _log.warning(
                "the broker cannot be reached (%s); pausing %s s", type(error).__name__, PAUSE_S
            ),
            limit=QUEUE_LIMIT,
            batch=embedded.TOGETHER,
            pause_s=PAUSE_S,
        )
        self._numbers = itertools.count()

    def ring(self, task: Any, ids: Sequence[UUID | int]) -> None:
        """Take ids for a task, or drop them when the queue is full or the broker failed a moment ago."""
        for item in ids:
            if not self.offer(next(self._numbers), (task, item)):
                if not self.is_pausing:
                    _log.warning("the wake-up queue is full; the sweeper will queue the rest")
                    self.pause(FULL_PAUSE_S)
                return


def _send(batch: Sequence[tuple[int, tuple[Any, UUID | int]]]) -> None:
    for task, rung in itertools.groupby((one for _, one in batch), key=lambda one: one[0]):
        ids = [str(item) for _, item in rung]
        # A guard may take long, and is alone in its message.
        for together in [ids] if task is attempt else [[one] for one in ids]:
            task.apply_async(tuple(together), retry=False)


ringers = PerProcess(Ringer)


def ring(intent_ids: Sequence[UUID]) -> None:
    """Wake the workers; returns at once."""
    ringers.get().ring(attempt, intent_ids)


def ring_guards(run_ids: Sequence[int]) -> None:
    """The same for guards that are to look."""
    ringers.get().ring(guard, run_ids)
