"""Turns go round among callers, and who has most in a full line loses the newest of it."""

import asyncio
from collections import Counter

import pytest

from dir_console.waiting_line import FullLineError, WaitingLine

pytestmark = pytest.mark.once


async def one_step() -> None:
    """Let everything that the loop has ready happen once."""
    loop = asyncio.get_running_loop()
    stepped = loop.create_future()
    loop.call_soon(stepped.set_result, None)
    await stepped


class Story:
    """Callers at a line with one place; `served` and `refused` name them in the order it happened."""

    def __init__(self, *, room: int) -> None:
        self.line = WaitingLine(at_once=1, longest_wait_s=room)
        self.line.mean_turn_s = 1.0
        self.served: list[str] = []
        self.refused: list[tuple[str, int]] = []
        self.go = asyncio.Event()

    async def _ask(self, caller: str) -> None:
        try:
            async with self.line.turn(caller):
                await self.go.wait()
                self.served.append(caller)
        except FullLineError as full:
            self.refused.append((caller, full.retry_after_s))

    async def come(self, *callers: str) -> list[asyncio.Task[None]]:
        """One after the other; each has found its place when the next comes."""
        came = []
        for caller in callers:
            came.append(asyncio.create_task(self._ask(caller)))
            await one_step()
        return came

    async def end(self, *tasks: asyncio.Task[None]) -> None:
        self.go.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (self.line.at_work, self.line.waiting) == (0, 0)


def test_turns_go_round() -> None:
    async def tell() -> Story:
        story = Story(room=100)
        await story.end(*await story.come(*"aaaaaabbc"))
        return story

    assert asyncio.run(tell()).served == list("aabcabaaa")


def test_a_flood_loses_its_own_newest_and_a_newcomer_finds_room() -> None:
    async def tell() -> Story:
        story = Story(room=4)
        tasks = await story.come(*"aaaaa")  # one at work, four in a line of four
        tasks += await story.come(*"aab")
        await one_step()
        assert story.refused == [("a", 4), ("a", 4), ("a", 4)]
        tasks += await story.come(*"bbc")
        await one_step()
        assert Counter(caller for caller, _ in story.refused) == {"a": 5, "b": 1}
        await story.end(*tasks)
        return story

    story = asyncio.run(tell())
    assert Counter(story.served) == {"a": 2, "b": 2, "c": 1}


def test_who_leaves_gives_up_the_place_or_passes_the_turn_on() -> None:
    async def tell() -> Story:
        story = Story(room=10)
        first, leaves, called, last = await story.come(*"abcd")
        story.line.at_work += 1  # a turn of nobody's, which ends below
        # All in one step of the loop: whoever leaves has not been heard yet.
        leaves.cancel()
        story.line._pass_on()
        called.cancel()
        await story.end(first, leaves, called, last)
        return story

    assert sorted(asyncio.run(tell()).served) == ["a", "d"]


def test_who_is_turned_away_while_leaving_takes_no_turn_with_it() -> None:
    async def tell() -> Story:
        story = Story(room=2)
        tasks = await story.come(*"aaa")
        story.line._make_room("b")
        tasks[2].cancel()
        newcomer = asyncio.create_task(story._ask("b"))
        await story.end(*tasks, newcomer)
        return story

    assert asyncio.run(tell()).served == ["a", "a", "b"]


def test_room_follows_the_measured_turns() -> None:
    line = WaitingLine(at_once=4, longest_wait_s=10)
    line.mean_turn_s = 0.1
    assert line.room == 400
    line.mean_turn_s = 20.0
    assert line.room == 4, "who is at work has a successor, however slow"
    line.mean_turn_s = 0.0
    assert line.room == 500
