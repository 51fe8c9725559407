"""What the kind says of unknown results: send the same key again, ask the target by it, or ask a person."""

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.states import AttemptState, FlowState, IntentState, Purpose
from runtime.core import clock, transactions
from runtime.execution.services import attempting, calling, claiming
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries import due_intents
from runtime.maintenance.services import sweeper
from runtime.stops.services import stops
from tests.support import fake_target, trading_desk
from tests.support.fake_target import BACK, BUSY, FAIL, FORWARD, HANG_UP, LOSE, REFUSE, Book, attempt, walk

pytestmark = pytest.mark.django_db


@pytest.fixture
def book(
    request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Book]:
    """A target under the kind's word on unknown results; one that is asked need not know keys."""
    on_unknown = request.param
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack(on_unknown=on_unknown))
    with fake_target.opened(knows_keys=on_unknown == "resend") as opened:
        yield opened
        opened.check()
    assert isinstance(verify_database(), Whole)


@pytest.fixture
def desk(book: Book) -> trading_desk.Desk:
    return trading_desk.open_desk(base_url=book.base_url)


both = pytest.mark.parametrize("book", ["resend", "probe"], indirect=True)
probing = pytest.mark.parametrize("book", ["probe"], indirect=True)
resending = pytest.mark.parametrize("book", ["resend"], indirect=True)


@both
@pytest.mark.parametrize("path", [*FORWARD, *BACK])
@pytest.mark.parametrize("fault", [LOSE, HANG_UP, FAIL])
def test_a_lost_answer_is_one_effect_whatever_became_of_the_call(
    path: str, fault: str, book: Book, desk: trading_desk.Desk
) -> None:
    book.faults[path] = [fault, ""]
    back = path in BACK
    if back:
        book.faults["/ship"] = [REFUSE]
    intent_id = desk.accept()
    walk(intent_id)
    assert book.order == ([*FORWARD[:2], *reversed(BACK)] if back else list(FORWARD))
    assert trading_desk.states(intent_id)[1] == (FlowState.ABORTED if back else FlowState.CLOSED)
    assert all(len(found) == 1 for found in fake_target.keys(intent_id).values())
    assert not Escalation.objects.exists()


@both
@pytest.mark.parametrize("has_called", [True, False])
@pytest.mark.parametrize("path", [*FORWARD, *BACK])
def test_a_worker_that_dies_leaves_one_effect(
    path: str, has_called: bool, book: Book, desk: trading_desk.Desk
) -> None:
    if path in BACK:
        book.faults["/ship"] = [REFUSE]
    intent_id = desk.accept()
    while f"/{step_at(intent_id)}" != path:
        attempt(intent_id)
    claimed = transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a worker that died"))
    assert isinstance(claimed, claiming.Claimed)
    if has_called:
        fake_target.call(claimed)
    assert sweeper.expire_all_leases() == 1
    walk(intent_id)
    assert book.order == ([*FORWARD[:2], *reversed(BACK)] if path in BACK else list(FORWARD))


def step_at(intent_id: UUID) -> str:
    row = Intent.objects.get(pk=intent_id)
    return fake_target.STEPS[row.position] + ("/undo" if row.direction == "COMPENSATE" else "")


@probing
def test_a_probe_is_an_attempt_of_its_own_and_finds_the_receipt(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"] = [LOSE]
    intent_id = desk.accept()
    assert attempt(intent_id).status == "RETRY_LATER"
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.EXECUTING)
    assert attempt(intent_id).status == "ADVANCED"
    rows = list(Attempt.objects.values_list("purpose", "state", "target_key").order_by("number"))
    assert [row[:2] for row in rows] == [
        (Purpose.CALL, AttemptState.UNKNOWN),
        (Purpose.PROBE, AttemptState.SUCCEEDED),
    ]
    assert rows[0][2] == rows[1][2]
    assert book.calls == {"/reserve": 1, "/by-key": 1}


@probing
def test_a_probe_carries_no_idempotency_key(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"] = [LOSE]
    intent_id = desk.accept()
    attempt(intent_id)
    attempt(intent_id)
    assert [seen.headers.get("Idempotency-Key") is None for seen in book.seen] == [False, True]


@probing
def test_what_did_not_happen_may_be_late_now_and_is_then_not_sent(
    book: Book, desk: trading_desk.Desk
) -> None:
    book.faults["/reserve"] = [HANG_UP]
    intent_id = desk.accept()
    attempt(intent_id)
    Intent.objects.filter(pk=intent_id).update(valid_until=clock.now() - timedelta(seconds=1))
    assert walk(intent_id) == ["RETRY_LATER", "EXPIRED"]
    assert Attempt.objects.get(purpose=Purpose.PROBE).error_category == "NOT_HAPPENED"
    assert trading_desk.states(intent_id) == (IntentState.EXPIRED, FlowState.ABORTED)
    assert not book.effects


@probing
def test_a_call_that_may_still_arrive_is_not_sent_a_second_time(
    book: Book, desk: trading_desk.Desk, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker dies in mid-call and the next start asks at once: the target has not heard of the key yet."""
    intent_id = desk.accept()
    claimed = transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a worker that died"))
    assert isinstance(claimed, claiming.Claimed)
    assert sweeper.expire_all_leases() == 1
    Intent.objects.update(next_at=clock.now())
    assert attempting.attempt(intent_id, owner=trading_desk.OWNER).status == "RETRY_LATER"
    over_at = Attempt.objects.get(number=1).started_at + timedelta(seconds=settings.DIR_LEASE_S)
    assert Intent.objects.values_list("purpose", "next_at", "failures").get() == (Purpose.PROBE, over_at, 1)
    with monkeypatch.context() as past_the_gate:  # its bytes had left before it was given up for lost
        past_the_gate.setattr(calling, "gate", lambda claim: nullcontext())
        fake_target.call(claimed)
    assert walk(intent_id) == ["ADVANCED", "ADVANCED", "SUCCEEDED"]
    assert book.calls["/reserve"] == 1


@resending
def test_what_is_in_doubt_is_not_sent_late(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"] = [LOSE]
    intent_id = desk.accept()
    attempt(intent_id)
    Intent.objects.filter(pk=intent_id).update(valid_until=clock.now() - timedelta(seconds=1))
    assert walk(intent_id) == ["EXPIRED"]
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert sum(book.effects.values()) == 1


@both
def test_what_stays_unknown_asks_a_person_at_the_fourth_failure(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"], book.faults["/by-key"] = [HANG_UP], [BUSY, REFUSE, HANG_UP]
    intent_id = desk.accept()
    assert walk(intent_id) == ["RETRY_LATER"] * 3 + ["WITH_PERSON"]
    assert Escalation.objects.get().reason == "IN_DOUBT"
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)


@probing
def test_a_target_that_loses_every_call_is_not_asked_for_ever(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"] = [HANG_UP]
    intent_id = desk.accept()
    assert walk(intent_id).count("WITH_PERSON") == 1
    assert book.calls == {"/reserve": 4, "/by-key": 3}


@probing
def test_a_stop_holds_a_probe_and_no_status_does(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"] = [LOSE]
    intent_id = desk.accept()
    attempt(intent_id)
    Intent.objects.filter(pk=intent_id).update(next_at=clock.now())
    stops.stop_agent(tenant=trading_desk.TENANT, agent_id=trading_desk.AGENT, actor="user:1", reason="trial")
    assert attempt(intent_id).detail == due_intents.AGENT_STOPPED
    assert due_intents.list_due(at=clock.now(), limit=5) == []
    stops.resume_agent(tenant=trading_desk.TENANT, agent_id=trading_desk.AGENT, actor="user:1")
    desk.agent.__class__.objects.update(status="SUSPENDED")
    assert [due.intent_id for due in due_intents.list_due(at=clock.now(), limit=5)] == [intent_id]
    assert attempt(intent_id).status == "ADVANCED"


@probing
def test_a_worker_that_dies_while_it_asks_leaves_the_question(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"] = [LOSE]
    intent_id = desk.accept()
    attempt(intent_id)
    Intent.objects.filter(pk=intent_id).update(next_at=clock.now())
    claimed = transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a worker that died"))
    assert isinstance(claimed, claiming.Claimed)
    assert claimed.purpose is Purpose.PROBE
    sweeper.expire_all_leases()
    assert walk(intent_id) == ["ADVANCED", "ADVANCED", "SUCCEEDED"]
