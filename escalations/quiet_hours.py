"""When a notice may be sent by the quiet hours of its route. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo


@dataclass(frozen=True, kw_only=True)
class QuietHours:
    """From one time of the day to another, in a zone; past midnight where `end` is the earlier one."""

    start: time
    end: time
    zone: ZoneInfo

    def ends_at(self, at: datetime) -> datetime | None:
        """The end, in UTC, of the quiet hours that `at` lies in; None where it lies in none."""
        local = at.astimezone(self.zone)
        now, day = local.time(), local.date()
        if self.start < self.end:
            if not self.start <= now < self.end:
                return None
        elif now >= self.start:
            day += timedelta(days=1)
        elif now >= self.end:
            return None
        end = datetime.combine(day, self.end, tzinfo=self.zone)
        # Where clocks are changed it comes twice or not at all: the later reading is never before `at`.
        return max(end.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
