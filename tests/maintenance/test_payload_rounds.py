"""Rounds that encrypt payloads anew: where they continue, when they end, and what they leave alone."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction

from audit import payload_keys
from audit.models import ClassKey, Payload
from audit.payload_cipher import State
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.maintenance.models import PayloadRound
from runtime.maintenance.services import payload_destruction, payload_rotation, payload_rounds
from runtime.workers import celery_tasks
from runtime.workers.embedded import Drain
from tests.support import key_story
from tests.support.wait_until import until

TENANT = "default"


def rotate(data_class: str = "people", **changes: Any) -> ClassKey:
    """The key that was retired."""
    given = {"tenant": TENANT, "data_class": data_class, "actor": "user:1", "in_rounds": True, **changes}
    begun = payload_rotation.begin(**given)
    assert isinstance(begun, payload_rotation.Rotated), begun
    return ClassKey.objects.get(pk=begun.retired)


@pytest.mark.django_db
def test_a_round_goes_on_where_it_stopped_and_ends_when_nobody_can_write_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key_story.commit(count=7)
    monkeypatch.setattr(payload_rotation, "AT_ONCE", 2)
    monkeypatch.setattr(payload_rounds, "MOST_BATCHES", 2)
    key = rotate()
    under = Payload.objects.filter(key=key)
    assert [payload_rounds.move_due(tenant=TENANT) for _ in range(3)] == [4, 3, 0]
    assert not under.exists()
    # A process that still goes on with the retired key.
    held = payload_keys.usable(key)
    monkeypatch.setattr(payload_keys, "in_use", lambda **_: held)
    key_story.commit()
    assert under.count() == 1
    assert payload_rounds.move_due(tenant=TENANT) == 1
    stored = PayloadRound.objects.get()
    assert (stored.moved, stored.ended_at) == (8, None)
    ClassKey.objects.filter(pk=key.pk).update(retired_at=clock.now() - payload_destruction.GRACE)
    payload_rounds.move_due(tenant=TENANT)
    stored.refresh_from_db()
    assert stored.ended_at is not None
    assert key_story.list_faults() == []


@pytest.mark.django_db
def test_a_round_touches_only_the_key_that_it_is_for() -> None:
    left, (other,) = key_story.commit(count=2), key_story.commit("receipts")
    first = key_story.retired("people")
    moved = key_story.commit(count=3)
    rotate()
    key_story.retired("receipts")
    assert payload_rounds.move_due(tenant=TENANT) == 3
    assert set(Payload.objects.filter(commitment__in=left).values_list("key", flat=True)) == {first.pk}
    assert not Payload.objects.filter(commitment__in=moved).exclude(key__retired_at=None).exists()
    row = Payload.objects.get(commitment=other)
    assert row.key is not None
    assert row.key.retired_at is not None


@pytest.mark.django_db
def test_what_cannot_be_opened_stays_and_is_counted_and_a_round_can_begin_again() -> None:
    broken, _ = key_story.commit(count=2)
    Payload.objects.filter(commitment=broken).update(nonce=bytes(12))
    key = rotate()
    for _ in range(2):
        payload_rounds.move_due(tenant=TENANT)
        assert PayloadRound.objects.get().unopened == 1
    ClassKey.objects.filter(pk=key.pk).update(retired_at=clock.now() - payload_destruction.GRACE)
    payload_rounds.move_due(tenant=TENANT)
    stored = PayloadRound.objects.get()
    assert (stored.moved, stored.unopened, stored.ended_at is None) == (1, 1, False)
    assert Payload.objects.get(commitment=broken).open().state is State.BROKEN
    again = payload_rounds.start(tenant=TENANT, key_id=key.pk, actor="user:2")
    assert isinstance(again, PayloadRound)
    assert (again.pk, again.asked_by, again.moved, again.ended_at) == (stored.pk, "user:2", 0, None)
    payload_destruction.destroy(tenant=TENANT, data_class="people", key_id=key.pk, reason="x", actor="user:1")
    assert payload_rounds.move_due(tenant=TENANT) == 0
    refused = payload_rounds.start(tenant=TENANT, key_id=key.pk, actor="user:2")
    assert isinstance(refused, Problem)
    assert "is destroyed" in refused.detail


@pytest.mark.django_db
def test_a_key_that_this_process_cannot_use_stops_no_other_round(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    key_story.commit(), key_story.commit("receipts")
    rotate()
    payload_rotation.begin(tenant=TENANT, data_class="receipts", actor="user:1", in_rounds=True)
    ClassKey.objects.filter(data_class="people", retired_at=None).update(master_id="another")
    assert payload_rounds.move_due(tenant=TENANT) == 1
    assert "payloads cannot be encrypted anew" in caplog.text
    assert {row.open().state for row in Payload.objects.all()} == {State.HELD}
    assert set(PayloadRound.objects.filter(moved=0).values_list("key__data_class", flat=True)) == {"people"}


@pytest.mark.django_db
def test_rounds_that_say_nothing_are_refused_by_the_database() -> None:
    at = clock.now()
    PayloadRound.objects.create(asked_by="user:1", asked_at=at)
    for wrong in (
        {"asked_by": "user:1"},
        {"asked_by": "", "key": key_of_class()},
        {"asked_by": "user:1", "key": key_of_class(), "ended_at": at - timedelta(seconds=1)},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            PayloadRound.objects.create(asked_at=at, **wrong)


def key_of_class() -> ClassKey:
    made = payload_keys.new(tenant=TENANT, data_class=str(uuid4()), at=clock.now())
    made.save(force_insert=True)
    return made


@pytest.mark.django_db
def test_the_task_of_production_moves_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    key_story.commit(count=2)
    rotate()
    monkeypatch.setattr(connection, "close", lambda: None)
    celery_tasks.erase_due()
    assert not Payload.objects.exclude(key__retired_at=None).exists()


def test_the_embedded_worker_moves_payloads_without_being_asked(
    real_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_story.commit(count=3)
    rotate()
    monkeypatch.setattr("runtime.workers.embedded.RETENTION_S", 0.05)
    drain = Drain()
    drain.start()
    try:
        until(lambda: not Payload.objects.exclude(key__retired_at=None).exists(), timeout_s=30)
    finally:
        drain.stop(timeout_s=20)
    assert {row.body for row in Payload.objects.all()} == {key_story.WORDS}
