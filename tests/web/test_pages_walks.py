"""Intents with several steps on pages: which are done, undone and waiting, and why an agent is locked."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from escalations.models import Escalation
from runtime.contracts.states import StepState
from runtime.core.views import labels
from runtime.execution.views import saga_steps
from runtime.flows.models import Attempt, Intent
from runtime.registry.services import agents
from tests.support import fake_target, trading_desk
from tests.support.fake_target import HANG_UP, LOSE, REFUSE, Book, attempt, walk
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def book(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Book]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened() as opened:
        yield opened


@pytest.fixture
def reader() -> Client:
    return sign_in(Role.OPERATOR)


def flow_page(reader: Client, intent_id: UUID, part: str = "") -> str:
    return text_of(reader, f"/flows/{trading_desk.flow_of(intent_id).dfid}/{part}")


def states(page: str) -> list[str]:
    """The words of the step list, in order."""
    listed = page.split('aria-label="Steps"')[1].split("</ol>")[0]
    words = [badge.word for badge in labels.STEP_STATES.values()]
    return [
        next(word for word in words if f">{word}</span>" in line or f"{word}</span>" in line)
        for line in listed.split("<li")[1:]
    ]


def half_way(book: Book) -> UUID:
    """Reserved and paid, not shipped, and about to be undone."""
    book.faults["/ship"] = [REFUSE]
    intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
    for _ in range(3):
        attempt(intent_id)
    return intent_id


def test_each_state_of_a_step_has_a_word_and_an_icon() -> None:
    assert labels.STEP_STATES.keys() == set(StepState)
    assert len({badge.word for badge in labels.STEP_STATES.values()}) == len(StepState)


def test_a_walk_shows_what_is_done_and_what_waits(book: Book, reader: Client) -> None:
    intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
    assert states(flow_page(reader, intent_id)) == ["Running", "Waiting", "Waiting"]
    attempt(intent_id)
    page = flow_page(reader, intent_id)
    assert states(page) == ["Done", "Running", "Waiting"]
    assert "Step reserve is done; pay is next." in page


def test_a_half_done_flow_says_so_and_so_does_its_agent(book: Book, reader: Client) -> None:
    intent_id = half_way(book)
    page = flow_page(reader, intent_id)
    assert states(page) == ["Done", "Being undone", "Not done"]
    assert "Partially executed" in page
    assert "Step ship will not be completed (TERMINAL_FAILURE): reserve, pay will be undone." in page
    of_agent = text_of(reader, f"/agents/{trading_desk.AGENT}/")
    assert "partially executed: completed steps are being undone" in of_agent
    assert f"/flows/{trading_desk.flow_of(intent_id).dfid}/" in of_agent

    attempt(intent_id)
    page = flow_page(reader, intent_id)
    assert states(page) == ["Being undone", "Undone", "Not done"]
    assert "Compensating" in page
    walk(intent_id)
    page = flow_page(reader, intent_id)
    assert states(page) == ["Undone", "Undone", "Not done"]
    assert "Compensated" in page
    assert "partially executed" not in text_of(reader, f"/agents/{trading_desk.AGENT}/")


def test_an_agent_that_a_person_locked_is_not_said_to_be_half_done(book: Book, reader: Client) -> None:
    half_way(book)
    for status in ("SUSPENDED", "LOCKED"):
        agents.set_status(
            tenant=trading_desk.TENANT,
            agent_id=trading_desk.AGENT,
            status=agents.S(status),
            reason="looked at",
            actor="user:1",
        )
    assert "partially executed: completed steps" not in text_of(reader, f"/agents/{trading_desk.AGENT}/")


def test_a_person_sees_what_stands_and_what_each_action_does(book: Book, reader: Client) -> None:
    book.faults["/pay/undo"] = [REFUSE]
    intent_id = half_way(book)
    walk(intent_id)
    assert "Partially executed" in flow_page(reader, intent_id)
    page = text_of(reader, f"/escalations/{Escalation.objects.get().pk}/")
    assert states(page) == ["Done", "Being undone", "Not done"]
    assert "retries undoing this step" in page
    assert "undoes it" in page
    assert "could not be undone" in page


def test_a_person_who_is_asked_on_the_way_forward_sees_what_would_be_undone(
    book: Book, reader: Client
) -> None:
    book.faults["/pay"] = [HANG_UP]
    intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
    walk(intent_id)
    assert "Partially executed" not in flow_page(reader, intent_id)
    page = text_of(reader, f"/escalations/{Escalation.objects.get().pk}/")
    assert states(page) == ["Done", "Running", "Waiting"]
    assert "undoes the steps completed before it" in page


def test_an_attempt_says_what_it_was_for() -> None:
    assert saga_steps.aim(direction="", purpose="") == ""
    assert saga_steps.aim(direction="FORWARD", purpose="CALL") == ""
    assert saga_steps.aim(direction="FORWARD", purpose="PROBE") == "checks whether it was done"
    assert saga_steps.aim(direction="COMPENSATE", purpose="CALL") == "undoes it"
    assert saga_steps.aim(direction="COMPENSATE", purpose="PROBE") == "checks whether it was undone"


def test_the_timeline_tells_a_probe_from_a_call(
    book: Book, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack(on_unknown="probe"))
    book.faults["/reserve"] = [LOSE]
    intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
    attempt(intent_id)
    attempt(intent_id)
    assert Attempt.objects.filter(purpose="PROBE").count() == 1
    assert "Attempt 2 checks the result of the call of step reserve." in flow_page(reader, intent_id)


def test_requests_that_cannot_be_read_show_no_steps(book: Book, reader: Client) -> None:
    intent_id = half_way(book)
    Intent.objects.filter(pk=intent_id).update(requests=b"{}")
    assert 'aria-label="Steps"' not in flow_page(reader, intent_id)
