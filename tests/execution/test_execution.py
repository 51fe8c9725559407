"""One attempt: claim, second look, call, record. Real targets on the loopback address."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError, transaction
from pytest_django.fixtures import Settings

from audit import canonical
from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.receipt import Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.states import AgentStatus, AttemptState, FlowState, IntentState, OutcomeStatus
from runtime.core import clock, transactions
from runtime.execution.adapters.executors import registry
from runtime.execution.services import attempting, calling, claiming, recording
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Attempt, Intent, Outcome
from runtime.flows.queries import calls_in_doubt, due_intents
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent, Target
from runtime.stops.services import call_gate, stops
from tests.support import ledger_tampering, misbehaving_targets, trading_desk

pytestmark = pytest.mark.django_db
FILLED = Receipt(status_code=200, body=b'{"order_id":"o1","status":"FILLED"}')
LOST = Failure(
    category=FailureCategory.TIMED_OUT, failure_class=FailureClass.UNKNOWN, detail="no answer came in time"
)
BUSY = Failure(
    category=FailureCategory.TARGET_BUSY,
    failure_class=FailureClass.TRANSIENT,
    detail="busy",
    status_code=503,
)
REFUSED = Failure(
    category=FailureCategory.TARGET_REFUSED,
    failure_class=FailureClass.TERMINAL,
    detail="refused",
    status_code=422,
)


@pytest.fixture(autouse=True)
def _egress(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]


@pytest.fixture
def target() -> Iterator[misbehaving_targets.StandIn]:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, FILLED.body)) as running:
        yield running


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the next calls come to; the last one for ever."""
    results: list[Any] = [FILLED]

    def call(claim: Any, *, lease_left_s: float) -> Any:
        with calling.gate(claim):
            pass
        result = results.pop(0) if len(results) > 1 else results[0]
        return result(claim) if callable(result) else result

    monkeypatch.setattr(calling, "call", call)
    return results


def attempt(intent_id: Any) -> attempting.AttemptResult:
    return attempting.attempt(intent_id, owner=trading_desk.OWNER)


def make_due(intent_id: Any) -> None:
    Intent.objects.filter(pk=intent_id).update(next_at=clock.now())


def end_window(intent_id: Any) -> None:
    Intent.objects.filter(pk=intent_id).update(valid_until=clock.now() - timedelta(seconds=1))


def test_an_accepted_intent_reaches_its_target_once_and_closes_its_flow(
    target: misbehaving_targets.StandIn,
) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    desk = trading_desk.open_desk(base_url=target.base_url)
    intent_id = desk.accept(traceparent=trace)

    assert attempt(intent_id) == attempting.AttemptResult(status=AttemptStatus.SUCCEEDED, called=True)
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.ENDED, called=False, outcome=OutcomeStatus.SUCCEEDED, receipt=FILLED.body
    )

    (seen,) = target.seen
    assert seen.path == "/orders"
    assert seen.headers["traceparent"] == trace
    assert seen.headers["Idempotency-Key"] == Attempt.objects.get(intent_id=intent_id).target_key
    body = misbehaving_targets.as_json(seen.body)
    assert body["intent_id"] == str(intent_id)
    assert body["params"] == {"quantity": 2, "symbol": "ABC"}
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
    assert trading_desk.kinds(intent_id) == [
        "record:emitted",
        "flow:moved",
        "attempt:started",
        "attempt:finished",
        "outcome:recorded",
        "flow:moved",
        "record:emitted",
    ]
    outcome, closed = trading_desk.told(intent_id)
    assert outcome == (
        "EXECUTION_OUTCOME",
        {
            "intent_id": str(intent_id),
            "status": "SUCCEEDED",
            "effect": "HAPPENED",
            "error_category": None,
            "receipt": {"order_id": "o1", "status": "FILLED"},
            "attempts": 1,
            "deviations": [],
        },
    )
    assert closed[0] == "FLOW_CLOSED"
    assert isinstance(verify_database(), Whole)


def test_the_outcome_keeps_what_was_expected_and_what_came(calls: list[Any]) -> None:
    calls[:] = [Receipt(status_code=200, body=b'{"status":"PART"}')]
    intent_id = trading_desk.open_desk().accept()
    attempt(intent_id)
    outcome = Outcome.objects.get(pk=intent_id)
    assert canonical.decode(bytes(outcome.deviations)) == [
        {"fact": "order.status", "expected": "FILLED", "observed": "PART"}
    ]
    assert bytes(outcome.receipt or b"") == b'{"status":"PART"}'
    assert outcome.attempts == 1


def test_an_unknown_intent_is_not_due() -> None:
    assert attempt(uuid4()).status is AttemptStatus.NOT_DUE


def test_a_stop_of_all_holds_the_intent_and_writes_nothing(calls: list[Any]) -> None:
    intent_id = trading_desk.open_desk().accept()
    stops.stop_all(tenant=trading_desk.TENANT, actor="user:1", reason="trial")
    before = trading_desk.flow_of(intent_id).head_seq
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.HELD, called=False, detail=due_intents.SYSTEM_STOPPED
    )
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.ACCEPTED)
    assert trading_desk.flow_of(intent_id).head_seq == before
    assert not trading_desk.attempts(intent_id)
    assert due_intents.list_due(at=clock.now(), limit=10) == []
    stops.resume_all(tenant=trading_desk.TENANT, actor="user:1")
    assert [due.intent_id for due in due_intents.list_due(at=clock.now(), limit=10)] == [intent_id]
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED


def test_a_stop_of_the_agent_holds_the_intent(calls: list[Any]) -> None:
    intent_id = trading_desk.open_desk().accept()
    stops.stop_agent(tenant=trading_desk.TENANT, agent_id=trading_desk.AGENT, actor="user:1", reason="trial")
    assert attempt(intent_id).detail == due_intents.AGENT_STOPPED
    stops.resume_agent(tenant=trading_desk.TENANT, agent_id=trading_desk.AGENT, actor="user:1")
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED


@pytest.mark.parametrize("status", [AgentStatus.SUSPENDED, AgentStatus.LOCKED])
def test_a_suspended_agent_is_waited_for_until_the_window_ends(status: AgentStatus, calls: list[Any]) -> None:
    intent_id = trading_desk.open_desk().accept()
    Agent.objects.update(status=status)
    assert attempt(intent_id).detail == f"AGENT_{status}"
    end_window(intent_id)
    assert [due.intent_id for due in due_intents.list_due(at=clock.now(), limit=10)] == [intent_id]
    assert attempt(intent_id).status is AttemptStatus.EXPIRED


def test_an_intent_is_due_from_its_moment_and_too_late_from_its_end(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, moment = trading_desk.open_desk(), clock.now() + timedelta(seconds=1)
    due, ended = desk.accept(), desk.accept()
    Intent.objects.filter(pk=due).update(next_at=moment)
    Intent.objects.filter(pk=ended).update(valid_until=moment)
    monkeypatch.setattr(clock, "now", lambda: moment)
    assert attempt(due).status is AttemptStatus.SUCCEEDED
    assert attempt(ended) == attempting.AttemptResult(
        status=AttemptStatus.EXPIRED, called=False, detail="EXPIRED"
    )


def test_a_claim_is_a_workers_own_for_as_long_as_its_lease(settings: Settings) -> None:
    intent_id = trading_desk.open_desk().accept()
    before = clock.now()
    assert isinstance(
        transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner=trading_desk.OWNER)),
        claiming.Claimed,
    )
    lease_until = trading_desk.intent(intent_id).lease_until
    assert lease_until is not None
    assert lease_until >= before + timedelta(seconds=settings.DIR_LEASE_S)
    sweeper.sweep()
    assert trading_desk.intent(intent_id).state == IntentState.CLAIMED


def test_a_retired_agents_intent_fails(calls: list[Any]) -> None:
    intent_id = trading_desk.open_desk().accept()
    Agent.objects.update(status=AgentStatus.RETIRED)
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.BLOCKED, called=False, detail="AGENT_RETIRED"
    )
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)


def test_a_passive_agents_intent_still_runs(calls: list[Any]) -> None:
    intent_id = trading_desk.open_desk().accept()
    Agent.objects.update(status=AgentStatus.PASSIVE)
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED


def test_a_window_that_ended_in_the_queue_ends_the_intent(calls: list[Any]) -> None:
    intent_id = trading_desk.open_desk().accept()
    end_window(intent_id)
    assert attempt(intent_id).status is AttemptStatus.EXPIRED
    assert trading_desk.states(intent_id) == (IntentState.EXPIRED, FlowState.ABORTED)
    assert trading_desk.flow_of(intent_id).reason == "EXPIRED"
    assert Outcome.objects.get(pk=intent_id).status == "EXPIRED"
    assert [name for name, _ in trading_desk.told(intent_id)] == ["EXECUTION_OUTCOME", "FLOW_ABORTED"]
    assert trading_desk.kinds(intent_id) == [
        "record:emitted",
        "intent:blocked",
        "outcome:recorded",
        "flow:moved",
        "record:emitted",
    ]


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [("market.state", "CLOSED", "CONSTRAINT_VIOLATED"), ("price.ABC", 101, "STALE_CONTEXT")],
)
def test_what_moved_since_the_verdict_blocks_the_call(
    path: str, value: Any, code: str, calls: list[Any]
) -> None:
    intent_id = trading_desk.open_desk().accept()
    trading_desk.write_fact(path, value)
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.BLOCKED, called=False, detail=code
    )
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    assert trading_desk.kinds(intent_id)[:2] == ["record:emitted", "intent:blocked"]
    assert trading_desk.told(intent_id)[-1] == ("FLOW_ABORTED", {"reason": code})


def test_a_stop_between_claim_and_call_gives_the_claim_back(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = trading_desk.open_desk().accept()
    looks = iter([due_intents.SYSTEM_STOPPED])  # as the gate looks; the claim asks otherwise
    standing = due_intents.get_standing

    def look(*, agent_pk: int) -> due_intents.AgentStanding:
        return due_intents.AgentStanding(status=standing(agent_pk=agent_pk).status, held_by=next(looks, None))

    monkeypatch.setattr(due_intents, "get_standing", look)
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.HELD, called=False, detail=due_intents.SYSTEM_STOPPED
    )
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.ACCEPTED)
    assert trading_desk.attempts(intent_id) == [AttemptState.HELD]
    assert trading_desk.kinds(intent_id) == [
        "record:emitted",
        "flow:moved",
        "attempt:started",
        "intent:held",
        "flow:moved",
    ]
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert trading_desk.attempts(intent_id) == [AttemptState.HELD, AttemptState.SUCCEEDED]


def test_a_retry_that_is_held_stays_in_execution(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = trading_desk.open_desk().accept()
    calls[:] = [BUSY]
    attempt(intent_id)
    make_due(intent_id)
    looks = iter([due_intents.AGENT_STOPPED])  # as the gate looks; the claim asks otherwise
    monkeypatch.setattr(
        due_intents,
        "get_standing",
        lambda *, agent_pk: due_intents.AgentStanding(status=AgentStatus.ACTIVE, held_by=next(looks)),
    )
    assert attempt(intent_id).status is AttemptStatus.HELD
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.EXECUTING)


def test_three_failures_are_retried_and_the_fourth_calls_a_person(calls: list[Any]) -> None:
    intent_id = trading_desk.open_desk().accept()
    calls[:] = [BUSY]
    for failures in (1, 2, 3):
        assert attempt(intent_id).status is AttemptStatus.RETRY_LATER
        row = trading_desk.intent(intent_id)
        assert (row.failures, row.state) == (failures, IntentState.PENDING)
        assert row.next_at > clock.now() - timedelta(seconds=5)
        assert attempt(intent_id).status is AttemptStatus.NOT_DUE
        make_due(intent_id)
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.WITH_PERSON, called=True, detail="REPEATED_FAILURE"
    )
    assert trading_desk.states(intent_id) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
    assert trading_desk.attempts(intent_id) == [AttemptState.FAILED] * 4
    assert len({row.target_key for row in Attempt.objects.all()}) == 1
    escalation = Escalation.objects.get()
    assert (escalation.family, escalation.reason, escalation.deadline_at) == (
        "OPERATIONAL",
        "REPEATED_FAILURE",
        None,
    )
    name, event = trading_desk.told(intent_id)[-1]
    assert name == "ESCALATION_REQUIRED"
    assert event["escalation_id"] == str(escalation.pk)
    assert event["status"] == "AWAITING_HUMAN_INPUT"
    assert event["details"] == {
        "intent_id": str(intent_id),
        "target": "broker",
        "attempts": 4,
        "failures": 4,
    }


def test_a_terminal_failure_aborts_the_flow(calls: list[Any]) -> None:
    intent_id = trading_desk.open_desk().accept()
    calls[:] = [REFUSED]
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.FAILED, called=True, detail="TARGET_REFUSED"
    )
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    assert trading_desk.flow_of(intent_id).reason == "TERMINAL_FAILURE"
    row = Attempt.objects.get()
    assert (row.state, row.error_category, row.status_code, row.detail) == (
        "FAILED",
        "TARGET_REFUSED",
        422,
        "refused",
    )
    assert trading_desk.told(intent_id)[0][1]["error_category"] == "TARGET_REFUSED"


def test_an_unknown_result_goes_to_a_person_and_is_not_sent_again(calls: list[Any]) -> None:
    intent_id = trading_desk.open_desk().accept()
    calls[:] = [LOST]
    assert attempt(intent_id).detail == "IN_DOUBT"
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert trading_desk.attempts(intent_id) == [AttemptState.UNKNOWN]
    assert trading_desk.kinds(intent_id, after="attempt:started") == [
        "attempt:finished",
        "intent:in_doubt",
        "flow:moved",
        "escalation:opened",
        "record:emitted",
    ]
    assert attempt(intent_id).status is AttemptStatus.NOT_DUE


def test_an_executor_that_crashes_leaves_doubt(calls: list[Any]) -> None:
    def crash(claim: Any) -> None:
        raise RuntimeError("a bug")

    intent_id = trading_desk.open_desk().accept()
    calls[:] = [crash]
    assert attempt(intent_id).detail == "IN_DOUBT"
    assert Attempt.objects.get().error_category == "EXECUTOR_CRASHED"


def test_an_answer_after_the_sweeper_settles_the_doubt_and_a_person_has_the_word(calls: list[Any]) -> None:
    intent_id = trading_desk.open_desk().accept()

    def late(claim: Any) -> Receipt:
        assert sweeper.expire_all_leases() == 1
        return FILLED

    calls[:] = [late]
    assert attempt(intent_id) == attempting.AttemptResult(status=AttemptStatus.REPORTED_LATE, called=True)
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert trading_desk.attempts(intent_id) == [AttemptState.UNKNOWN]
    assert trading_desk.kinds(intent_id)[-1] == "attempt:reported_late"
    assert not Outcome.objects.exists()
    assert isinstance(verify_database(), Whole)
    # Nothing may run in its place, and it is not sent again: it has happened.
    intent = trading_desk.intent(intent_id)
    assert not calls_in_doubt.is_in_doubt(intent=intent)
    assert due_intents.has_taken_effect(intent=intent)


def test_a_target_that_nobody_named_fails_the_intent() -> None:
    intent_id = trading_desk.open_desk().accept()
    Target.objects.all().delete()
    assert attempt(intent_id).detail == "TARGET_UNKNOWN"


def test_a_deployment_may_move_a_target(target: misbehaving_targets.StandIn, settings: Settings) -> None:
    settings.DIR_TARGET_URLS = {"broker": target.base_url}
    intent_id = trading_desk.open_desk(base_url="http://127.0.0.1:1").accept()
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED


def test_a_simulated_step_needs_no_target() -> None:
    intent_id = trading_desk.open_desk(executor="simulated").accept()
    Target.objects.all().delete()
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED


def test_an_executor_that_nobody_knows_fails_the_intent(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = trading_desk.open_desk().accept()
    monkeypatch.setattr(registry, "EXECUTORS", {})
    assert attempt(intent_id).detail == "TARGET_UNKNOWN"


def test_requests_that_cannot_be_read_end_the_intent(calls: list[Any]) -> None:
    intent_id = trading_desk.open_desk().accept()
    ledger_tampering.rewrite_requests(intent_id, b'{"steps":[]}')
    assert attempt(intent_id).detail == "RENDERING_FAILED"
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)


@pytest.mark.parametrize(
    ("asked_s", "lease_left_s", "given_s"),
    [(0, 30, 10), (5, 30, 5), (300, 30, 20), (20, 10, 9), (1, 2, 1), (5, 0.5, -0.5)],
)
def test_a_call_ends_before_its_lease(asked_s: int, lease_left_s: float, given_s: float) -> None:
    assert calling.timeout_s(asked_s, lease_left_s=lease_left_s) == given_s


def test_a_worker_that_was_held_up_past_its_lease_calls_nobody(
    target: misbehaving_targets.StandIn, settings: Settings
) -> None:
    """A stopped process goes on where it stood: by then a person may have decided otherwise."""
    settings.DIR_LEASE_S = 1
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    assert attempt(intent_id).status is AttemptStatus.RETRY_LATER
    assert Attempt.objects.get().error_category == "LEASE_ENDED"
    assert not target.seen


@pytest.mark.parametrize("failures", [1, 4])
def test_a_result_is_recorded_with_patience(
    failures: int, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that fails over at the commit must not turn a known result into a doubt."""
    intent_id = trading_desk.open_desk().accept()
    trouble = iter([OperationalError("gone")] * failures)
    record = recording.record

    def fail_first(*args: Any, **named: Any) -> Any:
        for error in trouble:
            raise error
        return record(*args, **named)

    monkeypatch.setattr(recording, "record", fail_first)
    monkeypatch.setattr(attempting, "RECORD_WAITS_S", (0.0,) * 4)
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)


def test_a_result_that_cannot_be_recorded_is_left_to_the_sweeper(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **named: Any) -> Any:
        raise OperationalError("gone for good")

    intent_id = trading_desk.open_desk().accept()
    monkeypatch.setattr(recording, "record", fail)
    monkeypatch.setattr(attempting, "RECORD_WAITS_S", (0.0,))
    with pytest.raises(OperationalError):
        attempt(intent_id)
    assert trading_desk.states(intent_id) == (IntentState.CLAIMED, FlowState.EXECUTING)


def test_a_result_whose_commit_was_not_confirmed_is_recorded_once(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = trading_desk.open_desk().accept()
    record, told = recording.record, []

    def lose_the_answer(*args: Any, **named: Any) -> Any:
        told.append(record(*args, **named))
        if len(told) == 1:
            raise transactions.BusyError
        return told[-1]

    def run(work: Any) -> Any:
        return work()

    monkeypatch.setattr(recording, "record", lose_the_answer)
    monkeypatch.setattr(attempting, "RECORD_WAITS_S", (0.0,))
    monkeypatch.setattr(transactions, "retry_on_conflict", run)
    with transaction.atomic():
        assert attempt(intent_id).status is AttemptStatus.REPORTED_LATE
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
    assert trading_desk.kinds(intent_id).count("outcome:recorded") == 1
    assert "attempt:reported_late" not in trading_desk.kinds(intent_id)


def test_a_claim_that_was_swept_is_not_given_back(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = trading_desk.open_desk().accept()

    def sweep_and_go(claim: claiming.Claimed) -> Any:
        sweeper.expire_all_leases()
        with calling.gate(claim):
            pytest.fail("a call that was given up for lost must not go out")

    monkeypatch.setattr(calling, "call", lambda claim, **_: sweep_and_go(claim))
    result = attempt(intent_id)
    assert (result.status, result.called, result.detail) == (AttemptStatus.HELD, False, call_gate.LEASE_LOST)
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
