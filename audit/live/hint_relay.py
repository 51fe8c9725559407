"""Hints between processes, over the shared channel layer (production: Redis).

Publishing happens in the background: the queue is bounded and keeps one number per stream, sends have a
timeout, and after a failure nothing is sent for a while. Dropping is fine, because pages look again by
themselves.
"""

import asyncio
import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from channels.layers import DEFAULT_CHANNEL_LAYER, InMemoryChannelLayer, channel_layers, get_channel_layer

from audit.live.background import BackgroundSender, PerProcess

GROUP = "dir.live"
QUEUE_LIMIT = 1000  # streams that wait to be sent
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


class Publisher(BackgroundSender[tuple[str, str], int]):
    """Sends hints in batches: of each stream the highest number that waits."""

    def __init__(self) -> None:
        super().__init__(
            name="live-hints",
            connect=self._join_layer,
            on_failure=lambda error: _log.warning(
                "live hints pause for %s s: %s", PAUSE_S, type(error).__name__
            ),
            limit=QUEUE_LIMIT,
            batch=BATCH_LIMIT,
            pause_s=PAUSE_S,
            merge=max,
        )
        self.origin = uuid.uuid4().hex

    def _join_layer(self) -> Callable[[Sequence[tuple[tuple[str, str], int]]], None]:
        # A loop and a layer of the thread's own, for its whole life: layers are not made for two threads.
        loop = asyncio.new_event_loop()
        layer = channel_layers.make_backend(DEFAULT_CHANNEL_LAYER)

        def send(batch: Sequence[tuple[tuple[str, str], int]]) -> None:
            hints = [[*stream, seq] for stream, seq in batch]
            message = {"type": "live.hints", "origin": self.origin, "hints": hints}
            loop.run_until_complete(asyncio.wait_for(layer.group_send(GROUP, message), SEND_TIMEOUT_S))

        return send


publishers = PerProcess(Publisher)


def publish(*, tenant: str, stream: str, seq: int) -> None:
    """Offer a hint to the other processes; does nothing where there are none."""
    if is_shared():
        publishers.get().offer((tenant, stream), seq)


class Relay:
    """Passes on what other processes publish, on a daemon thread of its own.

    Not on the server's loop: a receive from Redis can lose its cancellation, and a server that stops
    would wait for it for ever.
    """

    def __init__(self) -> None:
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


relays = PerProcess(Relay)


def listen(deliver: Deliver) -> None:
    """Pass hints of other processes to `deliver`, on the relay's thread; nothing where there are none."""
    if is_shared():
        relays.get().start(deliver)


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
        # The listeners of this process have it already.
        if message["origin"] != publishers.get().origin:
            for tenant, stream, seq in message["hints"]:
                deliver(tenant, stream, seq)
