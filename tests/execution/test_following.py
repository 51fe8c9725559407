"""Targets that take a call on with 202 and are asked for its result where they say."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, transaction
from pytest_django.fixtures import Settings

from audit import canonical
from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.states import CallbackState, FlowState, IntentState
from runtime.core import clock
from runtime.execution.models import TargetCallback
from runtime.execution.services import callback_reports
from runtime.flows.models import Attempt, Outcome
from runtime.maintenance.services import sweeper
from runtime.packs.services import packs
from runtime.stops.services import stops
from tests.support import misbehaving_targets, trading_desk
from tests.support.asked_for_results import DONE, PLACE, ask_after, busy, open_desk, opened, pack, says
from tests.support.human_tasks import attempt

pytestmark = pytest.mark.django_db
PAY = "- {id: pay, executor: simulated, target: broker, request: {method: POST, path: /payments}}"


@pytest.fixture(autouse=True)
def _whole() -> Iterator[None]:
    yield
    assert [item.detail for item in findings.verify_all().findings] == []


def entries(kind: str) -> list[dict[str, Any]]:
    rows = LedgerEntry.objects.filter(kind=kind).order_by("id")
    return [canonical.decode(bytes(row.body))["payload"] for row in rows]


def test_the_result_is_asked_for_until_it_is_there(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with opened(busy(), says(DONE)) as warehouse:
        intent_id = open_desk(monkeypatch, settings, warehouse).accept()
        assert attempt(intent_id) == "AWAITING"
        assert trading_desk.states(intent_id) == (IntentState.AWAITING, FlowState.EXECUTING)
        # Not at once: every thirty seconds, if the kind says nothing else.
        assert ask_after(monkeypatch, 0) == 0
        assert ask_after(monkeypatch, 31) == 1
        assert trading_desk.intent(intent_id).state == IntentState.AWAITING
        assert ask_after(monkeypatch, 40) == 0
        assert ask_after(monkeypatch, 62) == 1
        assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
        assert ask_after(monkeypatch, 999) == 0
        assert [one.path for one in warehouse.asked] == [PLACE, PLACE]
        assert not any("Idempotency-Key" in one.headers for one in warehouse.asked)
    assert canonical.decode(bytes(Outcome.objects.get(pk=intent_id).receipt or b"")) == DONE
    assert trading_desk.attempts(intent_id) == ["SUCCEEDED"]
    assert [said["is_late"] for said in entries("callback:reported")] == [False]
    # The place may hold a secret: the ledger has its hash alone.
    row = TargetCallback.objects.get()
    assert (row.state, row.location) == (CallbackState.REPORTED, PLACE)
    assert not any(PLACE.encode() in bytes(one.body) for one in LedgerEntry.objects.all())


def test_no_address_and_no_secret_are_needed_and_none_is_sent(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.DIR_PUBLIC_URL = ""
    with opened() as warehouse:
        intent_id = open_desk(monkeypatch, settings, warehouse).accept()
        assert attempt(intent_id) == "AWAITING"
        assert b"callback_url" not in warehouse.target.seen[0].body


def test_the_next_step_runs_with_a_window_of_its_own(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with opened() as warehouse:
        desk = open_desk(monkeypatch, settings, warehouse, pack_text=pack(more=PAY))
        intent_id = desk.accept(window_s=30)
        attempt(intent_id)
        before = trading_desk.intent(intent_id).valid_until
        assert ask_after(monkeypatch, 31) == 1
        row = trading_desk.intent(intent_id)
        assert (row.state, row.position) == (IntentState.PENDING, 1)
        assert row.valid_until > before


def test_conditions_of_the_kind_say_what_is_done_and_what_failed(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    follow = (
        "deadline_s: 600, every_s: 5, done: \"answer.body.state == 'DONE'\","
        " failed: \"answer.body.state == 'REFUSED'\""
    )
    answers = (says({"state": "BUSY"}), says({"state": "REFUSED"}))
    with opened(*answers) as warehouse:
        intent_id = open_desk(monkeypatch, settings, warehouse, pack_text=pack(follow=follow)).accept()
        attempt(intent_id)
        assert ask_after(monkeypatch, 6) == 1
        assert trading_desk.intent(intent_id).state == IntentState.AWAITING
        assert ask_after(monkeypatch, 12) == 1
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    assert Outcome.objects.get(pk=intent_id).error_category == "TARGET_REFUSED"


def test_a_target_that_says_how_long_it_needs_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with opened(busy(**{"Retry-After": "120"}), says(DONE)) as warehouse:
        intent_id = open_desk(monkeypatch, settings, warehouse).accept()
        attempt(intent_id)
        assert ask_after(monkeypatch, 31) == 1
        assert ask_after(monkeypatch, 100) == 0
        assert ask_after(monkeypatch, 160) == 1
    assert trading_desk.intent(intent_id).state == IntentState.DONE


@pytest.mark.parametrize(
    "answering",
    [
        misbehaving_targets.drop,
        misbehaving_targets.cut,
        misbehaving_targets.endless,
        says({"error": "gone"}, 404),
        says({"error": "broken"}, 500),
        misbehaving_targets.answer(302, b"", headers={"Location": "http://127.0.0.1:1/elsewhere"}),
        misbehaving_targets.answer(200, b"not json"),
        misbehaving_targets.answer(200, b"[1]"),
    ],
)
def test_an_answer_that_says_nothing_is_asked_again_and_in_the_end_nobody_knows(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, answering: misbehaving_targets.Answering
) -> None:
    with opened(answering) as warehouse:
        intent_id = open_desk(monkeypatch, settings, warehouse).accept()
        attempt(intent_id)
        ask_after(monkeypatch, 31)
        assert len(warehouse.asked) == 1
        assert trading_desk.intent(intent_id).state == IntentState.AWAITING
        late = clock.now() + timedelta(seconds=601)
        with monkeypatch.context() as patched:
            patched.setattr("runtime.core.clock.now", lambda: late)
            assert sweeper.sweep().callbacks == 1
        assert ask_after(monkeypatch, 700) == 0
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)


def test_a_target_that_hangs_costs_one_question_in_a_round(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with opened(misbehaving_targets.drop) as warehouse:
        desk = open_desk(monkeypatch, settings, warehouse)
        for _ in range(3):
            attempt(desk.accept())
        assert ask_after(monkeypatch, 31) == 1
        assert len(warehouse.asked) == 1


@pytest.mark.parametrize("location", [None, "https://elsewhere.example/jobs/1", "//127.0.0.1:1/jobs/1"])
def test_a_target_that_names_no_place_of_its_own_leaves_a_doubt(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, location: str | None
) -> None:
    with opened(location=location) as warehouse:
        intent_id = open_desk(monkeypatch, settings, warehouse).accept()
        assert attempt(intent_id) == "WITH_PERSON"
        assert ask_after(monkeypatch, 31) == 0
        assert warehouse.asked == []
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert Attempt.objects.get().error_category == "ANSWER_UNREADABLE"
    # Nothing is waited for: no deadline is missed later.
    assert TargetCallback.objects.get().state == CallbackState.CLOSED


def test_a_stop_keeps_questions_back_and_they_go_out_after_it(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with opened() as warehouse:
        intent_id = open_desk(monkeypatch, settings, warehouse).accept()
        attempt(intent_id)
        stops.stop_all(tenant=trading_desk.TENANT, actor="user:1", reason="trial")
        assert ask_after(monkeypatch, 31) == 0
        assert warehouse.asked == []
        stops.resume_all(tenant=trading_desk.TENANT, actor="user:1", reason="over")
        assert ask_after(monkeypatch, 62) == 1
    assert trading_desk.intent(intent_id).state == IntentState.DONE


def test_a_call_that_ends_by_itself_is_not_asked_about(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with opened() as warehouse:
        warehouse.taken_on = says(DONE)
        intent_id = open_desk(monkeypatch, settings, warehouse).accept()
        assert attempt(intent_id) == "SUCCEEDED"
        assert ask_after(monkeypatch, 31) == 0
    assert TargetCallback.objects.get().state == CallbackState.CLOSED


def test_a_place_that_was_changed_is_not_asked(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    with opened() as warehouse:
        intent_id = open_desk(monkeypatch, settings, warehouse).accept()
        attempt(intent_id)
        TargetCallback.objects.update(location="/admin/delete")
        assert "targetcallback.location" in " ".join(one.detail for one in findings.verify_all().findings)
        assert ask_after(monkeypatch, 31) == 0
        assert warehouse.asked == []
        # Once: it is not asked again, and its deadline ends it.
        assert ask_after(monkeypatch, 62) == 0
    [noted] = entries("row:mismatched")
    assert "targetcallback.location" in noted["row"]
    TargetCallback.objects.update(location=PLACE)


def test_an_erasure_empties_the_place(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    with opened() as warehouse:
        intent_id = open_desk(monkeypatch, settings, warehouse).accept()
        attempt(intent_id)
        assert ask_after(monkeypatch, 31) == 1
    flow = str(trading_desk.intent(intent_id).flow_id)
    call_command("erase_flow", flow, "--reason", "trial")
    assert TargetCallback.objects.get().location == ""


def test_no_log_has_the_place(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with opened(location="/jobs/secret-token-1") as warehouse:
        attempt(open_desk(monkeypatch, settings, warehouse).accept())
        ask_after(monkeypatch, 31)
        assert len(warehouse.asked) == 1
    assert "secret-token-1" not in caplog.text


@pytest.mark.parametrize(
    ("condition", "words"), [("receipt.state == 1", "receipt"), ("answer.state == 1", "state")]
)
def test_a_condition_reads_only_the_answer(condition: str, words: str) -> None:
    text = pack(follow=f'deadline_s: 60, done: "{condition}"').replace("BASE_URL", "http://127.0.0.1:1")
    refused = packs.load(text=text.replace("BY_WHOM", "http"), source="t", activate=True, actor="system")
    assert isinstance(refused, packs.PackRefused)
    assert words in str(refused)


def test_the_database_asks_only_where_there_is_a_place(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with opened() as warehouse:
        attempt(open_desk(monkeypatch, settings, warehouse).accept())
    with pytest.raises(DatabaseError), transaction.atomic():
        TargetCallback.objects.update(location="")


def test_an_asker_that_fails_leaves_the_others_their_turn(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    with opened() as warehouse:
        desk = open_desk(monkeypatch, settings, warehouse)
        intents = [desk.accept(), desk.accept()]
        for one in intents:
            attempt(one)
        take, failed = callback_reports.take_found, list[Any]()

        def once(*given: Any) -> Any:
            if not failed:
                failed.append(given)
                raise RuntimeError("trial")
            return take(*given)

        monkeypatch.setattr(callback_reports, "take_found", once)
        assert ask_after(monkeypatch, 31) == 1
        assert "could not be asked" in caplog.text
        assert ask_after(monkeypatch, 62) == 1
    assert {trading_desk.intent(one).state for one in intents} == {IntentState.DONE}
