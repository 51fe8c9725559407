"""The gate before a first byte: what fails there leaves no doubt, and a stop waits for rows as ever."""

from collections.abc import Iterator

import pytest
from django.db import InterfaceError, OperationalError, connection, transaction
from pytest_django.fixtures import Settings

from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.queries import due_intents
from runtime.stops.services import call_gate
from tests.support import misbehaving_targets, trading_desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def target(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b'{"order_id":"o1","status":"FILLED"}')
    ) as running:
        yield running


@pytest.mark.parametrize("failure", [OperationalError, InterfaceError])
def test_a_database_that_fails_before_the_first_byte_leaves_no_doubt(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    standing, looks = due_intents.get_standing, [0]

    def look(*, agent_pk: int) -> due_intents.AgentStanding:
        looks[0] += 1
        if looks[0] == 1:  # as the gate looks; the claim asks otherwise
            raise failure("the connection is gone")
        return standing(agent_pk=agent_pk)

    monkeypatch.setattr(due_intents, "get_standing", look)
    held = attempting.attempt(intent_id, owner=trading_desk.OWNER)
    assert (held.status, held.called, held.detail) == (AttemptStatus.HELD, False, call_gate.DATABASE_BUSY)
    assert target.seen == []
    assert attempting.attempt(intent_id, owner=trading_desk.OWNER).status is AttemptStatus.SUCCEEDED
    assert len(target.seen) == 1


def test_a_stop_waits_for_rows_no_longer_than_any_other_transaction() -> None:
    """SQLite has no such setting: there the stop changes nothing."""

    def lock_timeout() -> str:
        if connection.vendor != "postgresql":
            return ""
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout')")
            return str(cursor.fetchone()[0])

    before = lock_timeout()
    with transaction.atomic():
        call_gate.close(tenant=trading_desk.TENANT)
        assert lock_timeout() == before
    assert before == "" or before != "0"
