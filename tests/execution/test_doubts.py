"""What is in doubt, and what settles it: a receipt, a probe or a person, and nothing else."""

import importlib
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from django.apps import apps
from django.db import IntegrityError, transaction
from pytest_django.fixtures import Settings

from runtime.contracts.states import Effect
from runtime.core import clock
from runtime.execution.services import doubts, recovery
from runtime.flows.models import Attempt, Flow, Intent
from runtime.flows.queries import calls_in_doubt
from runtime.flows.services.flow_transaction import Journal
from tests.support import fake_target, trading_desk
from tests.support.fake_target import HANG_UP, LOSE, Book, attempt, walk

pytestmark = pytest.mark.django_db
MIGRATION = "runtime.migrations.0010_what_became_of_calls_in_doubt"


@pytest.fixture
def book(
    request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Book]:
    on_unknown = request.param
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack(on_unknown=on_unknown))
    with fake_target.opened(knows_keys=on_unknown == "resend") as opened:
        yield opened


@pytest.fixture
def desk(book: Book) -> trading_desk.Desk:
    return trading_desk.open_desk(base_url=book.base_url)


def calls(intent_id: UUID) -> list[tuple[str, str]]:
    """What is known of the calls of the first step, in order: the effect and who found it out."""
    rows = Attempt.objects.filter(intent=intent_id, purpose="CALL", step="reserve", direction="FORWARD")
    return list(rows.order_by("number").values_list("effect", "settled_by"))


def forget(intent_id: UUID) -> None:
    """As it was before what became of a call had a column."""
    Attempt.objects.filter(intent=intent_id).update(effect="", settled_by="", settled_at=None)


def carry_over() -> None:
    importlib.import_module(MIGRATION).settle_what_is_known(apps, None)


@pytest.mark.parametrize(
    ("book", "fault", "then"),
    [
        ("resend", LOSE, [("HAPPENED", "receipt"), ("", "")]),
        ("probe", LOSE, [("HAPPENED", "probe")]),
        ("probe", HANG_UP, [("NOT_HAPPENED", "probe"), ("", "")]),
    ],
    indirect=["book"],
)
def test_a_receipt_or_a_probe_settles_it(
    book: Book, desk: trading_desk.Desk, fault: str, then: list[tuple[str, str]]
) -> None:
    book.faults["/reserve"] = [fault, ""]
    intent_id = desk.accept()
    attempt(intent_id)
    intent = Intent.objects.get(pk=intent_id)
    assert calls_in_doubt.is_in_doubt(intent=intent)
    assert calls_in_doubt.is_flow_in_doubt(flow=intent.flow)
    assert [row.intent_id for row in calls_in_doubt.list_calls(tenant=trading_desk.TENANT)] == [intent_id]
    assert Intent.objects.filter(calls_in_doubt.in_doubt_since(intent.created_at)).get() == intent
    assert not Intent.objects.filter(calls_in_doubt.in_doubt_since(clock.now() + timedelta(days=1))).exists()

    walk(intent_id)
    assert calls(intent_id) == then
    assert not calls_in_doubt.is_in_doubt(intent=intent)
    assert not calls_in_doubt.list_calls(tenant=trading_desk.TENANT).exists()

    forget(intent_id)
    carry_over()
    assert calls(intent_id) == then


@pytest.mark.parametrize("book", ["person"], indirect=True)
def test_a_person_settles_it(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"] = [LOSE]
    intent_id = desk.accept()
    attempt(intent_id)
    at, intent = clock.now(), Intent.objects.get(pk=intent_id)
    flow = Flow.objects.get(pk=intent.flow_id)
    journal = Journal(flow=flow, actor="user:7", at=at)
    recovery.mark_done(journal=journal, intent=intent, receipt={"found": True}, actor="user:7", at=at)
    journal.write()
    assert calls(intent_id) == [("HAPPENED", "user:7")]

    forget(intent_id)
    carry_over()
    assert calls(intent_id) == [("HAPPENED", "user:7")]


@pytest.mark.parametrize("book", ["person"], indirect=True)
def test_the_end_of_its_intent_settles_nothing(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"] = [LOSE]
    intent_id = desk.accept()
    attempt(intent_id)
    Intent.objects.update(state="FAILED", finished_at=clock.now())
    carry_over()
    assert calls_in_doubt.is_in_doubt(intent=Intent.objects.get(pk=intent_id))

    # What another ran in place of was stated to have had no effect.
    Intent.objects.update(state="CANCELLED")
    carry_over()
    assert calls(intent_id) == [("NOT_HAPPENED", "person")]


@pytest.mark.parametrize("book", ["person"], indirect=True)
def test_only_what_is_in_doubt_is_settled_and_only_by_knowing(book: Book, desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    walk(intent_id)
    intent = Intent.objects.get(pk=intent_id)
    journal = Journal(flow=trading_desk.flow_of(intent_id), actor="user:7", at=clock.now())
    assert doubts.settle(journal=journal, intent=intent, effect=Effect.HAPPENED, by="user:7") == 0
    assert journal.entries == []
    with pytest.raises(ValueError, match="settles nothing"):
        doubts.settle(journal=journal, intent=intent, effect=Effect.UNKNOWN, by="user:7")
    row = Attempt.objects.filter(intent=intent).order_by("number").first()
    assert row is not None
    with pytest.raises(IntegrityError), transaction.atomic():
        Attempt.objects.filter(pk=row.pk).update(effect="HAPPENED", settled_by="x", settled_at=clock.now())
