"""What stands around a page is asked for where it is shown; and a demo that answers oddly is told."""

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from audit.models import LedgerEntry
from dir_console import views
from escalations.models import Escalation
from runtime.guards.models import GuardRun, Review
from tests.support import demo_scenes, factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
# Behind the counts of the menu and the inbox.
TABLES = {model._meta.db_table for model in (Escalation, Review, GuardRun)}


def statements(client: Client, address: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    return [query["sql"] for query in captured]


def counted(found: list[str]) -> set[str]:
    return {table for table in TABLES if any(table in sql for sql in found)}


def test_the_banner_alone_counts_nothing_that_it_does_not_show() -> None:
    admin = sign_in(Role.ADMIN)
    assert counted(statements(admin, "/stop/state/")) == set()
    assert counted(statements(admin, "/help/")) == TABLES


def test_no_part_around_a_page_is_asked_for_twice() -> None:
    demo_scenes.load_pack()
    admin = sign_in(Role.ADMIN)
    admin.post("/stop/", {"reason": "drill"})
    # The page itself asks for the roles, so as not to trust what stands around it.
    found = [sql for sql in statements(admin, "/help/") if "auth_group" not in sql]
    assert [sql for sql in found if found.count(sql) > 1] == []


@pytest.mark.parametrize(("named", "says_so"), [(3, False), (2, True)])
def test_a_resumption_says_that_it_may_concern_agents_it_does_not_name(
    monkeypatch: pytest.MonkeyPatch, named: int, says_so: bool
) -> None:
    monkeypatch.setattr(views.Chrome, "most_named", named)
    for agent_id in ("one", "two"):
        desk = factories.desk(agent_id=agent_id)
        desk.propose(desk.open())
    admin = sign_in(Role.ADMIN)
    admin.post("/stop/", {"reason": "drill"})
    page = text_of(admin, "/stop/state/")
    assert "<bdi>two</bdi>" in page
    assert ("and maybe others" in page) is says_so


def test_the_overview_counts_agents_once_and_escalations_once_beside_the_menu() -> None:
    demo_scenes.build()
    client = sign_in(Role.OPERATOR)
    with CaptureQueriesContext(connection) as captured:
        client.get("/", headers={"HX-Request": "true"})
    grouped = [query["sql"] for query in captured if "GROUP BY" in query["sql"]]
    assert len([sql for sql in grouped if 'FROM "runtime_agent"' in sql]) == 1
    assert len([query for query in captured if "newest_high_at" in query["sql"]]) == 1


class _Other(http.server.BaseHTTPRequestHandler):
    """Another program at the address of the demo."""

    said: bytes = b""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.said)

    do_GET = do_POST = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def other(settings: Settings) -> Iterator[type[_Other]]:
    server = http.server.HTTPServer(("127.0.0.1", 0), _Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.DIR_DEMO_URL = f"http://127.0.0.1:{server.server_port}"
    settings.DIR_DEMO_TOKEN = "a-token-of-this-test"
    yield _Other
    server.shutdown()
    server.server_close()


KNOWN = {"scenarios": {"close-market": {"left_s": 1.0, "lasts_s": 60}}, "symbols": [], "symbol": ""}
ODD: dict[str, Any] = {
    "a page": "<html>",
    "no list": {"hello": "world"},
    "a list": [1],
    "scenarios of another kind": KNOWN | {"scenarios": ["close-market"]},
    "a scenario without its time": KNOWN | {"scenarios": {"close-market": {}}},
    "no number": KNOWN | {"scenarios": {"close-market": {"left_s": "soon", "lasts_s": 60}}},
}


@pytest.mark.parametrize("name", ODD)
def test_an_answer_of_something_else_than_the_demo_is_told_and_not_recorded(
    name: str, other: type[_Other], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ODD[name]
    monkeypatch.setattr(other, "said", said.encode() if isinstance(said, str) else json.dumps(said).encode())
    admin = sign_in(Role.ADMIN)
    assert "does not speak of scenarios" in text_of(admin, "/demo/")
    for act in ("start", "end"):
        page = admin.post(f"/demo/close-market/{act}/", follow=True).content.decode()
        assert "does not speak of scenarios" in page
    assert not LedgerEntry.objects.filter(kind__startswith="demo:").exists()


def test_a_demo_that_does_not_know_the_scenario_has_not_started_it(
    other: type[_Other], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other, "said", json.dumps(KNOWN).encode())
    page = sign_in(Role.ADMIN).post("/demo/crash-broker/start/", follow=True).content.decode()
    assert "not started" in page
    assert not LedgerEntry.objects.filter(kind__startswith="demo:").exists()
