"""Hints between processes, over a real Redis; and without harm where Redis hangs or is gone."""

import asyncio
import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from audit.live import hint_relay, hints
from audit.live.background import PerProcess
from audit.live.hint_relay import Publisher, Relay
from tests.support.wait_until import until, until_async

REDIS = os.environ.get("REDIS_URL") or "redis://127.0.0.1:6379"


def layers(address: str) -> dict[str, Any]:
    """The channel layer of production at this address, apart from every other test's."""
    host = {"address": address, "socket_timeout": 15, "max_connections": 1000}
    config = {"hosts": [host], "prefix": uuid.uuid4().hex}
    return {"default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": config}}


@pytest.fixture
def shared_layer(settings: Any) -> None:
    parts = urlsplit(REDIS)
    try:
        socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 6379), timeout=1).close()
    except OSError:
        pytest.skip(f"no Redis at {REDIS}")
    settings.CHANNEL_LAYERS = layers(REDIS)


@pytest.fixture
def hung_layer(settings: Any) -> Iterator[None]:
    """A Redis that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        settings.CHANNEL_LAYERS = layers(f"redis://127.0.0.1:{server.getsockname()[1]}")
        yield


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Publisher:
    """This process's publisher, new for the test."""
    made = Publisher()
    monkeypatch.setattr(hint_relay, "publishers", PerProcess(lambda: made))
    return made


def run(story: Any) -> None:
    asyncio.run(story())


@pytest.fixture(autouse=True)
def relay(monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """This process's relay, new for the test and not started. One that a test left would go on warning."""
    made = Relay()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None] | None]] = []
    relay_for_ever = hint_relay._relay

    async def relay_until_the_test_ends(deliver: hint_relay.Deliver) -> None:
        running.append((asyncio.get_running_loop(), asyncio.current_task()))
        with contextlib.suppress(asyncio.CancelledError):
            await relay_for_ever(deliver)

    monkeypatch.setattr(hint_relay, "_relay", relay_until_the_test_ends)
    monkeypatch.setattr(hint_relay, "relays", PerProcess(lambda: made))
    yield made
    for loop, task in running:
        assert task is not None
        loop.call_soon_threadsafe(task.cancel)


def relaying() -> bool:
    thread = hint_relay.relays.get()._thread
    return thread is not None and thread.is_alive()


async def told_by(other: Publisher, stream: str) -> None:
    """Another process's hints, repeated until the relay here has joined and heard one."""
    async with hints.listening(stream) as bell:
        for seq in range(1, 100):
            other.offer(("default", stream), seq)
            if await hints.ring_or_timeout(bell, 0.1):
                return
    raise AssertionError("no hint came over the bus")


@pytest.mark.usefixtures("shared_layer", "publisher")
def test_a_hint_of_another_process_ends_a_wait_here() -> None:
    async def story() -> None:
        assert hints.this_board() is hints.this_board()
        await told_by(Publisher(), "flow-1")
        assert relaying()

    run(story)


@pytest.mark.usefixtures("shared_layer")
def test_our_own_hint_does_not_come_back(publisher: Publisher) -> None:
    async def story() -> None:
        await told_by(Publisher(), "warm-up")
        delivered: list[str] = []
        board = hints.this_board()
        board.bells["flow-1"] = {Recorder(delivered, "ours")}
        board.bells["flow-2"] = {Recorder(delivered, "theirs")}
        hints.hint(tenant="default", stream="flow-1", seq=1)
        await until_async(lambda: not publisher._pending)
        await told_by_once(Publisher(), "flow-2", delivered)
        assert delivered.count("ours") == 1
        board.bells.clear()

    run(story)


class Recorder(asyncio.Event):
    """A bell that writes down each ring."""

    def __init__(self, rings: list[str], name: str) -> None:
        super().__init__()
        self.rings = rings
        self.name = name

    def set(self) -> None:
        self.rings.append(self.name)


async def told_by_once(other: Publisher, stream: str, delivered: list[str]) -> None:
    other.offer(("default", stream), 1)
    await until_async(lambda: "theirs" in delivered)


def test_the_membership_is_renewed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hint_relay, "RENEW_S", 0.01)
    joined: list[tuple[str, str]] = []

    class Layer:
        async def group_add(self, group: str, channel: str) -> None:
            joined.append((group, channel))

    async def story() -> None:
        staying = asyncio.create_task(hint_relay._stay_joined(Layer(), "live!1"))
        await until_async(lambda: len(joined) >= 3)
        staying.cancel()

    run(story)
    assert set(joined) == {(hint_relay.GROUP, "live!1")}


def test_a_forked_process_gets_its_own_relay(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.CHANNEL_LAYERS = layers("redis://127.0.0.1:1")
    monkeypatch.setattr(hint_relay, "relays", PerProcess(Relay))
    started: list[Relay] = []
    monkeypatch.setattr(Relay, "start", lambda self, deliver: started.append(self))
    hint_relay.listen(lambda tenant, stream, seq: None)
    hint_relay.listen(lambda tenant, stream, seq: None)
    assert started[1] is started[0]
    monkeypatch.setattr(hint_relay.relays, "_pid", 0)
    hint_relay.listen(lambda tenant, stream, seq: None)
    assert started[2] is not started[0]


@pytest.mark.usefixtures("hung_layer")
def test_a_hung_redis_never_holds_a_request(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hint_relay, "SEND_TIMEOUT_S", 0.1)
    started_at = time.monotonic()
    for seq in range(1, 2001):
        hints.hint(tenant="default", stream=f"flow-{seq}", seq=1)
    assert time.monotonic() - started_at < 100  # 200 s, had each waited for a send that hangs
    until(lambda: publisher.is_pausing)
    dropped = publisher.dropped
    hints.hint(tenant="default", stream="flow-1", seq=2)
    assert publisher.dropped == dropped + 1
    assert publisher._pending == {}


@pytest.mark.usefixtures("hung_layer")
def test_the_queue_is_bounded_and_keeps_the_newest_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hint_relay, "QUEUE_LIMIT", 3)
    publisher = Publisher()
    monkeypatch.setattr(publisher, "_thread", threading.current_thread())  # nobody takes from the queue
    for stream, seq in (("a", 1), ("b", 1), ("a", 5), ("a", 4), ("c", 1), ("d", 1), ("b", 2)):
        publisher.offer(("default", stream), seq)
    assert publisher._pending == {("default", "a"): 5, ("default", "b"): 2, ("default", "c"): 1}
    assert publisher.dropped == 1


def test_a_relay_without_redis_tries_again(
    settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        settings.CHANNEL_LAYERS = layers(f"redis://127.0.0.1:{closed.getsockname()[1]}")
    monkeypatch.setattr(hint_relay, "PAUSE_S", 0.01)

    async def story() -> None:
        hints.this_board()
        await until_async(lambda: caplog.text.count("from other processes pause") >= 2)
        assert relaying()

    run(story)


def test_without_a_shared_layer_nothing_is_sent_and_nobody_listens(
    settings: Any, publisher: Publisher
) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

    async def story() -> None:
        await hints.wait("flow-1", 0.01)
        hints.hint(tenant="default", stream="flow-1", seq=1)
        assert not relaying()

    asyncio.run(story())
    assert publisher._thread is None


def test_a_forked_process_gets_its_own_publisher(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = hint_relay.publishers.get()
    assert hint_relay.publishers.get() is publisher
    monkeypatch.setattr(hint_relay.publishers, "_pid", 0)
    assert hint_relay.publishers.get() is not publisher
    assert hint_relay.publishers.get().origin != publisher.origin
