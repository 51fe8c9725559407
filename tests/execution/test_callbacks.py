"""Targets that take a call on with 202 and report its result later."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from django.test import Client
from pytest_django.fixtures import Settings

from audit import canonical
from audit.models import LedgerEntry
from audit.verification import findings
from escalations.models import Escalation
from runtime.contracts.problem import Problem
from runtime.contracts.states import CallbackState, FlowState, IntentState
from runtime.core import clock
from runtime.execution.models import TargetCallback
from runtime.execution.services import callback_reports
from runtime.flows.models import Attempt, Outcome
from runtime.flows.services import flows
from runtime.maintenance.services import sweeper
from runtime.packs.services import packs
from runtime.registry.models import Target
from runtime.stops.services import stops
from tests.support import misbehaving_targets, reporting_target, trading_desk
from tests.support.human_tasks import attempt
from tests.support.misbehaving_targets import StandIn
from tests.support.reporting_target import address_of, report

pytestmark = pytest.mark.django_db
PAY = "- {id: pay, executor: http, target: broker, request: {method: POST, path: /payments}}"
DONE = {"status": "succeeded", "receipt": {"order_id": "o1", "price": 7}}


@pytest.fixture
def target() -> Iterator[StandIn]:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(*reporting_target.TAKEN_ON)) as running:
        yield running


@pytest.fixture(autouse=True)
def _whole() -> Iterator[None]:
    yield
    assert [item.detail for item in findings.verify_all().findings] == []


def desk(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn, **parts: Any
) -> trading_desk.Desk:
    text = reporting_target.pack(**parts)
    return reporting_target.open_desk(monkeypatch, settings, url=target.base_url, pack_text=text)


def entries(intent_id: Any, kind: str) -> list[dict[str, Any]]:
    rows = LedgerEntry.objects.filter(stream=str(trading_desk.intent(intent_id).flow_id), kind=kind)
    return [canonical.decode(bytes(row.body))["payload"] for row in rows.order_by("seq")]


def test_a_call_taken_on_waits_and_its_reported_result_is_the_receipt(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn
) -> None:
    intent_id = desk(monkeypatch, settings, target).accept()
    assert attempt(intent_id) == "AWAITING"
    row = trading_desk.intent(intent_id)
    assert trading_desk.states(intent_id) == (IntentState.AWAITING, FlowState.EXECUTING)
    assert (row.lease_owner, row.lease_until) == ("", None)
    # No worker takes it, no window ends it, and the agent cannot cancel it.
    assert attempt(intent_id) == "NOT_DUE"
    with monkeypatch.context() as patched:
        patched.setattr("runtime.core.clock.now", lambda: row.valid_until + timedelta(seconds=1))
        assert sweeper.sweep().failed == 0
    cancelled = flows.cancel(agent=row.flow.agent, dfid=row.flow_id, reason="Changed my mind")
    assert isinstance(cancelled, Problem)
    assert trading_desk.states(intent_id) == (IntentState.AWAITING, FlowState.EXECUTING)

    path = address_of(target)
    assert report(path, {"status": "progress", "number": 2, "percent": 40, "note": "Picked"}) == (
        200,
        {"status": "taken"},
    )
    assert report(path, {"status": "progress", "number": 2, "percent": 10}) == (200, {"status": "known"})
    waiting = TargetCallback.objects.get()
    assert (waiting.report, waiting.percent, waiting.state) == (2, 40, CallbackState.OPEN)
    assert report(path, DONE) == (200, {"status": "taken"})
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
    outcome = Outcome.objects.get(pk=intent_id)
    assert canonical.decode(bytes(outcome.receipt or b"")) == DONE["receipt"]
    assert trading_desk.attempts(intent_id) == ["SUCCEEDED"]
    assert report(path, DONE)[1]["code"] == "CALLBACK_CLOSED"
    assert report(path, {"status": "progress", "number": 3})[0] == 410
    assert [said["is_late"] for said in entries(intent_id, "callback:reported")] == [False]


def test_the_step_after_it_runs_in_a_window_as_long_as_the_first(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn
) -> None:
    intent_id = desk(monkeypatch, settings, target, more=PAY).accept(window_s=30)
    assert attempt(intent_id) == "AWAITING"
    before = trading_desk.intent(intent_id).valid_until
    assert report(address_of(target), DONE)[0] == 200
    row = trading_desk.intent(intent_id)
    assert (row.state, row.position) == (IntentState.PENDING, 1)
    assert row.valid_until > before
    # A plain step gets no address, and its 202 without a receipt is what it was: unknown.
    assert attempt(intent_id) == "WITH_PERSON"
    assert "callback_url" not in json.loads(target.seen[-1].body)


def test_a_failure_reported_in_time_is_a_refusal_for_good(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn
) -> None:
    intent_id = desk(monkeypatch, settings, target).accept()
    attempt(intent_id)
    assert report(address_of(target), {"status": "failed", "note": "No stock"})[1] == {"status": "taken"}
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    assert Outcome.objects.get(pk=intent_id).error_category == "TARGET_REFUSED"


def test_a_stop_takes_the_report_and_holds_what_follows(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn
) -> None:
    intent_id = desk(monkeypatch, settings, target, more=PAY).accept()
    attempt(intent_id)
    stops.stop_all(tenant=trading_desk.TENANT, actor="user:1", reason="trial")
    assert report(address_of(target), DONE)[0] == 200
    assert attempt(intent_id) == "HELD"


def test_the_report_may_come_before_its_202_is_recorded(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    answers: list[tuple[int, dict[str, Any]]] = []

    with misbehaving_targets.stand_in(misbehaving_targets.answer(202, b"{}")) as target:
        intent_id = desk(monkeypatch, settings, target).accept()
        from runtime.execution.services import recording

        record = recording.record

        def hastily(*given: Any, **more: Any) -> Any:
            answers.append(report(address_of(target), DONE))
            return record(*given, **more)

        monkeypatch.setattr(recording, "record", hastily)
        assert attempt(intent_id) == "REPORTED_LATE"
    assert answers == [(200, {"status": "taken"})]
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)


@pytest.mark.parametrize(
    ("on_unknown", "becomes"), [("person", IntentState.IN_DOUBT), ("probe", IntentState.PENDING)]
)
def test_after_the_deadline_nobody_knows_what_it_did(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    target: StandIn,
    on_unknown: str,
    becomes: IntentState,
) -> None:
    text = reporting_target.pack(kind=f"    on_unknown: {on_unknown}\n")
    if on_unknown == "probe":
        text = text.replace("callback:", 'probe: {path: "/orders/${key}"}, callback:')
    opened = reporting_target.open_desk(monkeypatch, settings, url=target.base_url, pack_text=text)
    intent_id = opened.accept()
    attempt(intent_id)
    late = clock.now() + timedelta(seconds=601)
    with monkeypatch.context() as patched:
        patched.setattr("runtime.core.clock.now", lambda: late)
        assert sweeper.sweep().callbacks == 1
        assert sweeper.sweep().callbacks == 0
    row = trading_desk.intent(intent_id)
    assert row.state == becomes
    assert trading_desk.attempts(intent_id)[0] == "UNKNOWN"
    assert (row.purpose == "PROBE") is (on_unknown == "probe")
    assert TargetCallback.objects.get().state == CallbackState.OVERDUE


def test_a_result_after_the_deadline_is_noted_and_shown_to_the_person(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn
) -> None:
    intent_id = desk(monkeypatch, settings, target).accept()
    attempt(intent_id)
    assert callback_reports.expire(TargetCallback.objects.get().pk, even_in_time=True)
    assert Escalation.objects.get().reason == "IN_DOUBT"
    assert report(address_of(target), DONE) == (200, {"status": "noted"})
    # It settles the doubt, and moves nothing: a person decides.
    assert Attempt.objects.get().effect == "HAPPENED"
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert entries(intent_id, "attempt:reported_late")[0]["receipt_commitment"]
    assert report(address_of(target), DONE)[0] == 410


def test_a_call_whose_answer_was_lost_can_still_be_reported(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with misbehaving_targets.stand_in(misbehaving_targets.drop) as target:
        intent_id = desk(monkeypatch, settings, target).accept()
        assert attempt(intent_id) == "WITH_PERSON"
        assert report(address_of(target), DONE) == (200, {"status": "noted"})
    assert Attempt.objects.get().effect == "HAPPENED"


@pytest.mark.parametrize("status", [200, 409])
def test_a_call_that_ends_by_itself_closes_its_address(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, status: int
) -> None:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(status, b'{"order_id":"o1"}')) as target:
        intent_id = desk(monkeypatch, settings, target).accept()
        assert attempt(intent_id) == ("SUCCEEDED" if status == 200 else "FAILED")
        assert report(address_of(target), DONE)[1]["code"] == "CALLBACK_CLOSED"
    assert TargetCallback.objects.get().state == CallbackState.CLOSED


def test_only_the_target_is_believed(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    target: StandIn,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    intent_id = desk(monkeypatch, settings, target).accept()
    attempt(intent_id)
    path, body = address_of(target), json.dumps(DONE).encode()
    before = LedgerEntry.objects.count()
    other = reporting_target.signed(body, secret="whsec_" + "b3RoZXIx" * 5)
    old = reporting_target.signed(body, at=datetime.now(UTC) - timedelta(minutes=6))
    of_another_body = reporting_target.signed(b"{}")
    broken = {**reporting_target.signed(body), "webhook-signature": "v1,\N{SNOWMAN}"}
    for headers in ({}, other, old, of_another_body, broken):
        status, problem = report(path, DONE, headers=headers, body=body)
        assert (status, problem["code"]) == (403, "SIGNATURE_INVALID")
    assert report(path[:-1] + "_", DONE)[1]["code"] == "CALLBACK_NOT_FOUND"
    assert Client().get(path).status_code == 405
    for wrong in (
        '{"status": "done"}',
        '{"status": "succeeded"}',
        '{"status": "progress", "number": 0}',
        "[]",
    ):
        assert report(path, None, body=wrong.encode())[0] == 422
    assert report(path, None, body=b"{")[1]["code"] == "INVALID_JSON"
    assert report(path, None, body=b" " * 65_537)[1]["code"] == "BODY_TOO_LARGE"
    assert LedgerEntry.objects.count() == before
    assert trading_desk.states(intent_id) == (IntentState.AWAITING, FlowState.EXECUTING)
    # What would let somebody else report is nowhere but in the request.
    token = reporting_target.token_of(target)
    assert token not in caplog.text
    assert not any(token.encode() in bytes(row.body) for row in LedgerEntry.objects.all())


def test_without_an_address_or_a_secret_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn
) -> None:
    intent_id = desk(monkeypatch, settings, target).accept()
    settings.DIR_PUBLIC_URL = ""
    assert attempt(intent_id) == "FAILED"
    assert target.seen == []
    assert Outcome.objects.get(pk=intent_id).error_category == "CALLBACK_UNAVAILABLE"
    text = trading_desk.pack(base_url=target.base_url).replace(
        f", secret_env: {reporting_target.SECRET_ENV}", ""
    )
    refused = packs.load(text=text, source="trial.yaml", activate=True, actor="system")
    assert "secret_env" in str(refused)


def test_a_callback_whose_row_was_changed_takes_nothing(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn
) -> None:
    intent_id = desk(monkeypatch, settings, target).accept()
    attempt(intent_id)
    TargetCallback.objects.update(number=2)
    Attempt.objects.update(number=2)
    assert report(address_of(target), DONE)[1]["code"] == "TAMPERED"
    assert trading_desk.intent(intent_id).state == IntentState.AWAITING
    TargetCallback.objects.update(number=1)
    Attempt.objects.update(number=1)


def test_nobody_signs_by_the_secret_that_a_changed_target_names(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn
) -> None:
    intent_id = desk(monkeypatch, settings, target).accept()
    attempt(intent_id)
    other = "whsec_" + "b3RoZXIx" * 5
    monkeypatch.setenv("OTHER_SECRET", other)
    Target.objects.update(secret_env="OTHER_SECRET")
    body = json.dumps(DONE).encode()
    headers = reporting_target.signed(body, secret=other)
    assert report(address_of(target), DONE, headers=headers, body=body)[1]["code"] == "TAMPERED"
    assert trading_desk.intent(intent_id).state == IntentState.AWAITING
    Target.objects.update(secret_env=reporting_target.SECRET_ENV)


@pytest.mark.parametrize(
    "columns",
    [
        {"state": "OTHER"},
        {"state": "CLOSED"},
        {"percent": 101},
        {"report": 3},
        {"deadline_at": datetime(2020, 1, 1, tzinfo=UTC)},
    ],
)
def test_the_database_refuses_rows_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn, columns: dict[str, Any]
) -> None:
    attempt(desk(monkeypatch, settings, target).accept())
    with pytest.raises(DatabaseError), transaction.atomic():
        TargetCallback.objects.update(**columns)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("tenant", "other"),
        ("opened_at", datetime(2020, 1, 1, tzinfo=UTC)),
        ("token_hash", "0" * 64),
        ("target", "other"),
        ("deadline_at", datetime(2040, 1, 1, tzinfo=UTC)),
        ("percent", 99),
        ("report", 9),
        ("reported_at", datetime(2040, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_changed_row_is_found(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn, column: str, value: object
) -> None:
    attempt(desk(monkeypatch, settings, target).accept())
    report(address_of(target), {"status": "progress", "number": 2, "percent": 40})
    # Every column is among them, but those that name the row and those that a constraint binds.
    kept = getattr(TargetCallback.objects.get(), column)
    TargetCallback.objects.update(**{column: value})
    assert f"targetcallback.{column}" in " ".join(item.detail for item in findings.verify_all().findings)
    TargetCallback.objects.update(**{column: kept})


def test_a_row_of_another_state_or_without_an_entry_is_found(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, target: StandIn
) -> None:
    attempt(desk(monkeypatch, settings, target).accept())
    TargetCallback.objects.update(state="CLOSED", ended_at=clock.now())
    found = " ".join(item.detail for item in findings.verify_all().findings)
    assert "targetcallback.state" in found
    assert "targetcallback.ended_at" in found
    TargetCallback.objects.update(state="OPEN", ended_at=None)
    extra = TargetCallback.objects.get()
    extra.pk, extra.number, extra.token_hash = None, 7, "1" * 64
    extra.save(force_insert=True)
    assert "no entry records the callback" in " ".join(item.detail for item in findings.verify_all().findings)
    TargetCallback.objects.filter(number=7).delete()


def test_a_server_that_logs_every_call_logs_no_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="uvicorn.access")
    logged = ("127.0.0.1:1", "POST", "/callbacks/abc-DEF_1", "1.1", 200)
    logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', *logged)
    assert '"POST /callbacks/... HTTP/1.1" 200' in caplog.text
