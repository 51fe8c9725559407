"""How many statements an operator's pages take, and that each compiled read finds what its QuerySet does."""

import re
from unittest import mock

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit import statements
from audit.access.roles import Role
from escalations.models import Escalation
from tests.properties.test_statements import Compared
from tests.support import demo_scenes
from tests.web.test_pages import sign_in

pytestmark = pytest.mark.django_db
# Not asked of rows; the time is that of the database where it is PostgreSQL.
CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "SELECT clock_timestamp()")
# What each page takes. Fewer is better: a page that needs one more has to say why.
MOST = {"decision": 35, "queue": 18, "flow": 20, "overview": 31}


@pytest.fixture
def addresses() -> dict[str, str]:
    demo_scenes.load_pack()
    session = demo_scenes.session_of("ambitious-trader")
    for quantity in (40, 41, 42):
        said = demo_scenes.propose(
            session,
            "ADJUST_POSITION",
            demo_scenes.order("BUY", quantity, "NVDA", quantity * 12140),
            explain="The trend is clear.",
        )
    asked = Escalation.objects.get(pk=said["escalation_id"])
    return {
        "decision": f"/escalations/{asked.pk}/",
        "queue": "/escalations/",
        "flow": f"/flows/{asked.flow_id}/",
        "overview": "/",
    }


def read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def taken(client: Client, address: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        read(client, address)
    return [query["sql"] for query in captured if not query["sql"].startswith(CONTROL)]


@pytest.mark.parametrize("name", MOST)
def test_a_page_takes_no_more_statements(addresses: dict[str, str], name: str) -> None:
    client = sign_in(Role.OPERATOR)
    read(client, addresses[name])
    found = taken(client, addresses[name])
    assert len(found) <= MOST[name], "\n".join(found)


@pytest.mark.parametrize("name", MOST)
def test_a_page_asks_the_same_whatever_is_open(addresses: dict[str, str], name: str) -> None:
    """Nothing is asked for each row."""
    client = sign_in(Role.OPERATOR)
    read(client, addresses[name])
    few = taken(client, addresses[name])
    session = demo_scenes.session_of("ambitious-trader")
    for quantity in (43, 44, 45):
        demo_scenes.propose(
            session, "ADJUST_POSITION", demo_scenes.order("BUY", quantity, "NVDA", quantity * 12140)
        )
    assert len(taken(client, addresses[name])) <= len(few)


def test_every_compiled_read_of_a_page_finds_what_its_plain_form_does(addresses: dict[str, str]) -> None:
    client, compared = sign_in(Role.OPERATOR), Compared()
    escalation = Escalation.objects.latest("opened_at")
    client.post(f"/escalations/{escalation.pk}/claim/")
    page = read(client, addresses["decision"])
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page))
    client.post(f"/escalations/{escalation.pk}/decision/", {**hidden, "action": "ABORT"})
    others = ("/escalations/?impact=LOW_IMPACT", "/escalations/?mine=1", "/escalations/?show=closed")
    with mock.patch.object(statements.Read, "rows", lambda *form, **values: compared.read(*form, **values)):
        for address in (*addresses.values(), *others):
            read(client, address)
    assert len(compared.reads) >= 40
