"""The page of a decision that can still be taken back."""

import pytest
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from runtime.core import clock
from tests.support import factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def decided(settings: Settings) -> Escalation:
    settings.DIR_UNDO_MAX_S = 60
    escalation = factories.desk().escalate()
    factories.decide(escalation, factories.user("olivia"))
    return escalation


def test_the_button_is_there_while_nothing_runs(decided: Escalation) -> None:
    client, path = sign_in(Role.OPERATOR), f"/escalations/{decided.pk}/"
    assert f'action="{path}take-back/"' in client.get(path).content.decode()
    assert "Take back" in text_of(client, f"{path}undo/")
    answer = client.post(f"{path}take-back/", follow=True)
    assert "Taken back. Nothing ran" in answer.content.decode()
    assert Escalation.objects.get().state == "OPEN"
    assert f'action="{path}decision/"' in answer.content.decode()
    assert text_of(client, f"{path}undo/").strip() == ""


def test_after_the_window_it_is_gone_and_a_post_says_why(
    decided: Escalation, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = Decision.objects.get().decided_at
    client, path = sign_in(Role.OPERATOR), f"/escalations/{decided.pk}/"
    monkeypatch.setattr(clock, "now", lambda: until.replace(year=until.year + 1))
    assert "take-back" not in client.get(path).content.decode()
    answer = client.post(f"{path}take-back/")
    assert answer.status_code == 409
    assert "too late" in answer.content.decode()


def test_who_may_not_decide_is_shown_no_button(decided: Escalation) -> None:
    client, path = sign_in(Role.AUDITOR), f"/escalations/{decided.pk}/"
    assert "take-back" not in client.get(path).content.decode()
    assert client.post(f"{path}take-back/").status_code == 403
    assert Escalation.objects.get().resolution == Action.OVERRIDE


def test_the_list_of_decisions_says_that_it_was_taken_back(decided: Escalation) -> None:
    client = sign_in(Role.OPERATOR, name="mara")
    client.post(f"/escalations/{decided.pk}/take-back/")
    assert "Taken back" in text_of(client, "/decisions/")
    (listed,) = client.get("/decisions/?format=json").json()["decisions"]
    assert (listed["taken_back"], listed["matches_ledger"]) == (True, True)
    # The ledger says so, not the row.
    Decision.objects.update(state="IN_EFFECT")
    Escalation.objects.update(state="RESOLVED", resolved_at=clock.now())
    (listed,) = client.get("/decisions/?format=json").json()["decisions"]
    assert (listed["matches_ledger"], listed["mismatches"]) == (False, ["decision.state"])
