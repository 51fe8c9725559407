"""Fields that enforce nothing say so on every page that shows them, and so do kinds that say too much."""

import re
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from audit.access.roles import Role
from escalations.models import Escalation
from runtime.registry.models import PolicyKind
from tests.support import factories, gate_cases
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
RULES = [{**rule, "severity": "HIGH"} for rule in gate_cases.KIND["rules"]]
KIND = {"red_lines": ["Never twice"], "category": "orders", "rules": RULES}
OF_KIND = ["rules.severity", "category", "red_lines"]
UNREAD = {
    "type": "object",
    "properties": {"requires_market_mood": {"type": "string"}, "max_slippage_bps": {"type": "integer"}},
}


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk(
        kind=gate_cases.kind(**KIND),
        manifest=gate_cases.manifest(model_profile="small", evaluator_suite="first"),
    )


@pytest.fixture
def reader() -> Client:
    return sign_in(Role.ADMIN, name="ada")


def named(page: str) -> list[str]:
    """The fields that a page says are recorded and not enforced."""
    said = re.search(r"Recorded, not enforced:(.*?)</p>", page, re.DOTALL)
    return [] if said is None else re.findall(r">([^<>]+)</span>", said[1])


def test_a_kinds_page_and_its_editor(desk: factories.Desk, reader: Client) -> None:
    assert named(text_of(reader, "/kinds/ADJUST_POSITION/")) == OF_KIND
    document = text_of(reader, "/kinds/ADJUST_POSITION/new/")
    assert "red_lines" in document
    checked = reader.post(
        "/kinds/ADJUST_POSITION/new/",
        {"action": "check", "document": gate_cases.kind(version="1.3.0", **KIND).to_bytes().decode()},
    ).content.decode()
    assert checked.count("recorded, not enforced") == 2 + len(RULES)


def test_a_manifests_page_its_editor_and_its_agents_page(desk: factories.Desk, reader: Client) -> None:
    fields = ["model_profile"]
    for page in ("/agents/trader/", "/agents/trader/manifests/1.4.0/", "/agents/trader/manifests/new/"):
        assert named(text_of(reader, page)) == fields, page
    draft = gate_cases.manifest(version="1.5.0", model_profile="small").to_bytes().decode()
    checked = reader.post("/agents/trader/manifests/new/", {"action": "check", "document": draft})
    assert checked.content.decode().count("recorded, not enforced") == 1


def test_the_decision_page(desk: factories.Desk, reader: Client) -> None:
    said = desk.propose(desk.open(), params=factories.OVER_LIMIT)
    page = text_of(reader, f"/escalations/{Escalation.objects.get(pk=said['escalation_id']).pk}/")
    assert named(page) == [*OF_KIND, "manifest.model_profile"]


def test_where_all_is_enforced_nothing_is_said(reader: Client) -> None:
    desk = factories.desk()
    said = desk.propose(desk.open(), params=factories.OVER_LIMIT)
    for page in ("/kinds/ADJUST_POSITION/", "/agents/trader/", f"/escalations/{said['escalation_id']}/"):
        assert named(text_of(reader, page)) == []


def test_a_kind_in_force_that_would_be_refused_today_stays_and_is_named(reader: Client) -> None:
    """Stored before the linter knew: it goes on, and its page and the system check say what is wrong."""
    desk = factories.desk(kind=gate_cases.kind(constraints_schema=UNREAD, constraints=[]))
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    page = text_of(reader, "/kinds/ADJUST_POSITION/")
    assert "This version would fail today's checks." in page
    assert "no expression reads constraints.requires_market_mood" in page
    said = StringIO()
    call_command("check", databases=["default"], stderr=said, stdout=said)
    assert "runtime.W001" in said.getvalue()
    assert "constraints_schema.properties.requires_market_mood" in said.getvalue()


def test_a_sound_house_has_no_warning(reader: Client) -> None:
    factories.desk()
    assert PolicyKind.objects.filter(active=True).exists()
    assert "would fail today's checks" not in text_of(reader, "/kinds/ADJUST_POSITION/")
    said = StringIO()
    call_command("check", databases=["default"], stderr=said, stdout=said)
    assert "runtime.W001" not in said.getvalue()
