"""Django's ASGI handler, which works on a few requests at a time and lets the others wait in turn.

Python runs one thread at a time: fifty requests at work do not end sooner than eight, but wait for each other
at every shared lock, and `reverse` takes one (ADR 0041; who waits how long, and who is refused: ADR 0051). So
there are as many threads as turns. They stay, with their connections to the database, and each does all that
Django does for a request in one go, where Django's own handler makes a thread and changes it several times
(ADR 0058). SQLite has one writer, so there what agents write has one thread (ADR 0078), which answers several
proposals in one commit where they wait (ADR 0082).
"""

import asyncio
import contextvars
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from typing import IO, Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import DEFAULT_DB_ALIAS, close_old_connections, connections
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import set_script_prefix

from dir_console import addresses, auth, middleware, problems, urls
from dir_console.shared_commits import Asked, SharedCommits
from dir_console.waiting_line import FullLineError, WaitingLine
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.registry.api.auth import caller_of

# Callers whose credentials are remembered, for their place in line only.
MOST_KNOWN: Final = 10_000

# Methods that change nothing (RFC 9110, 9.2.1).
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

T = TypeVar("T")


class Line(Enum):
    """The lines in which requests wait: `ONE_WRITER` for agents' writes where a database has one writer."""

    PEOPLE = "people"
    AGENTS = "agents"
    ONE_WRITER = "one_writer"


class RequestsInTurn(ASGIHandler):
    """Agents and people wait in lines of their own, so that a burst of the ones does not hold up the others.

    A request takes its turn when its body has come whole, and its turn ends before the answer is sent: a slow
    client takes nobody's.
    """

    def __init__(self) -> None:
        super().__init__()
        # Every middleware and view is synchronous.
        self.load_middleware(is_async=False)
        self._has_one_writer = connections[DEFAULT_DB_ALIAS].vendor == "sqlite"
        self._threads = _new_threads()
        self._shared_commits = SharedCommits(self._threads[Line.ONE_WRITER])
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Line, WaitingLine]]
        self._lines = WeakKeyDictionary()
        self._known: OrderedDict[bytes, str] = OrderedDict()

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, from its body to its answer; who hangs up while it waits takes no turn."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with body:
            request, unreadable = self.create_request(scope, body)
            if request is None:
                await self.send_response(cast(HttpResponse, unreadable), send)
                return
            if self._has_its_turn(request):
                await self._respond(request, scope, body, send)
                return
            answering = asyncio.ensure_future(self._respond(request, scope, body, send))
            leaving = asyncio.ensure_future(receive())  # all that can come after the body
            try:
                await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                answering.cancel()  # without effect where it has ended
                await asyncio.wait((answering, leaving))
            if not answering.cancelled():
                answering.result()

    def _has_its_turn(self, request: HttpRequest) -> bool:
        """Whether a turn is free: then the request is answered even if its client leaves meanwhile."""
        if request.path.startswith(urls.WITHOUT_TURN):
            return False
        line = self.line(self._line_of(request))
        return line.at_work < line.at_once

    async def _respond(self, request: HttpRequest, scope: Any, body: IO[bytes], send: Any) -> None:
        await self.send_response(await self._answer_in_turn(request, scope, body), send)

    async def _answer_in_turn(self, request: HttpRequest, scope: Any, body: IO[bytes]) -> HttpResponseBase:
        """Answer in turn; 429 where the line is full."""
        if request.path.startswith(urls.WITHOUT_TURN):
            passing = sync_to_async(_in_passing_thread)
            return cast(HttpResponseBase, await passing(lambda: self._answer(request, scope)))
        line = self._line_of(request)
        try:
            async with self.line(line).turn(self._caller(request)):
                if line is Line.ONE_WRITER and request.path in urls.SHARES_A_COMMIT:
                    answer = await self._in_shared_commit(request, scope, body)
                else:
                    answer = await self._in_kept_thread(line, lambda: self._answer(request, scope))
        except FullLineError as full:
            return refuse(full.retry_after_s, is_agent=line is not Line.PEOPLE)
        self._remember(request)
        return answer

    async def read_in_turn(self, request: HttpRequest, read: Callable[[], T]) -> T:
        """What `read` takes from the database for an agent whose request another application answers.

        Raises:
            FullLineError: where the line is full; nothing was read.
        """
        async with self.line(Line.AGENTS).turn(self._caller(request)):
            return await self._in_kept_thread(Line.AGENTS, lambda: _reading(read))

    async def _in_kept_thread(self, line: Line, work: Callable[[], T]) -> T:
        """Work in a thread that stays."""
        run = contextvars.copy_context().run
        return await _to_its_end(asyncio.get_running_loop().run_in_executor(self._threads[line], run, work))

    async def _in_shared_commit(self, request: HttpRequest, scope: Any, body: IO[bytes]) -> HttpResponseBase:
        """Answer in the thread that writes, with others that wait for it."""
        is_untouched = True

        def answer() -> HttpResponseBase:
            nonlocal request, is_untouched
            if not is_untouched:  # what was done was undone, but views have left their marks on the request
                body.seek(0)
                request = cast(HttpRequest, self.create_request(scope, body)[0])
            is_untouched = False
            return self._made(request)

        asked = Asked(begin=lambda: self._begin(scope), answer=answer, end=_end)
        return await _to_its_end(asyncio.wrap_future(self._shared_commits.submit(asked)))

    def _answer(self, request: HttpRequest, scope: Any) -> HttpResponseBase:
        """All that Django does for a request, in this thread."""
        self._begin(scope)
        answer = self._made(request)
        _end(answer)
        return answer

    def _begin(self, scope: Any) -> None:
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)

    def _made(self, request: HttpRequest) -> HttpResponseBase:
        answer = self.get_response(request)
        answer._handler_class = type(self)  # type: ignore[attr-defined]  # who has finished the request
        if answer.streaming:
            raise TypeError("no view streams: an answer is made whole before its turn ends")
        return answer

    def end_threads(self) -> None:
        """End the threads that are kept, with their connections; who asks again gets new ones."""
        ended, self._threads = self._threads, _new_threads()
        self._shared_commits = SharedCommits(self._threads[Line.ONE_WRITER])
        for threads in ended.values():
            threads.shutdown()

    def line(self, line: Line) -> WaitingLine:
        """That line of the running event loop."""
        lines = self._lines.setdefault(asyncio.get_running_loop(), {})
        if line not in lines:
            at_once = settings.DIR_REQUESTS_AT_ONCE
            lines[line] = WaitingLine(at_once=at_once, longest_wait_s=settings.DIR_LINE_S)
        return lines[line]

    def _line_of(self, request: HttpRequest) -> Line:
        if not request.path.startswith(settings.DIR_FOR_PROGRAMS):
            return Line.PEOPLE
        writes = request.method not in SAFE_METHODS and request.path not in urls.MAY_TAKE_LONG
        return Line.ONE_WRITER if self._has_one_writer and writes else Line.AGENTS

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


async def _to_its_end(working: asyncio.Future[T]) -> T:
    """What a thread works at. Who hangs up does not stop it: it keeps its turn to its end."""
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait((working,))
        raise


def _end(answer: HttpResponseBase) -> None:
    """Give back connections that are not to be kept; the content of the answer stays."""
    answer.close()


def _reading(read: Callable[[], T]) -> T:
    try:
        return read()
    finally:
        close_old_connections()  # those that are not to be kept are given back


def _in_passing_thread(work: Callable[[], Any]) -> Any:
    """Work in a thread of the request's own, which ends with it and so keeps no connection."""
    try:
        return work()
    finally:
        connections.close_all()


def _new_threads() -> dict[Line, ThreadPoolExecutor]:
    """One for each turn in each line; each is started when it is first needed."""
    return {
        line: ThreadPoolExecutor(
            1 if line is Line.ONE_WRITER else settings.DIR_REQUESTS_AT_ONCE,
            thread_name_prefix=f"request-{line.value}",
            initializer=_keep_journals_in_memory if line is Line.ONE_WRITER else None,
        )
        for line in Line
    }


def _keep_journals_in_memory() -> None:
    """For the writer of SQLite, which makes and removes a file otherwise to undo a statement if it fails.

    Only there: sorts and copies of whole tables, which other connections do, are to go to files.
    """
    # Whatever it meets: a thread that does not start takes the whole line with it.
    with suppress(Exception), connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("PRAGMA temp_store = MEMORY")


def _digest(request: HttpRequest) -> bytes:
    return hashlib.sha256(request.headers.get("Authorization", "").encode()).digest()


def refuse(retry_after_s: int, *, is_agent: bool) -> HttpResponse:
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
