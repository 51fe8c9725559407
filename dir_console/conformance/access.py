"""Who gets to a page without being a person who is signed in: tried on every address, in this process.

The guard of each page is asked with a request of an agent, and answers before the page reads anything. No
request is sent, so nothing is recorded.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver, get_resolver

from audit.verification import verify

# Addresses at which a person decides, or lets something come into force. A GET must not do it.
APPROVALS: Final = (
    "activate-kind",
    "activate-manifest",
    "agree-to-owner",
    "call-in-doubt",
    "escalation-bulk-decide",
    "escalation-decision",
    "escalation-take-back",
    "escalation-withdraw-decision",
)
_API: Final = "api/v1/"
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED})
_DUMMIES: Final = {"IntConverter": 0, "UUIDConverter": UUID(int=0)}


class Nobody(AnonymousUser):
    """Somebody who is signed in and holds no role; no account has this key."""

    pk = id = -1  # type: ignore[assignment]
    is_active = True  # type: ignore[assignment]

    @property
    def is_authenticated(self) -> bool:  # type: ignore[override]
        """They are."""
        return True


@dataclass(frozen=True, slots=True)
class Tried:
    """How many addresses were asked, how many are open to everybody, and what is wrong."""

    asked: int
    public: int
    wrong: list[str]


def try_as_agent() -> Tried:
    """Send every page a POST with an agent's key, and one of somebody without a role."""
    pages = list(_pages(get_resolver()))
    public = [route for route, entry in pages if getattr(entry.callback, "required_roles", ()) is None]
    wrong = [
        f"The page {route} does not say whom it admits."
        for route, entry in pages
        if not hasattr(entry.callback, "required_roles")
    ]
    guarded = [(route, entry) for route, entry in pages if getattr(entry.callback, "required_roles", None)]
    # Where a guard has a hole, its page is reached: inside, nothing can be written.
    with verify.snapshot():
        for route, entry in guarded:
            for name, user in (("an agent's key", AnonymousUser()), ("somebody without a role", Nobody())):
                answer = _answer(entry, "POST", user)
                if answer not in _REFUSED:
                    wrong.append(f"The page {route} answers {answer} to {name}.")
    return Tried(len(guarded), len(public), wrong)


def try_links() -> Tried:
    """Open the addresses of APPROVALS with a GET."""
    found = {entry.name: entry for _, entry in _pages(get_resolver()) if entry.name in APPROVALS}
    wrong = [f"There is no address named {name}." for name in APPROVALS if name not in found]
    with verify.snapshot():
        for name, entry in found.items():
            # Of one of them a GET leads back to the list.
            answer = _answer(entry, "GET", AnonymousUser())
            if answer not in {HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.FOUND}:
                wrong.append(f"A GET of {name} answers {answer}.")
    return Tried(len(found), 0, wrong)


def _pages(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for entry in resolver.url_patterns:
        route = prefix + str(entry.pattern)
        if route.startswith(_API):
            continue
        if isinstance(entry, URLResolver):
            yield from _pages(entry, route)
        else:
            yield f"/{route}", entry


def _answer(entry: URLPattern, method: str, user: Any) -> int | str:
    """The status of the answer, or the name of what was raised."""
    request = HttpRequest()
    request.method, request.user = method, user
    request.META = {
        "HTTP_AUTHORIZATION": "Bearer agk_conformance",
        "HTTP_HX_REQUEST": "true",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
    }
    converters = entry.pattern.converters
    named = {name: _DUMMIES.get(type(one).__name__, "x") for name, one in converters.items()}
    try:
        with _unlogged():
            return int(entry.callback(request, **named).status_code)
    except PermissionDenied:
        return HTTPStatus.FORBIDDEN
    except Exception as error:  # it went past its guard, and failed on what an agent has not
        return type(error).__name__


@contextmanager
def _unlogged() -> Iterator[None]:
    """Without the warnings that Django logs of refused methods, for this thread alone."""
    log, own = logging.getLogger("django.request"), threading.get_ident()

    def is_of_another(record: logging.LogRecord) -> bool:
        return record.thread != own

    log.addFilter(is_of_another)
    try:
        yield
    finally:
        log.removeFilter(is_of_another)
