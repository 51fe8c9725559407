"""The embedded work queue: intent rows, and a thread for each kind of work that is not a request's.

Rows are the truth; a wake-up only shortens the wait. Other processes cannot send it, so the finder also looks
by itself, at most a second apart.
"""

import logging
import os
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, OperationalError, connection

from audit.sealing.own_key import KeyEndedError
from runtime.core import clock, ports, transactions
from runtime.epochs.services import boots, epochs
from runtime.execution.services import attempting, result_asking, tool_looks
from runtime.flows.queries import due_intents
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
from runtime.workers import guard_threads, sweep_rounds

ATTEMPT_THREADS = 4
# Two, so that one slow receiver does not keep the others waiting.
NOTICE_THREADS = 2
EVENT_THREADS = 2
# One slow target must not block the rest.
PER_TARGET = 2
# Intents of one message: a worker that dies leaves so many calls in doubt, and no more.
TOGETHER = 8
# What has been due for longer waits because workers do not keep up.
LATE_S = 1.0
# Then the row of an agent that goes on proposing has a queue, and a claim of many must not lose its place.
CATCH_UP_WAIT_MS = 2000
POLL_S = 1.0
SWEEP_S = 1.0
SEAL_S = 1.0
# How long a write waits for its version of the world, about.
NUMBER_S = 0.2
SCORE_S = 1.0
RETENTION_S = 60.0
REPLAY_S = 1.0
NOTICE_S = 1.0
EVENTS_S = 1.0
WITNESS_S = 1.0
TOOLS_S = 2.0
RESULTS_S = 1.0
MARK_S = 2.0
_LOOK_AHEAD = 50
_AFTER_ERROR_S = 1.0

_log = logging.getLogger(__name__)
_bell = threading.Event()
_running: set["Drain"] = set()


def ring(intent_ids: Sequence[UUID]) -> None:
    """Wake the finder of this process, where it has one."""
    _bell.set()


@dataclass(frozen=True, kw_only=True)
class _Work:
    """An intent for a thread; with `taken` it was claimed together with others, and its lease has begun."""

    intent_id: UUID
    taken: attempting.Taken | None


class Drain:
    """Attempts due intents until it is stopped. One per process, and one process per data folder."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._superseded = threading.Event()
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._taken: dict[UUID, str] = {}
        self._resting: dict[UUID, float] = {}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads and return."""
        _running.add(self)
        self._begin("finder", self._find)
        self._begin("sweeper", self._sweep)
        self._begin("sealer", self._seal)
        self._begin("scorer", self._score)
        self._begin("retention", self._erase_due)
        self._begin("replayer", self._replay)
        self._begin("tools", self._look_at_tools)
        self._begin("results", self._ask_for_results)
        if settings.DIR_WITNESS:
            # Apart from the sealer: a witness that hangs must not keep anything from being signed.
            self._begin("witness", self._send_checkpoints)
        for number in range(ATTEMPT_THREADS):
            self._begin(f"attempts-{number}", self._attempt)
        for number in range(guard_threads.THREADS):
            self._begin(f"guards-{number}", lambda: guard_threads.serve(self._stopping))
        for number in range(NOTICE_THREADS):
            self._begin(f"notices-{number}", self._send_notices)
        for number in range(EVENT_THREADS):
            self._begin(f"events-{number}", self._send_events)

    def stop(self, *, timeout_s: float) -> bool:
        """Take no more work and wait for the calls under way; True when all of them have been recorded.

        What was found but not claimed stays in its row. A call that outlives `timeout_s` is found at the next
        start, as an attempt of unknown result.
        """
        _running.discard(self)
        self._stopping.set()
        _bell.set()
        guard_threads.ring(())
        ends_at = time.monotonic() + timeout_s
        for finder in self._threads[:1]:
            # It may have just claimed something, which is called, so it comes before the end of the work.
            finder.join(timeout_s)
        for _ in range(ATTEMPT_THREADS):
            self._work.put(None)
        for thread in self._threads:
            thread.join(max(0.0, ends_at - time.monotonic()))
        self._leave_mark()
        return not any(thread.is_alive() for thread in self._threads)

    def list_dead_threads(self) -> list[str]:
        """Names of threads that have ended without being stopped."""
        return [thread.name for thread in self._threads if not thread.is_alive()]

    def _begin(self, name: str, target: Callable[[], None]) -> None:
        def run() -> None:
            try:
                _connect()
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
                wait_s = self._hand_out() if self._is_master() else POLL_S
            except Exception:
                _log.exception("the finder failed")
                connection.close()
                wait_s = _AFTER_ERROR_S
            transactions.give_back_connection()

    def _is_master(self) -> bool:
        """Whether no later server has taken the database; logged once when one has."""
        if not boots.is_superseded():
            return True
        if not self._superseded.is_set():
            self._superseded.set()
            _log.error("another server was started on this database: this one no longer executes anything")
        return False

    def _hand_out(self) -> float:
        """Give due intents to the attempt threads; seconds until it is worth looking again."""
        with self._lock:
            now = time.monotonic()
            self._resting = {pk: until for pk, until in self._resting.items() if until > now}
            busy = Counter(self._taken.values())
            without = self._taken.keys() | self._resting.keys()
        full = {target for target, calls in busy.items() if calls >= PER_TARGET}
        at = clock.now()
        found = due_intents.list_due(at=at, limit=_LOOK_AHEAD, without=without, without_targets=full)
        chosen: dict[UUID, str] = {}
        for due in found:
            if busy[due.target] < PER_TARGET:
                busy[due.target] += 1
                chosen[due.intent_id] = due.target
        with self._lock:
            free = max(0, ATTEMPT_THREADS - len(self._taken))
            self._taken.update(chosen)
        # No more than there are threads without work, so that each call begins with its lease.
        taken = _take_together(list(chosen)[:free], owner=_owner())
        for intent_id in chosen:
            self._work.put(_Work(intent_id=intent_id, taken=taken.get(intent_id)))
        if len(found) == _LOOK_AHEAD:
            # A long queue of one target may hide the others: look again past it.
            return 0.0
        next_at = due_intents.get_next_due_at(after=at)
        soon = POLL_S if next_at is None else (next_at - at) / timedelta(seconds=1)
        return min(POLL_S, soon)

    def _attempt(self) -> None:
        owner = _owner()
        while (work := self._work.get()) is not None:
            is_left = self._stopping.is_set() and work.taken is None
            whole = is_left or attempt_quietly(work.intent_id, owner=owner, taken=work.taken)
            with self._lock:
                del self._taken[work.intent_id]
                if not whole:
                    # It is still due: without a rest it would be found again at once, forever.
                    self._resting[work.intent_id] = time.monotonic() + _AFTER_ERROR_S
            # The next intent of this target may have waited for this place.
            _bell.set()

    def _leave_mark(self) -> None:
        """The last calls may be younger than the sweeper's last round: a clean end leaves none out."""
        if not settings.DIR_MARK:
            return

        def mark() -> None:
            try:
                if not boots.is_superseded():
                    epochs.compare_with_mark()
            except Exception:
                _log.exception("the mark could not be renewed at the end")
            finally:
                connection.close()

        # In a thread of its own: the caller's connection may be in the middle of something.
        last = threading.Thread(target=mark, name="drain-mark", daemon=True)
        last.start()
        last.join(MARK_S)

    def _sweep(self) -> None:
        self._repeat("the sweeper", sweep_rounds.run, every_s=SWEEP_S)

    def _seal(self) -> None:
        # SQLite numbers a write itself, so nobody waits for the sealer there.
        every_s = SEAL_S if connection.vendor == "sqlite" else NUMBER_S
        signs_at_s = time.monotonic()

        def work() -> None:
            nonlocal signs_at_s
            if time.monotonic() < signs_at_s:
                sealing.add_waiting()
                return
            signs_at_s = time.monotonic() + SEAL_S
            sealing.seal_now()

        self._repeat("the sealer", work, every_s=every_s)

    def _score(self) -> None:
        score = partial(scoring.score_due, is_stopping=self._stopping.is_set)
        self._repeat("the scorer", score, every_s=SCORE_S)

    def _erase_due(self) -> None:
        def run() -> None:
            retention.erase_due(tenant=settings.DIR_TENANT, is_stopping=self._stopping.is_set)
            fact_pruning.prune_due(tenant=settings.DIR_TENANT, is_stopping=self._stopping.is_set)
            payload_rounds.move_due(tenant=settings.DIR_TENANT, is_stopping=self._stopping.is_set)

        self._repeat("the round of retention", run, every_s=RETENTION_S)

    def _replay(self) -> None:
        replay = partial(replay_runs.work_due, is_stopping=self._stopping.is_set)
        self._repeat("the replayer", replay, every_s=REPLAY_S)

    def _look_at_tools(self) -> None:
        look = partial(tool_looks.look_due, is_stopping=self._stopping.is_set)
        self._repeat("the look at tools", look, every_s=TOOLS_S)

    def _ask_for_results(self) -> None:
        ask = partial(result_asking.ask_due, is_stopping=self._stopping.is_set)
        self._repeat("the asker for results", ask, every_s=RESULTS_S)

    def _send_checkpoints(self) -> None:
        send = partial(witnessing.send_due, is_stopping=self._stopping.is_set)
        self._repeat("the sender of checkpoints", send, every_s=WITNESS_S)

    def _send_notices(self) -> None:
        send = partial(ports.send_notices, is_stopping=self._stopping.is_set)
        self._repeat("the sender of notices", send, every_s=NOTICE_S)

    def _send_events(self) -> None:
        send = partial(sending.send_due, is_stopping=self._stopping.is_set)
        self._repeat("the sender of events", send, every_s=EVENTS_S)

    def _repeat(self, name: str, work: Callable[[], object], *, every_s: float) -> None:
        """Work again and again until stopped, unless a later server has taken the database."""
        while not self._stopping.wait(every_s):
            try:
                if self._is_master():
                    work()
            except Exception:
                _log.exception("%s failed", name)
                connection.close()
            transactions.give_back_connection()


def list_dead_threads() -> list[str]:
    """Names of dead threads of all drains that run in this process."""
    return [name for working in list(_running) for name in working.list_dead_threads()]


def _connect() -> None:
    """Taken before clients connect, and kept: they cannot use up what execution needs."""
    try:
        connection.ensure_connection()
    except DatabaseError:
        _log.warning("a thread starts without a database connection")


def attempt_all(intent_ids: Sequence[UUID], *, owner: str) -> None:
    """Attempt those that wait, several of them claimed together and each called in a thread of its own.

    Where much waits, each intent is rung for again and again, and most messages are about what is done by
    then. A claim that finds this out costs so much that workers would do little else.
    """
    asked, behind = _list_waiting(intent_ids)
    if not asked:
        transactions.give_back_connection()
        return
    taken = _take_together([*asked, *behind], owner=owner, wait_ms=CATCH_UP_WAIT_MS if behind else None)
    # What was not asked for and not claimed is somebody else's by now.
    several = [*asked, *(taken.keys() - set(asked))]
    if len(several) == 1:
        attempt_quietly(several[0], owner=owner, taken=taken.get(several[0]))
        return

    def work(intent_id: UUID) -> None:
        try:
            attempt_quietly(intent_id, owner=owner, taken=taken.get(intent_id))
        finally:
            connection.close()  # the thread ends with these intents

    with ThreadPoolExecutor(max_workers=len(several)) as threads:
        list(threads.map(work, several))


def _list_waiting(intent_ids: Collection[UUID]) -> tuple[list[UUID], list[UUID]]:
    """Which of these wait, and what waits behind them where workers do not keep up.

    A claim of many costs less than as many claims. Behind them is what calls the same target, and no other,
    since all of it is waited for together.
    """
    try:
        at = clock.now()
        waiting = due_intents.list_pending(intent_ids=intent_ids, at=at)
        asked = [each.intent_id for each in waiting]
        room = TOGETHER - len(asked)
        if not waiting or room <= 0 or at - waiting[0].next_at < timedelta(seconds=LATE_S):
            return asked, []
        found = due_intents.list_due(at=at, limit=room, without=asked, target=waiting[0].target)
        return asked, [each.intent_id for each in found]
    except DatabaseError as error:
        _log.warning("which of %s intents wait is not known: %s", len(intent_ids), error)
        connection.close()
        return [], []


def _owner() -> str:
    """The name of this thread on a lease, unlike that of any other."""
    return f"{socket.gethostname()}:{os.getpid()}:{threading.current_thread().name}"[:80]


def _take_together(
    intent_ids: Sequence[UUID], *, owner: str, wait_ms: int | None = None
) -> dict[UUID, attempting.Taken]:
    """Claim several at once; a single one is left to its thread, which claims it alone."""
    if len(intent_ids) <= 1:
        return {}
    try:
        return attempting.take_together(intent_ids, owner=owner, wait_ms=wait_ms)
    finally:
        transactions.give_back_connection()


def attempt_quietly(intent_id: UUID, *, owner: str, taken: attempting.Taken | None = None) -> bool:
    """Attempt an intent; False when something went wrong, which is logged: its row waits for a next round."""
    try:
        if taken is None:
            attempting.attempt(intent_id, owner=owner)
        else:
            attempting.finish(intent_id, taken)
    except transactions.BusyError:
        _log.info("intent %s is contended; it waits for the next round", intent_id)
        return False
    except KeyEndedError as error:
        _log.error("intent %s waits: %s", intent_id, error)  # no bug: it says what to do
        return False
    except OperationalError as error:
        # Locked, full or gone: logged each time, without a traceback.
        _log.warning("intent %s waits for the database: %s", intent_id, error)
        connection.close()
        return False
    except Exception:
        _log.exception("the attempt of intent %s failed", intent_id)
        connection.close()
        return False
    finally:
        transactions.give_back_connection()
    return True
