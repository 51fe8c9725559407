"""Work that is dear to do and free to ask for: so many at once, so many in line, and the rest are refused."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CrowdedError(Exception):
    """The line is full; the sentence is for whoever came too late."""


class Crowd:
    """A line before a few places, inside one process."""

    def __init__(self, *, at_once: int, waiting: int) -> None:
        self._line = threading.BoundedSemaphore(at_once + waiting)
        self._places = threading.BoundedSemaphore(at_once)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a place, and keep it.

        Raises:
            CrowdedError: at once, where the line is full.
        """
        if not self._line.acquire(blocking=False):
            raise CrowdedError("No password was checked. Try again in a moment.")
        try:
            with self._places:
                yield
        finally:
            self._line.release()
