"""One server at a time executes; its leases end by a clock that nobody can move."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pytest_django.fixtures import Settings

from runtime.contracts.states import FlowState, IntentState
from runtime.core import clock, transactions
from runtime.epochs.models import Boot
from runtime.epochs.services import boots, marks
from runtime.execution.services import claiming, held_claims
from runtime.flows.models import Attempt, Intent
from runtime.maintenance.services import sweeper
from runtime.workers.embedded import Drain
from tests.support import misbehaving_targets, trading_desk
from tests.support.wait_until import until


@pytest.fixture
def boot() -> Iterator[None]:
    """This process is the one server of the database."""
    with boots.ended():
        boots.begin()
        yield


def later_server() -> None:
    Boot.objects.update(boot_id=uuid4())


@pytest.mark.django_db
def test_a_server_that_was_succeeded_claims_nothing(boot: None) -> None:
    intent_id = trading_desk.open_desk().accept()
    later_server()
    refused = transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a-worker"))
    assert refused == claiming.ClaimRefused(status="NOT_DUE", detail="SUPERSEDED")
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.ACCEPTED)


@pytest.mark.django_db
def test_a_process_that_is_no_server_of_its_own_compares_nothing() -> None:
    assert boots.this_boot() is None
    assert not boots.is_superseded()
    Boot.objects.create(boot_id=uuid4(), began_at=clock.now())
    intent_id = trading_desk.open_desk().accept()
    assert isinstance(
        transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a-worker")), claiming.Claimed
    )


@pytest.mark.django_db
def test_a_claim_that_this_process_does_not_know_has_no_lease(boot: None) -> None:
    intent_id = trading_desk.open_desk().accept()
    transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a thread of an earlier start"))
    assert sweeper.sweep().orphans == 1
    assert trading_desk.states(intent_id)[0] is IntentState.IN_DOUBT


@pytest.mark.django_db
def test_a_lease_ends_after_its_length_whatever_the_row_says(boot: None) -> None:
    intent_id = trading_desk.open_desk().accept()
    held_claims.note_claim(intent_id, owner="a-worker", until_s=float("inf"))
    transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a-worker"))
    Intent.objects.update(lease_until=clock.now() - timedelta(hours=1))
    assert sweeper.sweep().orphans == 0
    held_claims.note_claim(intent_id, owner="a-worker", until_s=0.0)
    Intent.objects.update(lease_until=clock.now() + timedelta(hours=1))
    assert sweeper.sweep().orphans == 1


def test_a_clock_that_jumps_ahead_ends_no_call_that_is_under_way(
    real_db: str, boot: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    real = clock.now
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b'{"order_id":"o1"}'), is_held=True
    ) as target:
        intent_id = trading_desk.open_desk(base_url=target.base_url).accept(window_s=3600)
        working = Drain()
        working.start()
        try:
            until(lambda: target.seen, timeout_s=30)

            def ahead() -> datetime:
                return real() + timedelta(seconds=2 * settings.DIR_LEASE_S)

            monkeypatch.setattr(clock, "now", ahead)
            assert sweeper.sweep().orphans == 0
            target.release.set()
            until(lambda: trading_desk.states(intent_id)[0] is IntentState.DONE, timeout_s=30)
        finally:
            assert working.stop(timeout_s=30)
    assert len(target.seen) == 1
    assert Attempt.objects.count() == 1


def test_a_drain_of_an_older_server_takes_nothing_more(
    real_db: str, boot: None, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200)) as target:
        desk = trading_desk.open_desk(base_url=target.base_url)
        later_server()
        intent_id = desk.accept(window_s=3600)
        working = Drain()
        working.start()
        try:
            until(lambda: "another server was started" in caplog.text, timeout_s=30)
        finally:
            assert working.stop(timeout_s=30)
        assert not target.seen
    assert caplog.text.count("another server was started") == 1
    assert trading_desk.states(intent_id)[0] is IntentState.PENDING


def test_a_call_is_known_to_be_over_by_the_same_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    moments: dict[str, Any] = {"now": 100.0}
    monkeypatch.setattr(time, "monotonic", lambda: moments["now"])
    held_claims.note_call("a-key", until_s=130.0)
    assert held_claims.call_left_s("a-key") == 30.0
    assert held_claims.call_left_s("another") == 0.0
    moments["now"] = 131.0
    assert held_claims.call_left_s("a-key") == 0.0


def test_what_has_ended_is_forgotten_and_what_has_not_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    moments: dict[str, Any] = {"now": 100.0}
    monkeypatch.setattr(time, "monotonic", lambda: moments["now"])
    monkeypatch.setattr(held_claims, "_claims_s", {})
    first, second, third = uuid4(), uuid4(), uuid4()
    for intent_id, until_s in ((first, 130.0), (second, 131.0), (third, 132.0)):
        held_claims.note_claim(intent_id, owner="a-worker", until_s=until_s)
    held_claims.prolong(first, owner="a-worker", by_s=50.0)
    moments["now"] = 131.5
    held_claims.note_claim(uuid4(), owner="a-worker", until_s=161.5)
    held = [held_claims.is_held(each, owner="a-worker") for each in (first, second, third)]
    assert held == [True, False, True]
    assert len(held_claims._claims_s) == 3


def test_a_clean_end_leaves_nothing_out_of_the_mark(
    real_db: str, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweeper never came by: what ran in its last second counts all the same."""
    settings.DIR_MARK = str(tmp_path / "mark")
    monkeypatch.setattr(Drain, "_sweep", lambda self: None)
    monkeypatch.setattr(Drain, "_seal", lambda self: None)
    trading_desk.open_desk()
    working = Drain()
    working.start()
    trading_desk.write_fact("price.ABC", 101)
    assert working.stop(timeout_s=30)
    assert marks.read() == marks.of_database()
