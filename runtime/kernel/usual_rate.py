"""How often an agent proposes now, beside its usual hour. For people only: no verdict reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HOUR_MS: Final = 3_600_000
# Fewer in an hour are nothing to point at, however rare they are otherwise.
LEAST_UNUSUAL: Final = 5
TIMES_USUAL: Final = 3


@dataclass(frozen=True, slots=True)
class Rate:
    """How many there were in the last hour, and per usual hour in tenths.

    `usual_tenths` is None while there are less than one hour of earlier ones to compare with; `hours` is how
    many hours they cover. `is_least`: not all of the last hour were read, so there may be more.
    """

    last_hour: int
    usual_tenths: int | None
    hours: int
    is_least: bool

    @property
    def is_unusual(self) -> bool:
        """Whether the last hour has several times as many as a usual one, and not only a few."""
        if self.usual_tenths is None or self.last_hour < LEAST_UNUSUAL:
            return False
        return self.last_hour * 10 >= TIMES_USUAL * self.usual_tenths


def measure(times_ms: Sequence[int], *, now_ms: int, since_ms: int, is_cut: bool) -> Rate:
    """Measure the last hour before `now_ms` against the time from `since_ms` to its beginning.

    Times are Unix milliseconds in any order; `since_ms` is where counting began. `is_cut`: there are earlier
    ones, which were not read.
    """
    begins = now_ms - HOUR_MS
    last = sum(begins < at <= now_ms for at in times_ms)
    covered = begins - since_ms
    if covered < HOUR_MS:
        return Rate(last_hour=last, usual_tenths=None, hours=0, is_least=is_cut and since_ms > begins)
    earlier = sum(since_ms <= at <= begins for at in times_ms)
    tenths = (earlier * 10 * HOUR_MS + covered // 2) // covered
    return Rate(last_hour=last, usual_tenths=tenths, hours=covered // HOUR_MS, is_least=False)
