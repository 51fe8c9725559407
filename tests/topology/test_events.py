"""Events are sent by themselves: threads in one process, a task in production."""

import pytest
from django.conf import settings as configured
from pytest_django.fixtures import Settings

from runtime.outward.services import sending
from runtime.workers import celery_tasks, embedded
from tests.support import event_receivers, incident_story
from tests.support.event_receivers import codes, hook, seal
from tests.support.wait_until import until


@pytest.fixture(autouse=True)
def _allowed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    event_receivers.allow(settings, monkeypatch)


def test_the_drain_seals_and_sends_by_itself(real_db: str) -> None:
    with hook() as (place, _):
        working = embedded.Drain()
        working.start()
        try:
            incident_story.refuse(code="ONE")
            until(lambda: bool(place.target.seen), timeout_s=90)
        finally:
            assert working.stop(timeout_s=30)
        assert codes(place.target.seen) == ["ONE"]


def test_the_task_sends_what_is_due_and_beat_asks_for_it(real_db: str) -> None:
    with hook() as (place, _):
        seal("ONE")
        celery_tasks.send_events()
        assert codes(place.target.seen) == ["ONE"]
    asked = [each["task"] for each in configured.CELERY_BEAT_SCHEDULE.values()]
    assert celery_tasks.send_events.name in asked


def test_a_round_that_is_told_to_stop_takes_no_more(real_db: str) -> None:
    with hook() as (place, _):
        seal("ONE")
        assert sending.send_due(is_stopping=lambda: True) == 0
        assert place.ids == []
