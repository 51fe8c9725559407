"""The patience of a real server with clients that do not send, and do not take, in time."""

import asyncio
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import uvicorn
from pytest_django.fixtures import Settings
from websockets.sync.client import connect

from dir_console import connections
from tests.support.wait_until import until

pytestmark = pytest.mark.slow
SOON_S = 0.3
WHOLE = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
Serve = Callable[..., int]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once, late, or with more than a client takes; a socket repeats what it hears."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    while scope["path"] != "/early" and (await receive()).get("more_body"):
        pass
    if scope["path"] == "/late":
        # Longer than any patience with a client that has not sent its request.
        await asyncio.wait([asyncio.ensure_future(receive())], timeout=4 * SOON_S)
    size = 50_000_000 if scope["path"] == "/huge" else 2
    head = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b"o" * size})


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server of little patience, for `total` connections; gives its port."""
    monkeypatch.setattr(connections, "HEAD_S", SOON_S)
    monkeypatch.setattr(connections, "REQUEST_S", 2 * SOON_S)
    with ExitStack() as ends:

        def start(total: int = 100) -> int:
            monkeypatch.setattr(connections, "most_connections", lambda: total)
            server = uvicorn.Server(
                uvicorn.Config(
                    application,
                    port=0,
                    lifespan="off",
                    log_level="critical",
                    http=connections.PatientProtocol,
                )
            )
            thread = threading.Thread(target=server.run)
            thread.start()
            until(lambda: server.started)

            def stop() -> None:
                server.should_exit = server.force_exit = True
                thread.join(timeout=10)
                assert not thread.is_alive()

            ends.callback(stop)
            return int(server.servers[0].sockets[0].getsockname()[1])

        yield start


def opened(port: int, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=5)
    made.sendall(sent)
    return made


def heard(client: socket.socket) -> bytes:
    """Everything until the server ends the connection."""
    came = b""
    try:
        while some := client.recv(65536):
            came += some
    except ConnectionResetError:
        pass
    return came


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: here\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n\r\n12345",
        WHOLE + b"GET / HTTP/1.1\r\n",
    ],
    ids=["nothing", "half a line", "half a head", "half a body", "half a second request"],
)
def test_half_a_request_is_not_waited_for(serve: Serve, sent: bytes) -> None:
    with opened(serve(), sent) as client:
        assert b"HTTP/1.1 408 Request Timeout" in heard(client)


def test_a_request_that_came_whole_is_answered_however_late(serve: Serve) -> None:
    port = serve()
    with opened(port, b"GET /late HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n") as client:
        assert heard(client).endswith(b"oo")
    with opened(port, b"GET /late HTTP/1.1\r\nHost: here\r\n\r\nGET / HT") as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 200"), "half a request cuts no earlier one"


def test_a_connection_that_was_answered_is_not_kept_by_an_empty_line(serve: Serve) -> None:
    with opened(serve(), WHOLE) as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        client.sendall(b"\r\n")
        assert b"408 Request Timeout" in heard(client)


def test_nor_by_the_rest_of_a_request_that_was_answered_before_it_came(serve: Serve) -> None:
    with opened(serve(), b"POST /early HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\n") as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        client.sendall(b"rest")
        assert b"408 Request Timeout" in heard(client)


def test_a_live_socket_stays(serve: Serve) -> None:
    with connect(f"ws://127.0.0.1:{serve()}/", open_timeout=5) as live, opened(serve()) as slow:
        assert heard(slow), "longer than patience lasts"
        live.send("still here")
        assert live.recv(timeout=5) == "still here"


def test_an_answer_that_is_not_taken_is_not_kept_for_ever(serve: Serve) -> None:
    port = serve(total=1)
    with opened(port, b"GET /huge HTTP/1.1\r\nHost: here\r\n\r\n"):
        until(lambda: b"200 OK" in answer_to(port), timeout_s=10)


def answer_to(port: int) -> bytes:
    with opened(port, WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")) as client:
        return heard(client)


def test_the_one_waited_for_longest_goes_first(serve: Serve, settings: Settings) -> None:
    settings.DIR_PROXY_DEPTH = 1
    port = serve(total=3)
    with opened(port, b"GET / HT") as first, opened(port, b"GET / HT") as second:
        assert b"200 OK" in answer_to(port)
        with opened(port, b"GET / HT"), opened(port, b"GET / HT"):
            first.settimeout(SOON_S / 3)
            assert heard(first) == b"", "it went at once, without an answer"
        assert heard(second)


def test_one_address_takes_no_more_than_half(serve: Serve, settings: Settings) -> None:
    settings.DIR_PROXY_DEPTH = 0
    port = serve(total=4)
    with opened(port, b"GET / HT") as first, opened(port, b"GET / HT"), opened(port, b"GET / HT"):
        first.settimeout(SOON_S / 3)
        assert heard(first) == b""


def test_where_everybody_is_at_work_the_next_is_turned_away(serve: Serve, settings: Settings) -> None:
    settings.DIR_PROXY_DEPTH = 1
    port = serve(total=1)
    with opened(port, b"GET /late HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n") as busy:
        until(lambda: answer_to(port).startswith(b"HTTP/1.1 503"))
        assert heard(busy).endswith(b"oo")
    until(lambda: b"200 OK" in answer_to(port))


def test_a_request_that_waited_behind_another_is_at_work_too(serve: Serve, settings: Settings) -> None:
    settings.DIR_PROXY_DEPTH = 1
    port = serve(total=1)
    late = b"GET /late HTTP/1.1\r\nHost: here\r\n"
    with opened(port, WHOLE + late + b"Connection: close\r\n\r\n") as busy:
        assert busy.recv(4096).startswith(b"HTTP/1.1 200")
        assert answer_to(port).startswith(b"HTTP/1.1 503")
        assert b"200 OK" in heard(busy)


def test_a_door_forgets_who_has_gone(serve: Serve) -> None:
    port = serve(total=2)
    for _ in range(20):
        assert b"200 OK" in answer_to(port)


@pytest.mark.parametrize(
    ("soft", "most"), [(256, 51), (1024, 204), (1_048_576, 4096), (resource.RLIM_INFINITY, 4096)]
)
def test_connections_leave_room_for_the_database(
    soft: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert connections.most_connections() == most


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [
        (128, 256, 256),
        (1024, 1_048_576, 65_536),
        (100_000, 1_048_576, None),
        (256, 256, None),
        (9, -1, 65_536),
    ],
)
def test_as_many_files_as_the_system_gives(
    soft: int, hard: int, wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    connections.raise_file_limit()
    assert limits == ([] if wanted is None else [(wanted, hard)])
