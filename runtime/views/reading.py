"""What an address or a form says: a wrong value asks nothing, it never fails."""

from datetime import UTC, datetime
from urllib.parse import urlsplit
from uuid import UUID

from django.http import Http404, HttpRequest
from django.utils.dateparse import parse_datetime

from audit.permissions import tenant_of
from runtime.models import Agent
from runtime.queries.pages import agents

_MOST_DIGITS = 18  # fits a signed 64-bit column


def text(given: str, *, longest: int = 128) -> str:
    """Text to look for: trimmed and cut."""
    return given.strip()[:longest]


def is_whole(text: str) -> bool:
    """Whether the text is a whole number that a column can hold."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def whole(text: str) -> int | None:
    """A whole number, or None."""
    return int(text) if is_whole(text) else None


def uuid(text: str) -> UUID | None:
    """An id, or None."""
    try:
        return UUID(text)
    except ValueError:
        return None


def page_path(address: str) -> str:
    """The path of the page that a fragment belongs to, as htmx names it."""
    try:
        return urlsplit(address).path or "/"
    except ValueError:
        return "/"


def moment(text: str) -> datetime | None:
    """A moment, in UTC where it names no zone, or None."""
    try:
        read = parse_datetime(text)
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read and read.tzinfo is None else read


def words(request: HttpRequest, name: str, *, longest: int) -> str | None:
    """A form field's text, trimmed; None where it is missing or too long."""
    given = request.POST.get(name, "").strip()
    return given if 0 < len(given) <= longest else None


def agent(request: HttpRequest, agent_id: str) -> Agent:
    """The agent of an address. Raises Http404 where there is none."""
    found = agents.get_agent(tenant=tenant_of(request.user), agent_id=agent_id)
    if found is None:
        raise Http404
    return found
