"""The live socket on a real server, seen by a real WebSocket client."""

import json
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from audit.access.roles import Role
from audit.live import consumers, hints
from tests.support.live_people import cookie_of, person, signed_in
from tests.support.wait_until import until


@pytest.fixture
def port(real_db: str) -> Iterator[int]:
    config = uvicorn.Config(consumers.live_app(), port=0, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    yield int(server.servers[0].sockets[0].getsockname()[1])
    server.should_exit = True
    thread.join(timeout=60)
    assert not thread.is_alive()


def opened(port: int, cookie: str, origin: str | None = None) -> ClientConnection:
    return connect(
        f"ws://127.0.0.1:{port}/ws/live/",
        origin=Origin(origin or f"http://127.0.0.1:{port}"),
        additional_headers={"Cookie": cookie},
        open_timeout=5,
    )


def test_a_hint_reaches_the_browser_until_it_signs_out(port: int) -> None:
    client = signed_in(person("ada", Role.AUDITOR))
    with opened(port, cookie_of(client)) as browser:
        hints.hint(tenant="default", stream="flow-1", seq=3)
        assert json.loads(browser.recv(timeout=60)) == {"stream": "flow-1", "seq": 3}
        browser.send("ping")
        assert browser.recv(timeout=60) == "pong"
        client.logout()
        hints.hint(tenant="default", stream="flow-1", seq=4)
        with pytest.raises(ConnectionClosed) as closed:
            browser.recv(timeout=60)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4401, "sign in again")


def test_a_refused_handshake_is_an_http_403(port: int) -> None:
    cookie = cookie_of(signed_in(person("ada", Role.AUDITOR)))
    for cookie_sent, origin in (("", None), (cookie, "http://evil.example"), (cookie, "null")):
        with pytest.raises(InvalidStatus) as refused:
            opened(port, cookie_sent, origin)
        assert refused.value.response.status_code == 403
