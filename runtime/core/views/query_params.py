"""Parse query parameters: an invalid value is ignored, it never fails."""

from datetime import UTC, datetime
from urllib.parse import urlsplit
from uuid import UUID

from django.urls import reverse
from django.utils.dateparse import parse_datetime

_MOST_DIGITS = 18  # fits a signed 64-bit column


def text(given: str, *, longest: int = 128) -> str:
    """Return a search text, trimmed and cut."""
    return given.strip()[:longest]


def is_whole(text: str) -> bool:
    """Return whether the text is a whole number that fits a column."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def whole(text: str) -> int | None:
    """Return a whole number, or None."""
    return int(text) if is_whole(text) else None


def uuid(text: str) -> UUID | None:
    """Return an id, or None."""
    try:
        return UUID(text)
    except ValueError:
        return None


def page_path(address: str) -> str:
    """Return the path of the page that a fragment belongs to, as sent by htmx; else of the overview."""
    try:
        return urlsplit(address).path or reverse("overview")
    except ValueError:
        return reverse("overview")


def moment(text: str) -> datetime | None:
    """Return a timestamp in UTC, which is its zone if it names none, or None."""
    try:
        read = parse_datetime(text)
        if read is None:
            return None
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
