"""The level of autonomy on pages: shown with its score and history, and raised by an admin who may."""

import re

import pytest
from django.test import Client

from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.contracts.states import AutonomyLevel
from runtime.registry.models import Agent
from runtime.registry.queries import owners
from tests.support import factories, risky_agent
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE, RAISE = "/agents/trader/", "/agents/trader/autonomy/"


@pytest.fixture
def desk() -> factories.Desk:
    return risky_agent.desk()


@pytest.fixture
def ada() -> Client:
    sign_in(Role.ADMIN, name="bob")
    return sign_in(Role.ADMIN, name="ada")


def asked(client: Client, **changes: str) -> dict[str, str]:
    """The form as the page has it, filled in."""
    shown = re.search(r'name="shown" value="([0-9a-f]*)"', text_of(client, PAGE))
    assert shown is not None
    return {"shown": shown[1], "level": "AUTONOMOUS", "reason": "Its prompt was mended.", **changes}


def test_an_autonomous_agent_has_a_score_and_nothing_to_raise(desk: factories.Desk, ada: Client) -> None:
    page = text_of(ada, PAGE)
    assert "Risk score" in page
    assert "<b>0</b> of 100" in page
    assert "Supervised from 20 points on, read only from 40." in page
    assert RAISE not in page


def test_a_lowered_agent_is_shown_with_its_parts_and_raised(desk: factories.Desk, ada: Client) -> None:
    risky_agent.reject(desk, 2)
    page = text_of(ada, PAGE)
    assert "Supervised" in page
    assert "<b>20</b> of 100" in page
    assert "Rejected proposals" in page
    assert "Risk score 20 of 100: rejections 20" in page
    assert ada.post(RAISE, asked(ada, reason="")).status_code == 422
    assert ada.post(RAISE, asked(ada, level="KING")).status_code == 409
    assert ada.post(RAISE, asked(ada, shown="0" * 64)).status_code == 409
    assert risky_agent.level(desk) is AutonomyLevel.SUPERVISED
    assert ada.post(RAISE, asked(ada)).status_code == 302
    assert risky_agent.level(desk) is AutonomyLevel.AUTONOMOUS
    entry = LedgerEntry.objects.filter(kind="agent:autonomy_changed").latest("id")
    assert entry.actor.startswith("user:")
    page = text_of(ada, PAGE)
    assert "Its prompt was mended." in page
    assert "<b>0</b> of 100" in page


def test_who_owns_the_agent_is_told_why_not(desk: factories.Desk, ada: Client) -> None:
    risky_agent.reject(desk, 2)
    form = asked(ada)
    Agent.objects.update(owner="ada")
    assert "another admin must raise its level" in text_of(ada, PAGE)
    refused = ada.post(RAISE, form)
    assert refused.status_code == 403
    assert b"another admin must raise its level" in refused.content
    assert risky_agent.level(desk) is AutonomyLevel.SUPERVISED


def test_who_gave_the_agent_away_lately_counts_as_its_owner(desk: factories.Desk, ada: Client) -> None:
    risky_agent.reject(desk, 2)
    form = asked(ada)
    Agent.objects.update(owner="ada")
    edit = {"owner": "bob", "mission": "Trade.", "review_on": ""}
    seen = {"seen_owner": "ada", "seen_mission": "Trade.", "seen_review_on": ""}
    assert ada.post("/agents/trader/edit/", {**edit, **seen}).status_code == 302
    change = Agent.objects.get().owner_changes.get()
    carl = sign_in(Role.ADMIN, name="carl")
    assert carl.post(f"/agents/trader/owner/{change.pk}/agree/").status_code == 302
    assert owners.list_recent(agent=Agent.objects.get(), at=change.asked_at)
    for client in (ada, carl):
        assert client.post(RAISE, form).status_code == 403


def test_only_admins_raise_and_everybody_sees(desk: factories.Desk) -> None:
    risky_agent.reject(desk, 4)
    olivia = sign_in(Role.OPERATOR, name="olivia")
    page = text_of(olivia, PAGE)
    assert "Read only" in page
    assert RAISE not in page
    assert olivia.post(RAISE, {"level": "AUTONOMOUS", "shown": "", "reason": "x"}).status_code == 403
    assert olivia.get(RAISE).status_code == 405


def test_a_row_changed_by_hand_is_said_on_the_page(desk: factories.Desk, ada: Client) -> None:
    risky_agent.reject(desk, 4)
    Agent.objects.update(autonomy=AutonomyLevel.AUTONOMOUS)
    page = text_of(ada, PAGE)
    assert "The row of this agent has another level than the ledger." in page
    assert "Read only" in page


def test_the_list_shows_levels_and_filters_by_them(desk: factories.Desk, ada: Client) -> None:
    factories.desk(agent_id="calm")
    risky_agent.reject(desk, 2)
    assert "Autonomous" in text_of(ada, "/agents/")
    found = text_of(ada, "/agents/?level=SUPERVISED")
    assert "/agents/trader/" in found
    assert "/agents/calm/" not in found
    assert "No such agents" in text_of(ada, "/agents/?level=READ_ONLY")
    assert "/agents/calm/" in text_of(ada, "/agents/?level=KING")
