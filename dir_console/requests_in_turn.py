"""Django's ASGI handler, which works on a few requests at a time and lets the others wait in order.

Each request has a thread of its own, and Python runs one thread at a time: fifty at work do not end sooner
than eight, but wait for each other at every shared lock, and `reverse` takes one. Rationale: ADR 0041.
"""

import asyncio
from collections import defaultdict
from typing import Final
from weakref import WeakKeyDictionary

from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from dir_console import urls

MOST_AT_WORK: Final = 8
AGENTS: Final = "/api/"

_Turns = defaultdict[bool, asyncio.Semaphore]


class RequestsInTurn(ASGIHandler):
    """Agents and people wait in two lines, so that a burst of the ones does not hold up the others.

    A request takes its turn when its body has come whole, and its turn ends before the answer is sent: a slow
    client takes nobody's.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in turn."""
        if request.path.startswith(urls.WITHOUT_TURN):
            return await super().get_response_async(request)
        async with self._turn(is_agent=request.path.startswith(AGENTS)):
            return await super().get_response_async(request)

    def _turn(self, *, is_agent: bool) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        turns = self._turns.setdefault(loop, defaultdict(lambda: asyncio.Semaphore(MOST_AT_WORK)))
        return turns[is_agent]
