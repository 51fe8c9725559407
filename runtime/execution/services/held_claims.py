"""Until when the threads of this process hold their claims, and its calls may be under way.

By a monotonic clock. The time in the row is for pages, and for other processes: a wall clock that jumps ahead
must not end a lease while its call is under way.
"""

import threading
import time
from itertools import takewhile
from typing import TypeVar
from uuid import UUID

Key = TypeVar("Key")
_claims_s: dict[tuple[UUID, str], float] = {}
_calls_s: dict[str, float] = {}
_deadlines_lock = threading.Lock()


def note_claim(intent_id: UUID, *, owner: str, until_s: float) -> None:
    """A thread is about to claim: noted before the claim commits, so that no sweeper comes between."""
    with _deadlines_lock:
        _note(_claims_s, (intent_id, owner), until_s)


def prolong(intent_id: UUID, *, owner: str, by_s: float) -> None:
    """The thread is alive and has an answer to record: it keeps its claim for at least `by_s` from now."""
    with _deadlines_lock:
        held_s = _claims_s.get((intent_id, owner), float("-inf"))
        _note(_claims_s, (intent_id, owner), max(held_s, time.monotonic() + by_s))


def is_held(intent_id: UUID, *, owner: str) -> bool:
    """Whether the thread of this process called `owner` may still report on the intent."""
    with _deadlines_lock:
        return _claims_s.get((intent_id, owner), float("-inf")) > time.monotonic()


def note_call(key: str, *, until_s: float) -> None:
    """A call under `key` is about to be made, and is surely over at `until_s`."""
    with _deadlines_lock:
        _note(_calls_s, key, until_s)


def call_left_s(key: str) -> float:
    """Seconds until the call that this process made under `key` is surely over; 0 where there is none."""
    with _deadlines_lock:
        return max(0.0, _calls_s.get(key, 0.0) - time.monotonic())


def _note(ends_s: dict[Key, float], key: Key, until_s: float) -> None:
    """Note when it ends, and forget those in front that have ended, without a look at all the others.

    The newest is put last, and all are about as long, so what has ended comes to the front.
    """
    ends_s.pop(key, None)
    now_s = time.monotonic()
    for ended in list(takewhile(lambda noted: ends_s[noted] <= now_s, ends_s)):
        del ends_s[ended]
    ends_s[key] = until_s
