"""A proposal is true for a window and under its own bounds: at the gate, and once more before the call."""

from datetime import timedelta

import pytest

from runtime.core import clock
from runtime.flows.models import Intent
from runtime.state.services import facts
from tests.support import factories
from tests.support.end_to_end import Console

pytestmark = pytest.mark.django_db


def write(path: str, value: object) -> None:
    facts.write(tenant=factories.TENANT, path=path, value=value, writer="feed:x", expected_version=None)


def reason(desk: Console, dfid: str) -> str:
    flow = desk.flow(dfid)
    assert flow["state"] == "ABORTED"
    return str(flow["reason"])


def test_after_its_window_nothing_is_called(desk: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    dfid = desk.propose()["dfid"]
    end = Intent.objects.get().valid_until
    monkeypatch.setattr(clock, "now", lambda: end)
    desk.work()
    assert (reason(desk, dfid), desk.broker.calls) == ("EXPIRED", 0)


def test_in_the_last_millisecond_it_is(desk: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.propose()
    end = Intent.objects.get().valid_until
    monkeypatch.setattr(clock, "now", lambda: end - timedelta(milliseconds=1))
    desk.work()
    assert desk.effects() == 1


def test_a_price_that_moved_beyond_its_bound_before_the_verdict(desk: Console) -> None:
    dfid = desk.open()
    body = desk.body(dfid)
    write("price.ABC", 111)
    verdict = desk.send(dfid, body).ok()
    assert (verdict["verdict"], verdict["reasons"][0]["code"]) == ("REJECT", "STALE_CONTEXT")


def test_a_price_that_moved_beyond_its_bound_between_verdict_and_call(desk: Console) -> None:
    dfid = desk.propose()["dfid"]
    write("price.ABC", 111)
    desk.work()
    assert (reason(desk, dfid), desk.broker.calls) == ("STALE_CONTEXT", 0)


def test_a_price_that_moved_within_its_bound(desk: Console) -> None:
    desk.propose()
    write("price.ABC", 110)
    desk.work()
    assert desk.effects() == 1


def test_the_proposals_own_bound_holds_at_the_gate_and_at_the_call(desk: Console) -> None:
    accepted = desk.propose()["dfid"]
    write("market.state", "CLOSED")
    verdict = desk.propose()
    assert (verdict["verdict"], verdict["reasons"][0]["code"]) == ("REJECT", "CONSTRAINT_VIOLATED")
    desk.work()
    assert (reason(desk, accepted), desk.broker.calls) == ("CONSTRAINT_VIOLATED", 0)
