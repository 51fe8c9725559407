"""Two receipts that speak of the same facts at once: each is a version of its own, and none is lost."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from runtime.core import transactions
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Outcome
from runtime.state.models import Fact, FactVersion
from tests.support import misbehaving_targets, trading_desk
from tests.support.racing import race

RACERS = 12
# In another order than by path: the locks must not follow the kind's.
WRITES = '{fact: order.newest, value: "receipt.id"}, {fact: desk.last, value: "receipt.id"}'


@pytest.fixture
def target(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, b'{"id":"o1"}')) as running:
        yield running


def test_every_receipt_leaves_its_version(
    real_db: str, target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = trading_desk.PACK.replace("path: /orders}}", f"path: /orders}}, writes: [{WRITES}]}}")
    monkeypatch.setattr(trading_desk, "PACK", text)
    desk = trading_desk.open_desk(base_url=target.base_url)
    waiting = [desk.accept(window_s=600) for _ in range(RACERS)]

    def work(number: int) -> AttemptStatus | None:
        if number == RACERS:
            # A feed writes one of them in the midst of it.
            trading_desk.write_fact("desk.last", "feed")
            return None
        return _attempt(waiting[number], number)

    results = race(RACERS + 1, work)
    assert results.count(AttemptStatus.SUCCEEDED) == RACERS
    assert Outcome.objects.count() == RACERS
    assert Fact.objects.get(path="order.newest").version == RACERS
    assert Fact.objects.get(path="desk.last").version == RACERS + 1
    writers = set(FactVersion.objects.filter(path="order.newest").values_list("writer", flat=True))
    assert writers == {f"intent:{intent_id}" for intent_id in waiting}
    assert isinstance(verify_database(), Whole)


def _attempt(intent_id: UUID, number: int) -> AttemptStatus:
    while True:
        try:
            return attempting.attempt(intent_id, owner=f"worker-{number}").status
        except transactions.BusyError:
            continue
