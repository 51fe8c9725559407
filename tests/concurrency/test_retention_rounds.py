"""Rounds of retention beside each other and beside a hold, under real threads; and the embedded worker's."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from audit.verification import findings
from runtime.flows.models import Flow
from runtime.maintenance.models import LegalHold, RetentionRound
from runtime.maintenance.services import holds, retention
from runtime.workers.embedded import Drain
from tests.support import racing, retention_story
from tests.support.trading_desk import Desk
from tests.support.wait_until import until

TENANT = "default"


@pytest.fixture
def desk(real_db: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with retention_story.opened(monkeypatch) as opened:
        yield opened


def rounds() -> Callable[[], Any]:
    return partial(racing.patiently, partial(retention.erase_due, tenant=TENANT))


def test_of_several_rounds_at_once_each_flow_is_erased_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [retention_story.cancelled(desk) for _ in range(3)]
    retention_story.later(monkeypatch)
    answers = racing.all_at_once([rounds()] * 3)
    assert all(isinstance(answer, retention.Totals) for answer in answers), answers
    assert sorted(retention_story.list_erased()) == told
    assert RetentionRound.objects.count() == 1
    assert findings.verify_all().findings == []


def test_a_hold_beside_a_round_either_keeps_the_flow_or_comes_after(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    dfid = retention_story.cancelled(desk)
    retention_story.later(monkeypatch)
    place: Callable[[], Any] = partial(
        racing.patiently,
        partial(holds.place, tenant=TENANT, name="case-1", dfid=dfid, reason="they sue", actor="user:1"),
    )
    placed, *answers = racing.all_at_once([place, rounds(), rounds()])
    assert isinstance(placed, LegalHold), placed
    assert all(isinstance(answer, retention.Totals) and not answer.failed for answer in answers), answers
    assert bool(retention_story.list_erased()) == (Flow.objects.get(pk=dfid).erased_at is not None)
    assert findings.verify_all().findings == []


def test_the_embedded_worker_erases_without_being_asked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    dfid = retention_story.cancelled(desk)
    retention_story.later(monkeypatch)
    monkeypatch.setattr("runtime.workers.embedded.RETENTION_S", 0.05)
    drain = Drain()
    drain.start()
    try:
        until(lambda: Flow.objects.get(pk=dfid).erased_at is not None, timeout_s=30)
    finally:
        drain.stop(timeout_s=20)
    assert retention_story.list_erased() == [dfid]
