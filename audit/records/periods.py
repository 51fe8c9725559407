"""Times of a search: RFC 3339, or a date, which is its first moment in UTC."""

import re
from datetime import UTC, datetime
from typing import Final

_DATE: Final = r"(\d{4}-\d{2}-\d{2})"
_TIME: Final = r"(\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)"
# A plus sign that was not escaped in an address has become a space.
_OFFSET: Final = r"(Z|[+ -]\d{2}:\d{2})?"
_FORM: Final = re.compile(f"{_DATE}(?:[T ]{_TIME}{_OFFSET})?", re.ASCII)


def moment(text: str) -> datetime:
    """The time that a text names, in UTC, which is also its zone if it names none. Raises ValueError."""
    read = _FORM.fullmatch(text.strip().upper())
    if read is None:
        raise ValueError("neither a date nor a time of RFC 3339")
    date, time, offset = read.groups(default="")
    at = datetime.fromisoformat(f"{date}T{time or '00:00'}{offset.replace(' ', '+') or 'Z'}")
    try:
        return at.astimezone(UTC)
    except OverflowError:  # at the ends of the calendar, where hours make no difference
        return at.replace(tzinfo=UTC)
