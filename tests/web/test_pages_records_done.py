"""The page of a record of what was carried out, undone, or asked of the agent."""

from uuid import UUID

import pytest
from django.urls import reverse

from audit.access.roles import Role
from audit.models import DecisionRecord
from tests.support import finished_history, markup, worlds
from tests.support.finished_history import History
from tests.web.test_pages import sign_in, text_of

history = worlds.opened(finished_history.opened)
pytestmark = pytest.mark.django_db


def newest(dfid: UUID) -> str:
    row = DecisionRecord.objects.filter(dfid=dfid).order_by("-seq")[0]
    return text_of(sign_in(Role.AUDITOR), reverse("record", args=[row.record_id]))


def test_shows_each_call_with_its_key_and_its_receipt(history: History) -> None:
    page = newest(history.accepted)
    words = markup.words(page)
    assert "Written at the end of the flow" in words
    assert "succeeded" in words
    for step in ("reserve", "pay", "ship"):
        assert step in words
    assert words.count("forward, call") == 3
    assert "No person has decided" in words


def test_shows_what_was_undone(history: History) -> None:
    words = markup.words(newest(history.undone))
    assert "compensated" in words
    assert words.count("compensate, call") == 2


def test_shows_whom_a_person_stood_for(history: History) -> None:
    words = markup.words(newest(history.modified))
    assert "MODIFY" in words
    assert "On behalf of olivia" in words


def test_shows_an_answer_of_the_agent_among_the_evidence(history: History) -> None:
    page = newest(history.aborted)
    assert ">Answer</dt>" in page
    assert "ABORT" in page
