"""A few requests at work at a time, in lines: of agents, of people, and of what agents write on SQLite."""

import asyncio
import contextvars
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.urls import path, resolve
from pytest_django.fixtures import Settings

from dir_console.requests_in_turn import Line, RequestsInTurn, refuse
from dir_console.urls import MAY_TAKE_LONG
from tests.support.wait_until import until_async

PATIENCE_S = 30.0
MOST_AT_WORK = 8


class Room:
    """Who is at work and how many at most were, until `opened` lets all of them go."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.at_work: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._lock = threading.Lock()

    def visit(self, who: str) -> None:
        with self._lock:
            self.at_work[who] += 1
            self.most[who] = max(self.most[who], self.at_work[who])
        assert self.opened.wait(PATIENCE_S)
        with self._lock:
            self.at_work[who] -= 1


room = Room()


def page(request: HttpRequest) -> HttpResponse:
    """A page that is at work until the room is opened."""
    room.visit("person")
    return HttpResponse("page")


def call(request: HttpRequest) -> HttpResponse:
    """The same for a call of an agent."""
    room.visit("agent")
    return HttpResponse("call")


kept: contextvars.ContextVar[str] = contextvars.ContextVar("kept", default="nothing")


def where(request: HttpRequest) -> HttpResponse:
    """In which thread, what an earlier request left there, and whether the connection is an earlier one's."""
    left, was = kept.get(), connection.connection
    kept.set(request.GET["by"])
    connection.ensure_connection()
    threads.append((threading.current_thread().name, left, was is not None))
    return HttpResponse("here")


def where_journals_are_kept(request: HttpRequest) -> HttpResponse:
    """Whether SQLite keeps what it needs besides in files (0 or 1) or in memory (2), and in which thread."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA temp_store")
        threads.append((threading.current_thread().name, str(cursor.fetchone()[0]), True))
    return HttpResponse("here")


urlpatterns = [
    path("page/", page),
    path("accounts/login/", page),
    path("api/call/", call),
    *(path(long.removeprefix("/"), call) for long in MAY_TAKE_LONG),
    path("where/", where),
    path("api/kept/", where_journals_are_kept),
]
threads: list[tuple[str, str, bool]] = []


@pytest.fixture
def handler(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[RequestsInTurn]:
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []
    settings.DIR_REQUESTS_AT_ONCE = MOST_AT_WORK
    monkeypatch.setitem(globals(), "room", Room())
    threads.clear()
    made = RequestsInTurn()
    yield made
    room.opened.set()
    made.end_threads()


async def ask(
    handler: RequestsInTurn,
    address: str,
    *said: dict[str, Any],
    leaves: asyncio.Event | None = None,
    method: str = "GET",
) -> int:
    """The status of the answer, 0 without one; after `said` the client is silent until it leaves."""
    scope = {
        "type": "http",
        "method": method,
        "path": address.partition("?")[0],
        "query_string": address.partition("?")[2].encode(),
        "headers": [(b"host", b"testserver")],
    }
    words, status = list(said), 0

    async def receive() -> dict[str, Any]:
        if words:
            return words.pop(0)
        await (leaves or asyncio.Event()).wait()
        return GONE

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    await handler(scope, receive, send)
    return status


WHOLE = {"type": "http.request", "body": b""}
UNFINISHED = {"type": "http.request", "body": b"x", "more_body": True}
GONE = {"type": "http.disconnect"}


def test_few_are_at_work_and_agents_do_not_hold_up_people(handler: RequestsInTurn) -> None:
    async def crowd() -> list[int]:
        calls = [asyncio.create_task(ask(handler, "/api/call/", WHOLE)) for _ in range(3 * MOST_AT_WORK)]
        await until_async(lambda: room.at_work["agent"] == MOST_AT_WORK)
        pages = [asyncio.create_task(ask(handler, "/page/", WHOLE)) for _ in range(2 * MOST_AT_WORK)]
        await until_async(lambda: room.at_work["person"] == MOST_AT_WORK)
        room.opened.set()
        return await asyncio.gather(*calls, *pages)

    assert asyncio.run(crowd()) == [200] * (5 * MOST_AT_WORK)
    assert room.most == {"agent": MOST_AT_WORK, "person": MOST_AT_WORK}


def test_what_agents_write_has_one_thread_where_the_database_has_one_writer(
    handler: RequestsInTurn,
) -> None:
    at_once = 1 if connection.vendor == "sqlite" else MOST_AT_WORK

    async def crowd() -> list[int]:
        writes = [
            asyncio.create_task(ask(handler, "/api/call/", WHOLE, method="POST"))
            for _ in range(2 * MOST_AT_WORK)
        ]
        await until_async(lambda: room.at_work["agent"] == at_once)
        reads = [asyncio.create_task(ask(handler, "/api/call/", WHOLE)) for _ in range(2 * MOST_AT_WORK)]
        pages = [
            asyncio.create_task(ask(handler, "/page/", WHOLE, method="POST")) for _ in range(MOST_AT_WORK)
        ]
        await until_async(lambda: room.at_work["person"] == MOST_AT_WORK)
        await until_async(lambda: room.at_work["agent"] == most)
        room.opened.set()
        return await asyncio.gather(*writes, *reads, *pages)

    # Reads do not wait for what is written; where both may be many, they share a line.
    most = MOST_AT_WORK + 1 if connection.vendor == "sqlite" else MOST_AT_WORK
    assert asyncio.run(crowd()) == [200] * (5 * MOST_AT_WORK)
    assert room.most == {"agent": most, "person": MOST_AT_WORK}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL needs no such journal")
@pytest.mark.usefixtures("real_db")
def test_only_the_writer_of_sqlite_keeps_journals_in_memory(handler: RequestsInTurn) -> None:
    async def calls() -> list[int]:
        return [await ask(handler, "/api/kept/", WHOLE, method=method) for method in ("POST", "GET", "POST")]

    assert asyncio.run(calls()) == [200] * 3
    assert [(name.rpartition("_")[0], kept) for name, kept, _ in threads] == [
        ("request-one_writer", "2"),
        ("request-agents", "0"),
        ("request-one_writer", "2"),
    ]


@pytest.mark.once
def test_what_may_take_long_has_these_addresses() -> None:
    assert {f"/{resolve(long, urlconf='dir_console.urls').route}" for long in MAY_TAKE_LONG} == MAY_TAKE_LONG


@pytest.mark.parametrize("long", sorted(MAY_TAKE_LONG))
def test_what_may_take_long_holds_up_nothing_that_is_written(handler: RequestsInTurn, long: str) -> None:
    async def crowd() -> list[int]:
        calls = [asyncio.create_task(ask(handler, long, WHOLE, method="POST")) for _ in range(MOST_AT_WORK)]
        await until_async(lambda: room.at_work["agent"] == MOST_AT_WORK)
        room.opened.set()
        return await asyncio.gather(*calls)

    assert asyncio.run(crowd()) == [200] * MOST_AT_WORK


def test_who_leaves_while_waiting_takes_no_turn(handler: RequestsInTurn) -> None:
    async def crowd() -> tuple[list[int], list[int]]:
        working = [asyncio.create_task(ask(handler, "/page/", WHOLE)) for _ in range(MOST_AT_WORK)]
        await until_async(lambda: room.at_work["person"] == MOST_AT_WORK)
        left = await asyncio.gather(*(ask(handler, "/page/", WHOLE, GONE) for _ in range(MOST_AT_WORK)))
        room.opened.set()
        return left, await asyncio.gather(*working, ask(handler, "/page/", WHOLE))

    left, answered = asyncio.run(crowd())
    assert left == [0] * MOST_AT_WORK
    assert answered == [200] * (MOST_AT_WORK + 1)


def test_a_body_that_does_not_come_takes_no_turn(handler: RequestsInTurn) -> None:
    async def crowd() -> int:
        leaves = asyncio.Event()
        slow = [ask(handler, "/page/", UNFINISHED, leaves=leaves) for _ in range(2 * MOST_AT_WORK)]
        waited = asyncio.gather(*slow)
        room.opened.set()
        status = await asyncio.wait_for(ask(handler, "/page/", WHOLE), PATIENCE_S)
        leaves.set()
        await waited
        return status

    assert asyncio.run(crowd()) == 200


def test_who_leaves_while_at_work_keeps_the_turn_until_the_work_has_ended(handler: RequestsInTurn) -> None:
    async def crowd() -> tuple[list[int], int]:
        leaves = asyncio.Event()
        working = [
            asyncio.create_task(ask(handler, "/page/", WHOLE, leaves=leaves)) for _ in range(MOST_AT_WORK)
        ]
        await until_async(lambda: room.at_work["person"] == MOST_AT_WORK)
        leaves.set()
        waiting = asyncio.create_task(ask(handler, "/page/", WHOLE))
        await until_async(lambda: handler.line(Line.PEOPLE).waiting == 1)
        room.opened.set()
        return await asyncio.gather(*working), await waiting

    # The answers of those who left are given to the server, which has nobody to send them to.
    assert asyncio.run(crowd()) == ([200] * MOST_AT_WORK, 200)
    assert room.most["person"] == MOST_AT_WORK


def test_reads_for_agents_wait_in_their_line(handler: RequestsInTurn) -> None:
    async def crowd() -> None:
        reads = [
            asyncio.create_task(handler.read_in_turn(HttpRequest(), lambda: room.visit("agent")))
            for _ in range(3 * MOST_AT_WORK)
        ]
        await until_async(lambda: room.at_work["agent"] == MOST_AT_WORK)
        room.opened.set()
        await asyncio.gather(*reads)

    asyncio.run(crowd())
    assert room.most == {"agent": MOST_AT_WORK}


@pytest.mark.usefixtures("real_db")
def test_threads_and_their_connections_stay_and_nothing_else_of_a_request_does(
    handler: RequestsInTurn,
) -> None:
    most_threads = 2 * MOST_AT_WORK

    async def visits() -> None:
        for number in range(3 * most_threads):
            assert await ask(handler, f"/where/?by={number}", WHOLE) == 200

    asyncio.run(visits())
    # A pool may start another thread while the last one is just coming to rest, but never more than it has.
    were_open = defaultdict(list)
    for name, _, was_open in threads:
        were_open[name].append(was_open)
    assert len(were_open) <= most_threads
    stays = connection.vendor == "sqlite"
    assert all(first is False and set(later) <= {stays} for first, *later in were_open.values())
    assert {left for _, left, _ in threads} == {"nothing"}


def test_signing_in_waits_in_a_line_of_its_own_and_takes_no_turn(handler: RequestsInTurn) -> None:
    async def crowd() -> list[int]:
        checks = [
            asyncio.create_task(ask(handler, "/accounts/login/", WHOLE)) for _ in range(2 * MOST_AT_WORK)
        ]
        await until_async(lambda: room.at_work["person"] == 2 * MOST_AT_WORK)
        pages = [asyncio.create_task(ask(handler, "/page/", WHOLE)) for _ in range(MOST_AT_WORK)]
        await until_async(lambda: room.at_work["person"] == 3 * MOST_AT_WORK)
        room.opened.set()
        return await asyncio.gather(*checks, *pages)

    assert asyncio.run(crowd()) == [200] * (3 * MOST_AT_WORK)


@pytest.mark.once
def test_a_person_is_refused_in_plain_words() -> None:
    answer = refuse(7, is_agent=False)
    assert (answer.status_code, answer["Retry-After"], answer["Cache-Control"]) == (429, "7", "no-store")
    assert b"The console is busy" in answer.content
    assert b"Nothing was done" in answer.content
    assert "script-src 'self'" in answer["Content-Security-Policy"]
