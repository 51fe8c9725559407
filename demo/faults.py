"""How the paper broker misbehaves when told to: the faults a real target shows its callers."""

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

MAX_DELAY_MS: Final = 600_000


class Mode(StrEnum):
    """What the broker does with a call, the work or the answer going wrong."""

    OK = "ok"
    FAIL = "fail"
    SLOW = "slow"
    SLOW_AFTER = "slow_after"
    DROP_AFTER = "drop_after"
    GARBAGE = "garbage"


@dataclass(frozen=True)
class Fault:
    """A mode, how late it answers, which share of calls it strikes and how often it still may."""

    mode: Mode = Mode.OK
    delay_ms: int = 0
    fail_ratio: float = 1.0
    times: int | None = None


class Switch:
    """The fault in force; each call asks once what is to happen to it."""

    def __init__(self, *, seed: int) -> None:
        self._lock = threading.Lock()
        self._rng = random.Random(seed)
        self._fault = Fault()

    def set(self, *, fault: Fault) -> None:
        """Put a fault in force in place of the present one."""
        with self._lock:
            self._fault = fault

    def next(self) -> Fault:
        """The fault that strikes this call; an ordinary one where none does."""
        with self._lock:
            fault = self._fault
            if fault.mode is Mode.OK or self._rng.random() >= fault.fail_ratio:
                return Fault()
            if fault.times is not None:
                left = fault.times - 1
                self._fault = Fault(fault.mode, fault.delay_ms, fault.fail_ratio, left) if left else Fault()
            return fault


def parse(body: Mapping[str, Any]) -> Fault | str:
    """A fault from the body of ``POST /control``, or the sentence that says what is wrong with it."""
    try:
        mode = Mode(body.get("mode", ""))
    except ValueError:
        return f"mode must be one of {', '.join(Mode)}"
    delay_ms, ratio, times = body.get("delay_ms", 1000), body.get("fail_ratio", 1.0), body.get("times")
    if not isinstance(delay_ms, int) or not 0 <= delay_ms <= MAX_DELAY_MS:
        return f"delay_ms must be a whole number from 0 to {MAX_DELAY_MS}"
    if not isinstance(ratio, int | float) or not 0 <= ratio <= 1:
        return "fail_ratio must be a number from 0 to 1"
    if times is not None and (not isinstance(times, int) or times < 1):
        return "times must be a whole number of at least 1"
    return Fault(mode=mode, delay_ms=delay_ms, fail_ratio=float(ratio), times=times)
