"""The page of a silent agent: who it is, what stands open in its name, and two actions."""

import pytest

from audit.access.roles import Role
from escalations.evidence_contracts import SilenceEvidence
from escalations.models import Escalation
from escalations.views import silence_evidence
from runtime.contracts.manifest import Hours, Weekday
from runtime.core import clock
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent
from tests.support import factories, fallen_silent
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> factories.Desk:
    made = fallen_silent.desk(hours={"opens": "00:00", "closes": "00:00"})
    made.propose(made.open())
    made.open()
    return made


@pytest.fixture
def escalation(desk: factories.Desk) -> Escalation:
    return fallen_silent.called(desk)


def test_the_page_says_who_is_silent_and_what_stands_open(escalation: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/")
    assert "has not called for 20 min of its hours; it may be silent for 10 min" in page
    assert "every day, all day, UTC" in page
    assert "trading-desk" in page
    assert "1 call in progress or pending" in page
    assert "2 open flows" in page
    assert "Unverified claim" not in page


def test_only_its_own_actions_are_offered_and_nothing_is_to_be_typed(escalation: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{escalation.pk}/")
    for action in ("ACKNOWLEDGE", "STOP_AGENT"):
        assert f'name="action" value="{action}"' in page
    for field in ("params", "receipt", "question", "typed_again", "conditions"):
        assert f'name="{field}"' not in page
    for action in ("OVERRIDE", "MODIFY", "ABORT", "REQUEST_INFO"):
        assert f'name="action" value="{action}"' not in page


def test_the_queue_lists_it_among_what_has_no_deadline(escalation: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    for address in ("/escalations/", "/escalations/?family=AGENT"):
        page = text_of(client, address)
        assert f'data-row="{escalation.pk}"' in page
        assert "an agent is silent" in page
        assert "1,200 s</b>; limit 600 s (100 % above)" in page
    assert f'data-row="{escalation.pk}"' not in text_of(client, "/escalations/?family=OPERATIONAL")


def test_a_post_stops_the_agent_and_the_page_says_who_did(
    desk: factories.Desk, escalation: Escalation
) -> None:
    client = sign_in(Role.OPERATOR)
    sent = {
        "action": "STOP_AGENT",
        "evidence_hash": escalation.evidence_hash,
        "version": escalation.version,
        "impact": escalation.impact,
    }
    answer = client.post(f"/escalations/{escalation.pk}/decision/", sent, follow=True)
    assert "Stopped. The agent&#x27;s calls are held until someone resumes it." in answer.content.decode()
    assert desk.again().stopped_at is not None
    page = text_of(client, f"/escalations/{escalation.pk}/")
    assert "Agent stopped" in page
    assert "operator" in page


def test_a_late_decision_is_told_that_the_agent_spoke(desk: factories.Desk, escalation: Escalation) -> None:
    fallen_silent.see(desk, at=clock.now())
    client = sign_in(Role.OPERATOR)
    sent = {
        "action": "STOP_AGENT",
        "evidence_hash": escalation.evidence_hash,
        "version": escalation.version,
        "impact": escalation.impact,
    }
    answer = client.post(f"/escalations/{escalation.pk}/decision/", sent)
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "The agent called again, or is no longer monitored." in page
    assert "Withdrawn" in page


def test_the_dry_run_has_nothing_to_judge(escalation: Escalation) -> None:
    sent = {"action": "MODIFY", "version": 1, "params": "{}"}
    answer = sign_in(Role.OPERATOR).post(f"/escalations/{escalation.pk}/dry-run/", sent)
    assert answer.status_code == 400


def test_an_agent_that_never_called_and_did_nothing_has_a_page_too() -> None:
    made = fallen_silent.desk("quiet-one")
    Agent.objects.update(mission="")
    found = fallen_silent.called(made)
    shown = factories.read_shown(found)
    assert isinstance(shown, SilenceEvidence)
    assert silence_evidence.read(shown, body=b"{}").hours == "always"
    hours = Hours(days=(Weekday.MON, Weekday.TUE), opens="09:00", closes="17:00")
    weekdays = shown.silence.model_copy(update={"hours": hours})
    shown = shown.model_copy(update={"silence": weekdays})
    assert silence_evidence.read(shown, body=b"{}").hours == "Mon, Tue, 09:00 to 17:00, UTC"
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{found.pk}/")
    assert "no open flows and no calls in progress" in page
    assert "No proposals so far." in page


def test_closed_silences_of_one_agent_are_not_told_as_alike(desk: factories.Desk) -> None:
    for _ in range(3):
        fallen_silent.called(desk)
        fallen_silent.see(desk, at=clock.now())
        sweeper.sweep()
    page = text_of(sign_in(Role.OPERATOR), "/escalations/?show=closed")
    assert page.count("data-row=") == 3
    assert "similar" not in page
