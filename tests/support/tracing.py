"""Which files of the product a piece of work goes through: what a newcomer has to open to follow it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = tuple(f"{ROOT / top}/" for top in ("audit", "dir_console", "escalations", "runtime"))


@dataclass
class Trace:
    """Calls of the product's own functions, in their order; each by its file."""

    calls: list[str] = field(default_factory=list)

    @property
    def files(self) -> set[str]:
        """The files, relative to the root."""
        return set(self.calls)

    @property
    def switches(self) -> int:
        """How often a call is in another file than the call before it."""
        return sum(one != other for one, other in zip(self.calls, self.calls[1:], strict=False))


@contextmanager
def traced() -> Iterator[Trace]:
    """Record this thread's calls. A profiler that was there before is put back."""
    trace = Trace()

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PRODUCT):
            trace.calls.append(name[len(f"{ROOT}/") :])

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield trace
    finally:
        sys.setprofile(before)
