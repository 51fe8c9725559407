"""Long polls: woken by the hint, and never asleep for longer than they may be."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from audit.live import hint_relay, hints
from tests.support.logged import levels_of
from tests.support.wait_until import until_async

# Names of this run alone: over Redis, another process that tests may tell of streams too.
OURS, OTHER, AGENT = (f"{name}:{uuid.uuid4()}" for name in ("flow", "other", "agent"))


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process tells itself; between processes a hint also comes back to its sender, later."""
    monkeypatch.setattr(hint_relay, "is_shared", lambda: False)


def run(story: Callable[[], Any]) -> None:
    asyncio.run(story())


async def listened_to(stream: str) -> None:
    """Until a bell hangs on the stream."""
    await until_async(lambda: stream in hints.this_board().bells)


def test_a_hint_from_another_thread_ends_the_wait() -> None:
    async def story() -> None:
        waiting = asyncio.create_task(hints.wait(OURS, 30))
        await listened_to(OURS)
        await asyncio.to_thread(hints.hint, tenant="default", stream=OURS, seq=1)
        assert await asyncio.wait_for(waiting, 1)
        assert hints.this_board().bells == {}

    run(story)


def test_a_hint_for_another_stream_does_not() -> None:
    async def story() -> None:
        waiting = asyncio.create_task(hints.wait(OURS, 0.1))
        await listened_to(OURS)
        hints.hint(tenant="default", stream=OTHER, seq=1)
        assert not await waiting

    run(story)


def test_a_lost_hint_costs_no_more_than_the_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "POLL_S", 0.05)

    async def story() -> None:
        assert not await asyncio.wait_for(hints.wait(OURS, 30), 1)

    run(story)


def test_a_hint_between_looking_and_waiting_is_not_lost() -> None:
    async def story() -> None:
        async with hints.listening(OURS, AGENT) as bell:
            hints.hint(tenant="default", stream=AGENT, seq=1)
            assert await hints.ring_or_timeout(bell, 1)
            assert not await hints.ring_or_timeout(bell, 0.02)

    run(story)


def test_two_who_wait_for_one_stream_are_both_woken() -> None:
    async def story() -> None:
        waiting = asyncio.gather(hints.wait(OURS, 30), hints.wait(OURS, 30))
        await until_async(lambda: len(hints.this_board().bells.get(OURS, ())) == 2)
        hints.hint(tenant="default", stream=OURS, seq=1)
        assert all(await asyncio.wait_for(waiting, 1))

    run(story)


def test_a_loop_that_has_ended_is_forgotten() -> None:
    async def story() -> None:
        hints.this_board()

    for _ in range(3):
        run(story)
    hints.hint(tenant="default", stream=OURS, seq=1)
    assert len([loop for loop in hints._boards if loop.is_closed()]) <= 1


def test_a_hint_without_anyone_to_tell_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    hints.hint(tenant="default", stream=OURS, seq=1)
    assert levels_of(caplog, hints) == []


def test_a_hint_never_raises(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(**_: Any) -> None:
        raise OSError

    monkeypatch.setattr(hint_relay, "publish", fail)
    hints.hint(tenant="default", stream=OURS, seq=1)
    assert "a live hint was dropped" in caplog.text
