"""Sending from a thread of its own, so that no caller waits: a hung Redis once held a request a minute."""

import os
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Made = TypeVar("Made")


class BackgroundSender(Generic[Key, Value]):
    """Sends what is offered from one daemon thread, in the order in which each key was first offered.

    At most `limit` keys wait, and at most `batch` are sent at once; `merge` makes one value of two for a key
    that still waits. After a failed send what waits is dropped, and so is all that is offered for `pause_s`
    seconds: whoever would have got it looks again by itself, so nothing is sent twice. The thread ends with
    the process, whatever it is sending.
    """

    def __init__(
        self,
        *,
        name: str,
        connect: Callable[[], Callable[[Sequence[tuple[Key, Value]]], None]],
        on_failure: Callable[[Exception], None],
        limit: int,
        batch: int,
        pause_s: float,
        merge: Callable[[Value, Value], Value] = lambda _, newer: newer,
    ) -> None:
        """`connect` is called once on the thread and returns what sends a batch, with timeouts of its own."""
        self.dropped = 0
        self._name, self._connect, self._on_failure, self._merge = name, connect, on_failure, merge
        self._limit, self._batch, self._pause_s = limit, batch, pause_s
        self._pending: dict[Key, Value] = {}
        self._changed = threading.Condition()
        self._paused_until_s = 0.0
        self._thread: threading.Thread | None = None

    @property
    def is_pausing(self) -> bool:
        """Whether all that is offered is dropped just now."""
        return time.monotonic() < self._paused_until_s

    def pause(self, seconds: float) -> None:
        """Drop what is offered for some seconds; what waits is sent."""
        self._paused_until_s = time.monotonic() + seconds

    def offer(self, key: Key, value: Value) -> bool:
        """Take a value, or drop it when too many wait or the last send failed a moment ago. Never waits."""
        with self._changed:
            is_full = len(self._pending) >= self._limit and key not in self._pending
            if is_full or self.is_pausing:
                self.dropped += 1
                return False
            self._pending[key] = self._merge(self._pending[key], value) if key in self._pending else value
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()
            return True

    def _run(self) -> None:
        send = self._connect()
        while True:
            with self._changed:
                while not self._pending:
                    self._changed.wait()
                keys = list(islice(self._pending, self._batch))
                batch = [(key, self._pending.pop(key)) for key in keys]
            try:
                send(batch)
            except Exception as error:
                self._on_failure(error)
                with self._changed:
                    self.pause(self._pause_s)
                    self.dropped += len(batch) + len(self._pending)
                    self._pending.clear()


class PerProcess(Generic[Made]):
    """One object of a kind for this process: after a fork the parent's threads and locks are not ours."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._pid, self._made = os.getpid(), make()

    def get(self) -> Made:
        """The object of this process; a new one where it was inherited."""
        if self._pid != os.getpid():
            self._pid, self._made = os.getpid(), self._make()
        return self._made
