"""Long polls under a real uvicorn: woken by news, ended by refusals, holding no thread meanwhile."""

import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from audit.live import hints
from runtime.registry.services import credentials
from tests.support import api_client, served
from tests.support.wait_until import until

PROMPT_S = 12.0  # a call that nobody woke takes 15 s or more: it asks for that much


class Site:
    """The server's address, and agents that call it over HTTP."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.key = api_client.agent_key()
        self.token = self.call("POST", "/handshake", api_client.hello(), token=self.key)[1]["session_token"]
        self.pool = ThreadPoolExecutor(max_workers=64)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        prefer: str = "",
    ) -> tuple[int, Any, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        if prefer:
            headers["Prefer"] = prefer
        content = None
        if body is not None:
            content, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection.request(method, f"/api/v1{path}", body=content, headers=headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, json.loads(text or b"null"), response

    def open_flow(self) -> str:
        return str(self.call("POST", "/flows", {"trigger": "x"})[1]["dfid"])

    def poll(self, dfid: str, *, wait_s: int, after: int = 0) -> "Future[tuple[int, Any, float]]":
        """A long poll in the background: status, body and how long it took."""

        def work() -> tuple[int, Any, float]:
            began = time.monotonic()
            status, body, _ = self.call("GET", f"/flows/{dfid}/feedback?after={after}&wait={wait_s}")
            return status, body, time.monotonic() - began

        return self.pool.submit(work)

    def await_listener(self, dfid: str) -> None:
        until(lambda: any(dfid in board.bells for board in hints._boards.values()))


@pytest.fixture
def site(real_db: str) -> Iterator[Site]:
    """The whole application on a port of its own."""
    api_client.load_pack()
    with served.on_a_port() as port:
        running = Site(port)
        yield running
        running.pool.shutdown()


def test_news_end_the_wait_at_once(site: Site) -> None:
    dfid = site.open_flow()
    waiting = site.poll(dfid, wait_s=15)
    site.await_listener(dfid)
    site.call("POST", f"/flows/{dfid}/cancel", {"reason": "changed my mind"})
    status, body, took_s = waiting.result(timeout=60)
    assert status == 200
    assert [event["event_type"] for event in body["events"]] == ["FLOW_ABORTED"]
    assert body["next"] == 1
    assert took_s < PROMPT_S


def test_news_that_are_there_already_are_not_waited_for(site: Site) -> None:
    dfid = site.open_flow()
    site.call("POST", f"/flows/{dfid}/cancel", {"reason": "x"})
    status, body, took_s = site.poll(dfid, wait_s=15).result(timeout=60)
    assert (status, body["next"]) == (200, 1)
    assert took_s < PROMPT_S


def test_patience_ends_without_news(site: Site) -> None:
    dfid = site.open_flow()
    status, body, took_s = site.poll(dfid, wait_s=1, after=7).result(timeout=60)
    assert (status, body) == (200, {"events": [], "next": 7})
    assert 1.0 <= took_s < 1.0 + PROMPT_S


def test_a_key_revoked_in_mid_flight_ends_the_wait(site: Site) -> None:
    dfid = site.open_flow()
    waiting = site.poll(dfid, wait_s=15)
    site.await_listener(dfid)
    credentials.revoke_key(key_id=site.key.partition(".")[0], actor="system")
    status, body, took_s = waiting.result(timeout=60)
    assert (status, body["code"]) == (401, "UNAUTHENTICATED")
    assert took_s < 2 * PROMPT_S


def test_refuses_at_once_and_with_problem_documents(site: Site) -> None:
    dfid = site.open_flow()
    unknown = "01890000-0000-7000-8000-000000000000"
    cases = [
        ("GET", f"/flows/{dfid}/feedback?wait=15", "garbage", 401),
        ("GET", f"/flows/{dfid}/feedback?wait=15", "", 401),
        ("GET", f"/flows/{dfid}/feedback?wait=15", site.key, 403),
        ("GET", f"/flows/{unknown}/feedback?wait=15", None, 404),
        ("GET", f"/flows/{dfid}/feedback?wait=31", None, 422),
        ("GET", f"/flows/{dfid}/feedback?wait=x", None, 422),
        ("GET", f"/flows/{dfid}/feedback?wait=15&after=-1", None, 422),
        ("POST", f"/flows/{dfid}/feedback?wait=15", None, 405),
    ]
    began = time.monotonic()
    for method, path, token, expected in cases:
        status, body, response = site.call(method, path, token=token)
        assert (status, body["status"]) == (expected, expected), path
        assert response.headers["Content-Type"] == "application/problem+json"
        assert response.headers["Cache-Control"] == "no-store"
    assert time.monotonic() - began < 2 * PROMPT_S


def test_many_waits_leave_room_for_other_calls(site: Site) -> None:
    dfid = site.open_flow()
    waiting = [site.poll(dfid, wait_s=15) for _ in range(50)]
    site.await_listener(dfid)
    began = time.monotonic()
    assert site.call("GET", f"/flows/{dfid}")[0] == 200
    assert time.monotonic() - began < PROMPT_S
    site.call("POST", f"/flows/{dfid}/cancel", {"reason": "all go home"})
    answers = [poll.result(timeout=60) for poll in waiting]
    assert {status for status, _, _ in answers} == {200}
    assert all(body["next"] == 1 for _, body, _ in answers)


def test_a_caller_that_hangs_up_is_forgotten(site: Site) -> None:
    dfid = site.open_flow()
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
    headers = {"Authorization": f"Bearer {site.token}"}
    connection.request("GET", f"/api/v1/flows/{dfid}/feedback?wait=30", headers=headers)
    site.await_listener(dfid)
    connection.close()
    until(lambda: not any(dfid in board.bells for board in hints._boards.values()), timeout_s=20)
