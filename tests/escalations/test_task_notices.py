"""Notices of steps that people carry out: who is told of one, what it says, and when it is not sent."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction
from pytest_django.fixtures import Settings

from audit.verification import findings
from escalations.contracts import NoticeState, Occasion
from escalations.models import Notice, NotificationRoute
from escalations.services.notices import sending
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.execution.models import HumanTask
from tests.support import human_tasks, notice_receivers, trading_desk
from tests.support.human_tasks import answer, attempt, person, task
from tests.support.notice_receivers import Receiver

URL = "https://hooks.example.com/dir"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _loopback(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    settings.DIR_PUBLIC_URL = "https://console.example"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with notice_receivers.receiver() as opened:
        yield opened


def add(url: str = URL, **fields: object) -> NotificationRoute:
    return notice_receivers.add(url, **{"occasions": (Occasion.TASK_OPENED,), **fields}).route


def waiting(monkeypatch: pytest.MonkeyPatch) -> UUID:
    """An intent that waits for a task of the group treasury."""
    monkeypatch.setattr(trading_desk, "PACK", human_tasks.pack("approve"))
    intent_id = trading_desk.open_desk(base_url="http://127.0.0.1:1").accept()
    assert attempt(intent_id) == "AWAITING"
    return intent_id


def told() -> list[tuple[str, str]]:
    return list(Notice.objects.order_by("route__name").values_list("route__name", "state"))


def test_a_task_is_announced_to_routes_of_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    add(name="all")
    add(name="its group", task_group="treasury")
    add(name="another group", task_group="lawyers")
    notice_receivers.add(URL, name="escalations alone")
    waiting(monkeypatch)
    assert told() == [("all", "PENDING"), ("its group", "PENDING")]
    # The group is part of the entries of the routes.
    assert [one.detail for one in findings.verify_all().findings] == []
    NotificationRoute.objects.filter(name="its group").update(task_group="")
    assert any("route.task_group" in one.detail for one in findings.verify_all().findings)


def test_it_says_what_is_asked_and_of_whom_and_is_signed(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    saved = notice_receivers.add(receiver.url, occasions=(Occasion.TASK_OPENED,))
    intent_id = waiting(monkeypatch)
    row = task(intent_id)
    assert sending.send_due() == 1
    (body,) = receiver.bodies(saved.secret)
    assert body["type"] == "task.opened"
    assert body["data"] == {
        "task_id": str(row.pk),
        "dfid": str(row.intent.flow_id),
        "agent_id": row.intent.flow.agent.agent_id,
        "policy_kind": row.intent.flow.policy_kind,
        "group": "treasury",
        "step": "approve",
        "instructions": "Look at 2 of ABC",
        "effect": "Buy 2 ABC",
        "deadline_at": body["data"]["deadline_at"],
        "url": f"https://console.example/tasks/{row.pk}/",
    }
    assert Notice.objects.get().state == NoticeState.SENT


def test_what_the_ledger_does_not_prove_is_not_told(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    add(receiver.url)
    waiting(monkeypatch)
    row = HumanTask.objects.get()
    HumanTask.objects.update(body=bytes(row.body).replace(b"Look at", b"Wire to"))
    assert sending.send_due() == 1
    (body,) = receiver.bodies()
    assert (body["data"]["instructions"], "does not match" in body["data"]["effect"]) == ("", True)


def test_one_that_was_answered_meanwhile_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    add(receiver.url)
    intent_id = waiting(monkeypatch)
    answered = answer(task(intent_id), person("tina", "treasury"))
    assert not isinstance(answered, Problem), answered
    assert sending.send_due() == 0
    notice = Notice.objects.get()
    assert (notice.state, notice.error) == ("DROPPED", "the task ended before it was sent")
    assert receiver.ids == []


def test_a_route_whose_group_was_changed_is_not_told(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    route = add(receiver.url)
    waiting(monkeypatch)
    NotificationRoute.objects.filter(pk=route.pk).update(task_group="lawyers")
    assert (sending.send_due(), Notice.objects.get().state) == (0, "DROPPED")


def test_a_notice_is_of_one_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    route = add()
    waiting(monkeypatch)
    notice = Notice.objects.get()
    at = clock.now()
    wrong = {"route": route, "queued_at": at, "next_at": at}
    for fields in (
        {"occasion": Occasion.TASK_OPENED, "task": notice.task},  # told already
        {"occasion": Occasion.TASK_OPENED},
        {"occasion": Occasion.TEST, "task": notice.task},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Notice.objects.create(**wrong, **fields)
