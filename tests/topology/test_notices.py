"""Notices are sent by themselves: threads in one process, a task in production."""

from collections.abc import Callable, Iterator

import pytest
from pytest_django.fixtures import Settings

from escalations.contracts import NoticeState
from escalations.models import Notice
from escalations.services.notices import sending
from runtime.execution.services import notice_delivery
from runtime.workers import celery_tasks, embedded
from tests.support import factories, notice_receivers
from tests.support.notice_receivers import Receiver
from tests.support.wait_until import until


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with notice_receivers.receiver() as opened:
        yield opened


def test_the_drain_sends_notices_by_itself(real_db: str, receiver: Receiver) -> None:
    notice_receivers.add(receiver.url)
    desk = factories.desk()
    working = embedded.Drain()
    working.start()
    try:
        desk.escalate()
        until(lambda: Notice.objects.filter(state=NoticeState.SENT).exists(), timeout_s=90)
    finally:
        assert working.stop(timeout_s=30)
    assert len(receiver.ids) == 1


def test_a_round_that_is_told_to_stop_takes_no_more(real_db: str, receiver: Receiver) -> None:
    notice_receivers.add(receiver.url)
    factories.desk().escalate()
    assert sending.send_due(is_stopping=lambda: True) == 0
    assert receiver.ids == []


def test_the_task_sends_what_is_due(real_db: str, receiver: Receiver) -> None:
    notice_receivers.add(receiver.url)
    factories.desk().escalate()
    celery_tasks.send_notices()
    assert len(receiver.ids) == 1


def test_one_notice_that_cannot_be_sent_costs_no_other(
    real_db: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    notice_receivers.add(receiver.url)
    desk = factories.desk()
    for _ in range(2):
        desk.escalate()
    deliver: Callable[..., str | None] = notice_delivery.deliver
    poisoned: list[object] = []

    def failing(**given: object) -> str | None:
        if not poisoned:
            poisoned.append(given)
            raise RuntimeError("a bug")
        return deliver(**given)

    monkeypatch.setattr(notice_delivery, "deliver", failing)
    assert sending.send_due() == 1
    assert "could not be sent" in caplog.text
