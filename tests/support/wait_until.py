"""Waiting for what another thread or process does: a poll with a deadline, never a bare sleep.

A deadline ends a test that hangs; it measures nothing. So it is long: a busy machine is slow, not wrong.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0


def until(condition: Callable[[], T], *, timeout_s: float = PATIENCE_S, interval_s: float = 0.01) -> T:
    """Call `condition` until it answers something true, and return that; AssertionError at the deadline."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not so within {timeout_s} s: {condition}")
        time.sleep(interval_s)
    return answer


async def until_async(
    condition: Callable[[], T], *, timeout_s: float = PATIENCE_S, interval_s: float = 0.01
) -> T:
    """`until` on an event loop, which goes on running meanwhile."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not so within {timeout_s} s: {condition}")
        await asyncio.sleep(interval_s)
    return answer
