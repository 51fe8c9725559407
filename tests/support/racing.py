"""Racers: real threads that start together, each with a connection of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import connection

from runtime.contracts.problem import Problem
from runtime.core import transactions
from tests.support import factories

T = TypeVar("T")
Answer = TypeVar("Answer")
REPEATS = 20
TOGETHER_S = 30


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
        except transactions.BusyError:
            continue
    raise AssertionError(f"busy {REPEATS} times")


def propose(desk: factories.Desk, flow: factories.Opened, **changes: Any) -> dict[str, Any]:
    """A proposal under one key; the decided answer, or the problem's code under `problem`."""
    answer = desk.submit(flow, key="once", **changes)
    return {"problem": answer.code} if isinstance(answer, Problem) else factories.read(answer)


def all_at_once(works: Sequence[Callable[[], Answer]]) -> list[Answer | Exception]:
    """Run every piece of work in a thread of its own, all released at one moment; answers in order.

    What a piece raises stands in place of its answer, so that one loser does not hide the others.
    """
    gate = threading.Barrier(len(works))

    def run(work: Callable[[], Answer]) -> Answer | Exception:
        gate.wait(timeout=TOGETHER_S)
        try:
            return work()
        except Exception as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=len(works)) as pool:
        return list(pool.map(run, works))


def started(work: Callable[[], T]) -> Future[T]:
    """Begin a piece of work in a thread of its own; its answer comes later."""

    def run() -> T:
        try:
            return work()
        finally:
            connection.close()

    pool = ThreadPoolExecutor(max_workers=1)
    answer = pool.submit(run)
    pool.shutdown(wait=False)
    return answer
