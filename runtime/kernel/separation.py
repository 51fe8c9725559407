"""For how long what somebody did, or was, keeps them from deciding what follows from it. Pure."""

DAYS = 7
DAY_MS = 86_400_000


def ends_ms(at_ms: int) -> int:
    """When something that happened at `at_ms` binds nobody any more, in Unix milliseconds."""
    return at_ms + DAYS * DAY_MS
