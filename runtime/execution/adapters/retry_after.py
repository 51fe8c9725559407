"""The Retry-After header, in either of its forms: seconds, or a date."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def seconds(header: str) -> float | None:
    """How long to wait, in seconds; None where it is unusable."""
    if header.isascii() and header.isdigit():
        return float(header[:9])
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, OverflowError):  # a year or an offset of twenty digits is the latter
        return None
    if moment.tzinfo is None:
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
