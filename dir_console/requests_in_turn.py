"""Django's ASGI handler, which works on a few requests at a time and lets the others wait in turn.

Each request has a thread of its own, and Python runs one thread at a time: fifty at work do not end sooner
than eight, but wait for each other at every shared lock, and `reverse` takes one. Rationale: ADR 0041; who
waits how long, and who is refused: ADR 0051.
"""

import asyncio
import hashlib
from collections import OrderedDict, defaultdict
from functools import lru_cache
from typing import Final
from weakref import WeakKeyDictionary

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string

from dir_console import addresses, auth, middleware, problems, urls
from dir_console.waiting_line import FullLineError, WaitingLine
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.registry.api.auth import caller_of

AGENTS: Final = "/api/"
# Callers whose credentials are remembered, for their place in line only.
MOST_KNOWN: Final = 10_000

_Lines = defaultdict[bool, WaitingLine]


class RequestsInTurn(ASGIHandler):
    """Agents and people wait in two lines, so that a burst of the ones does not hold up the others.

    A request takes its turn when its body has come whole, and its turn ends before the answer is sent: a slow
    client takes nobody's.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lines] = WeakKeyDictionary()
        self._known: OrderedDict[bytes, str] = OrderedDict()

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in turn; 429 where the line is full."""
        if request.path.startswith(urls.WITHOUT_TURN):
            return await super().get_response_async(request)
        is_agent = request.path.startswith(AGENTS)
        try:
            async with self.line(is_agent=is_agent).turn(self._caller(request)):
                answer = await super().get_response_async(request)
        except FullLineError as full:
            return _refuse(full.retry_after_s, is_agent=is_agent)
        self._remember(request)
        return answer

    def line(self, *, is_agent: bool) -> WaitingLine:
        """The line of the running event loop for agents, or for people."""
        lines = self._lines.setdefault(asyncio.get_running_loop(), defaultdict(_new_line))
        return lines[is_agent]

    def _caller(self, request: HttpRequest) -> str:
        """Whose turn it is: the caller that these credentials had before, else the address.

        Decides on the place in line and on nothing else. Invented credentials make nobody many: they were
        never accepted, so all of one address wait as one caller.
        """
        known = self._known.get(_digest(request))
        return known or f"address:{addresses.network_of(auth.address_of(request))}"

    def _remember(self, request: HttpRequest) -> None:
        """Credentials that authentication has just accepted."""
        caller = caller_of(request)
        if caller is None or not request.headers.get("Authorization"):
            return
        digest = _digest(request)
        self._known[digest] = f"{caller.tenant}/{caller.stream}"
        self._known.move_to_end(digest)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)


def _new_line() -> WaitingLine:
    return WaitingLine(at_once=settings.DIR_REQUESTS_AT_ONCE, longest_wait_s=settings.DIR_LINE_S)


def _digest(request: HttpRequest) -> bytes:
    return hashlib.sha256(request.headers.get("Authorization", "").encode()).digest()


def _refuse(retry_after_s: int, *, is_agent: bool) -> HttpResponse:
    """A refusal that asks neither the database nor a middleware."""
    if is_agent:
        detail = f"Too many requests are waiting. Nothing was done; retry after {retry_after_s} s."
        answer = problems.respond(Problem(code=ProblemCode.TOO_MANY_WAITING, detail=detail))
    else:
        answer = HttpResponse(_page(), status=ProblemCode.TOO_MANY_WAITING.status)
    for name, value in {**middleware.HEADERS, "Cache-Control": "no-store"}.items():
        answer[name] = value
    answer["X-Content-Type-Options"] = "nosniff"
    answer["Retry-After"] = str(retry_after_s)
    return answer


@lru_cache(maxsize=1)
def _page() -> str:
    context = {
        "status": ProblemCode.TOO_MANY_WAITING.status,
        "title": "The console is busy",
        "detail": "Too many pages were asked for at once. Nothing was done. Try again in a few seconds.",
    }
    return render_to_string("error.html", context)
