"""A line before a few places: callers take turns, and it is no longer than can be worked off in time.

A caller who sends much waits behind itself: the next turn goes to whoever waits and had none for longest.
Where the line is full, whoever has most in it loses the newest of that, before any work on it has begun.
"""

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

# The newest turn counts for a twentieth of the mean, so that a slow one does not close the line.
NEWEST_COUNTS: Final = 0.05
FIRST_GUESS_S: Final = 0.05
# Whatever turns take: each that waits keeps its body in memory.
LONGEST_LINE: Final = 500

_Called = asyncio.Future[None]


class FullLineError(Exception):
    """No place in the line. Nothing was done; `retry_after_s` is when it will be worked off, in seconds."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"the line is full for {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Turns:
    """How long turns take, by the mean of those before, and so how many may wait."""

    def __init__(self) -> None:
        self.mean_turn_s = FIRST_GUESS_S

    def note_turn(self, took_s: float) -> None:
        """Count a turn that has ended."""
        self.mean_turn_s += NEWEST_COUNTS * (took_s - self.mean_turn_s)

    def room_for(self, wait_s: float, *, at_once: float) -> int:
        """How many have their turn within so many seconds, where so many have it `at_once`."""
        return min(LONGEST_LINE, int(wait_s * at_once / max(self.mean_turn_s, 1e-6)))

    def worked_off_s(self, waiting: int, *, at_once: float) -> int:
        """In how many whole seconds so many that wait have had their turn; at least one."""
        return max(1, math.ceil(waiting * self.mean_turn_s / at_once))


class WaitingLine(Turns):
    """The line of one event loop. A caller is any text that tells callers apart."""

    def __init__(self, *, at_once: int, longest_wait_s: float) -> None:
        super().__init__()
        self.at_once = at_once
        self.longest_wait_s = longest_wait_s
        self.at_work = 0
        self._lines: OrderedDict[str, deque[_Called]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    @property
    def room(self) -> int:
        """How many may wait: as many as have their turn in time."""
        return max(self.at_once, self.room_for(self.longest_wait_s, at_once=self.at_once))

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Wait for a place, and keep it.

        Raises:
            FullLineError: at once, or while waiting, when somebody who has less in line took the place.
        """
        await self._enter(caller)
        began = time.monotonic()
        try:
            yield
        finally:
            self.note_turn(time.monotonic() - began)
            self._pass_on()

    async def _enter(self, caller: str) -> None:
        if self.at_work < self.at_once:
            self.at_work += 1
            return
        if self.waiting >= self.room:
            self._make_room(caller)
        called: _Called = asyncio.get_running_loop().create_future()
        self._lines.setdefault(caller, deque()).append(called)
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled() and called.exception() is None:
                # Called and left in the same moment: the turn goes on to the next.
                self._pass_on()
            else:
                self._forget(caller, called)
            raise

    def _make_room(self, newcomer: str) -> None:
        """Turn away the newest request of whoever has most in line, which may be the newcomer."""
        most = max(self._lines, key=lambda caller: len(self._lines[caller]))
        full = FullLineError(self.worked_off_s(self.waiting, at_once=self.at_once))
        if len(self._lines.get(newcomer, ())) + 1 >= len(self._lines[most]):
            raise full
        called = self._lines[most][-1]
        self._forget(most, called)
        if not called.done():  # else it is leaving by itself
            called.set_exception(full)

    def _pass_on(self) -> None:
        """Call the oldest request of the caller whose last turn is longest ago."""
        while self._lines:
            caller = next(iter(self._lines))
            called = self._lines[caller][0]
            self._forget(caller, called)
            if called.done():  # it is leaving, and has had no turn
                continue
            if caller in self._lines:
                self._lines.move_to_end(caller)
            called.set_result(None)
            return
        self.at_work -= 1

    def _forget(self, caller: str, called: _Called) -> None:
        line = self._lines.get(caller)
        if line is None or called not in line:
            return
        line.remove(called)
        if not line:
            del self._lines[caller]
