"""The escalation token bucket (DIR paper, 9.3), in thousandths of a token so that all numbers are whole."""

MILLI = 1000
HOUR_MS = 3_600_000


def refill(*, millitokens: int, filled_at_ms: int | None, now_ms: int, per_hour: int) -> int:
    """Thousandths of a token in the bucket at `now_ms`; a bucket that was never used is full.

    The capacity is one hour's tokens. A clock that went back refills nothing.
    """
    capacity = per_hour * MILLI
    if filled_at_ms is None:
        return capacity
    elapsed_ms = max(0, now_ms - filled_at_ms)
    return min(capacity, millitokens + elapsed_ms * capacity // HOUR_MS)


def whole_tokens(millitokens: int) -> int:
    """How many escalations the bucket pays for."""
    return millitokens // MILLI
