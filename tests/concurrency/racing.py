"""Real threads that start together, each with a connection of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connection

Answer = TypeVar("Answer")
TOGETHER_S = 30


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
