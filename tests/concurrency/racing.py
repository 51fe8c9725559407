"""Racers: real threads that start together, each with a connection of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import connection

from runtime.contracts.problem import Problem
from runtime.services import races
from tests import factories

T = TypeVar("T")
REPEATS = 20


def race(count: int, work: Callable[[int], T]) -> list[T]:
    """`work` in `count` threads that start together; their results in the order of their numbers."""
    start = threading.Barrier(count)

    def one(number: int) -> T:
        try:
            start.wait(timeout=30)
            return patiently(lambda: work(number))
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=count) as pool:
        return list(pool.map(one, range(count)))


def patiently(work: Callable[[], T]) -> T:
    """Repeat a call that lost too many races, as the API's 409 BUSY tells its caller to."""
    for _ in range(REPEATS):
        try:
            return work()
        except races.BusyError:
            continue
    raise AssertionError(f"busy {REPEATS} times")


def propose(desk: factories.Desk, flow: factories.Opened, **changes: Any) -> dict[str, Any]:
    """A proposal under one key; the decided answer, or the problem's code under `problem`."""
    answer = desk.submit(flow, key="once", **changes)
    return {"problem": answer.code} if isinstance(answer, Problem) else factories.read(answer)
