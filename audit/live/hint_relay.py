"""Hints between processes, over the shared channel layer (production: Redis).

Publishing happens on one daemon thread of its own: a hung Redis once held a request for a minute. The
queue is bounded and keeps one number per stream, sends have a timeout, and after a failure nothing is
sent for a while. Dropping is fine, because pages look again by themselves.
"""

import asyncio
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from channels.layers import DEFAULT_CHANNEL_LAYER, InMemoryChannelLayer, channel_layers, get_channel_layer

GROUP = "dir.live"
QUEUE_LIMIT = 1000  # streams waiting to be told
BATCH_LIMIT = 200
SEND_TIMEOUT_S = 2.0
PAUSE_S = 5.0  # after a failed send or receive
RENEW_S = 3600.0  # a group membership ends after a day

_log = logging.getLogger(__name__)

Deliver = Callable[[str, str, int], None]


def is_shared() -> bool:
    """Whether there is a channel layer that other processes read: an in-memory one ends with this process."""
    layer = get_channel_layer()
    return layer is not None and not isinstance(layer, InMemoryChannelLayer)


class Publisher:
    """Sends hints in batches from its own thread; `offer` returns at once."""

    def __init__(self) -> None:
        self.origin = uuid.uuid4().hex
        self.pid = os.getpid()
        self.dropped = 0
        self._pending: dict[tuple[str, str], int] = {}
        self._changed = threading.Condition()
        self._closed_until = 0.0
        self._thread: threading.Thread | None = None

    def offer(self, tenant: str, stream: str, seq: int) -> None:
        """Take a hint, or drop it when the queue is full or the layer failed a moment ago."""
        with self._changed:
            full = len(self._pending) >= QUEUE_LIMIT and (tenant, stream) not in self._pending
            if full or time.monotonic() < self._closed_until:
                self.dropped += 1
                return
            self._pending[tenant, stream] = max(seq, self._pending.get((tenant, stream), 0))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="live-hints", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        # A loop and a layer of the thread's own, for its whole life: layers are not made for two threads.
        loop = asyncio.new_event_loop()
        layer = channel_layers.make_backend(DEFAULT_CHANNEL_LAYER)
        while True:
            with self._changed:
                while not self._pending:
                    self._changed.wait()
                keys = list(self._pending)[:BATCH_LIMIT]
                batch = [[*key, self._pending.pop(key)] for key in keys]
            told = {"type": "live.hints", "origin": self.origin, "hints": batch}
            try:
                loop.run_until_complete(asyncio.wait_for(layer.group_send(GROUP, told), SEND_TIMEOUT_S))
            except Exception as error:
                _log.warning("live hints pause for %s s: %s", PAUSE_S, type(error).__name__)
                with self._changed:
                    self._closed_until = time.monotonic() + PAUSE_S
                    self.dropped += len(batch) + len(self._pending)
                    self._pending.clear()


_publisher = Publisher()


def publish(*, tenant: str, stream: str, seq: int) -> None:
    """Offer a hint to the other processes; does nothing where there are none."""
    if is_shared():
        this_publisher().offer(tenant, stream, seq)


def this_publisher() -> Publisher:
    """The publisher of this process: after a fork the parent's thread and locks are not ours."""
    global _publisher
    if _publisher.pid != os.getpid():
        _publisher = Publisher()
    return _publisher


class Relay:
    """Passes on what other processes publish, on a daemon thread of its own.

    Not on the server's loop: a receive from Redis can lose its cancellation, and a server that stops
    would wait for it for ever.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, deliver: Deliver) -> None:
        """Begin to listen; does nothing when it does already."""
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(_relay(deliver)), name="live-relay", daemon=True
                )
                self._thread.start()


_relay_here = Relay()


def listen(deliver: Deliver) -> None:
    """Pass hints of other processes to `deliver`, on the relay's thread; nothing where there are none."""
    global _relay_here
    if is_shared():
        if _relay_here.pid != os.getpid():
            _relay_here = Relay()
        _relay_here.start(deliver)


async def _relay(deliver: Deliver) -> None:
    layer = channel_layers.make_backend(DEFAULT_CHANNEL_LAYER)
    while True:
        try:
            async with asyncio.TaskGroup() as group:
                channel = await layer.new_channel("live")
                group.create_task(_stay_joined(layer, channel))
                group.create_task(_receive(layer, channel, deliver))
        except ExceptionGroup as failed:
            why = ", ".join(type(error).__name__ for error in failed.exceptions)
            _log.warning("live hints from other processes pause for %s s: %s", PAUSE_S, why)
            await asyncio.sleep(PAUSE_S)


async def _stay_joined(layer: Any, channel: str) -> None:
    while True:
        await layer.group_add(GROUP, channel)
        await asyncio.sleep(RENEW_S)


async def _receive(layer: Any, channel: str, deliver: Deliver) -> None:
    while True:
        message: dict[str, Any] = await layer.receive(channel)
        # This process has told its own listeners already.
        if message["origin"] != this_publisher().origin:
            for tenant, stream, seq in message["hints"]:
                deliver(tenant, stream, seq)
