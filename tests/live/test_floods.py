"""A flood over real HTTP: it is refused beyond its share, and holds up neither another agent nor a person."""

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import uvicorn
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from dir_console import waiting_line
from dir_console.asgi import application
from runtime.flows.models import Flow
from tests.support import api_client
from tests.support.live_people import cookie_of, person, signed_in
from tests.support.wait_until import until

pytestmark = pytest.mark.slow
AT_ONCE, ROOM = 2, 30
CONNECTIONS, EACH = 64, 2
ASKED = 4


@pytest.fixture
def port(real_db: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The whole application, which works on two requests of a sort and lets thirty wait."""
    settings.DIR_REQUESTS_AT_ONCE, settings.DIR_LINE_S = AT_ONCE, 10_000
    monkeypatch.setattr(waiting_line, "LONGEST_LINE", ROOM)
    api_client.load_pack()
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    yield int(server.servers[0].sockets[0].getsockname()[1])
    server.should_exit = True
    thread.join(timeout=60)
    assert not thread.is_alive()


class Caller:
    """One connection that is kept."""

    def __init__(self, port: int, **headers: str) -> None:
        self.wire = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.headers = headers

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes, http.client.HTTPResponse]:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if content else {}
        self.wire.request(method, path, body=content, headers=self.headers | headers)
        answer = self.wire.getresponse()
        return answer.status, answer.read(), answer


def session(port: int, agent_id: str) -> str:
    """The Authorization header of a new session, whose token the server has met."""
    with Caller(port, Authorization=f"Bearer {api_client.agent_key(agent_id)}") as caller:
        _, body, _ = caller.ask("POST", "/api/v1/handshake", api_client.hello(agent_id))
    header = f"Bearer {json.loads(body)['session_token']}"
    with Caller(port, Authorization=header) as caller:
        assert caller.ask("GET", "/api/v1/schema/policy")[0] == 200
    return header


def test_a_flood_waits_behind_itself_and_every_answer_is_true(port: int) -> None:
    flooding, quiet = session(port, api_client.TRADER), session(port, api_client.OTHER)
    cookie = cookie_of(signed_in(person("ada", Role.AUDITOR)))
    answered: Counter[int] = Counter()
    lock, begin, full = threading.Lock(), threading.Barrier(CONNECTIONS), threading.Event()

    def flood() -> None:
        begin.wait(60)
        with Caller(port, Authorization=flooding) as caller:
            for _ in range(EACH):
                status, body, answer = caller.ask("POST", "/api/v1/flows", {"trigger": "flood"})
                with lock:
                    answered[status] += 1
                if status == 429:
                    full.set()
                    problem = json.loads(body)
                    assert (problem["code"], problem["retriable"]) == ("TOO_MANY_WAITING", True)
                    assert int(answer.headers["Retry-After"]) >= 1
                    assert answer.headers["X-Frame-Options"] == "DENY"

    passed = []
    with (
        ThreadPoolExecutor(CONNECTIONS) as pool,
        Caller(port, Authorization=quiet) as agent,
        Caller(port, Cookie=cookie) as reader,
    ):
        floods = [pool.submit(flood) for _ in range(CONNECTIONS)]
        assert full.wait(60)
        for _ in range(ASKED):
            before = answered[201]
            assert agent.ask("POST", "/api/v1/flows", {"trigger": "quiet"})[0] == 201
            passed.append(answered[201] - before)
        assert reader.ask("GET", "/glossary/")[0] == 200
        assert reader.ask("GET", "/livez")[0] == 200
        for each in floods:
            each.result(timeout=120)

    assert set(answered) == {201, 429}
    assert answered.total() == CONNECTIONS * EACH
    # Those at work when it came, and one in turn before it; a line of arrivals would let thirty pass.
    assert sorted(passed)[ASKED // 2] <= 3 * AT_ONCE, passed
    made = Counter(Flow.objects.values_list("agent__agent_id", flat=True))
    assert made == {api_client.TRADER: answered[201], api_client.OTHER: ASKED}
