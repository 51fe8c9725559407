"""An intent whose row says another step, window or limit than its entries: nothing is called by it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit import canonical
from audit.models import LedgerEntry
from audit.verification import findings
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import deciding
from runtime.contracts.problem import Problem
from runtime.contracts.states import Effect, FlowState, IntentState
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Attempt, Intent, Outcome, StepReceipt, Verdict
from runtime.flows.queries import intent_records
from runtime.registry.models import Bundle
from tests.support import factories, fake_target, misbehaving_targets, trading_desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def target(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b'{"order_id":"o1","status":"FILLED"}')
    ) as running:
        yield running


@pytest.fixture
def book(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_target.Book]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened() as opened:
        yield opened


def attempt(intent_id: UUID) -> attempting.AttemptResult:
    return attempting.attempt(intent_id, owner=trading_desk.OWNER)


def put(intent_id: UUID, **columns: Any) -> None:
    assert Intent.objects.filter(pk=intent_id).update(**columns) == 1


def mismatches(intent_id: UUID) -> list[str]:
    stream = str(trading_desk.flow_of(intent_id).dfid)
    rows = LedgerEntry.objects.filter(stream=stream, kind="row:mismatched").order_by("seq")
    return [row.payload["row"] for row in rows]


def found() -> list[str]:
    """The columns that `verify_ledger` finds to be other than recorded."""
    return [item.detail.split(" is ")[0] for item in findings.verify_all().findings]


FORGED = {
    "lifted": b'[{"check":"limits"}]',
    "valid_until": datetime(2040, 1, 1, tzinfo=UTC),
    "not_before": datetime(2020, 1, 1, tzinfo=UTC),
    "purpose": "PROBE",
    "direction": "COMPENSATE",
    "answered": 9,
    "attempts": 3,
    "cause": "ABORTED_BY_PERSON",
    "cause_category": "REFUSED",
}


@pytest.mark.parametrize("column", FORGED)
def test_nothing_is_called_by_a_column_that_was_rewritten(
    target: misbehaving_targets.StandIn, column: str
) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    held = getattr(trading_desk.intent(intent_id), column)
    put(intent_id, **{column: FORGED[column]})
    assert found() == [f"intent.{column}"]
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.BLOCKED, called=False, detail="TAMPERED"
    )
    assert target.seen == []
    assert trading_desk.states(intent_id) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
    assert mismatches(intent_id) == [f"intent.{column}"]

    put(intent_id, **{column: held})
    factories.decide(Escalation.objects.get(), factories.user(), Action.RESUME)
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert len(target.seen) == 1


def test_every_followed_column_is_tried_above() -> None:
    row = Intent(valid_until=clock.now())
    # `undo` needs a window: tests/escalations/test_taking_back.py.
    assert intent_records.stored(row).keys() == FORGED.keys() | {"position", "undo"}


def test_a_step_is_not_passed_over_by_a_rewritten_position(book: fake_target.Book) -> None:
    intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
    put(intent_id, position=1)
    assert attempt(intent_id).detail == "TAMPERED"
    assert not book.calls
    assert mismatches(intent_id) == ["intent.position"]


def test_nobody_resumes_or_confirms_what_a_row_was_made_to_say(target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    put(intent_id, lifted=FORGED["lifted"])
    attempt(intent_id)
    olivia, escalation = factories.user(), Escalation.objects.get()
    for action in (Action.RESUME, Action.MARK_DONE):
        answer = factories.decide(escalation, olivia, action, receipt={"order_id": "o1"})
        assert isinstance(answer, Problem)
        assert answer.code == "TAMPERED"
    assert isinstance(factories.decide(escalation, olivia, Action.ABORT), deciding.DecisionResult)
    assert target.seen == []


def test_a_window_that_was_made_shorter_expires(target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    put(intent_id, valid_until=clock.now() - timedelta(seconds=1))
    assert attempt(intent_id).status is AttemptStatus.EXPIRED
    assert found() == ["intent.valid_until"]


def test_the_rules_in_force_are_not_those_of_the_verdict_by_the_name_of_its_bundle(
    target: misbehaving_targets.StandIn,
) -> None:
    """Old rules stored under the digest of the new ones, and a verdict that points there."""
    factories.configure_target(base_url=target.base_url)
    desk = factories.desk()
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    intent = Intent.objects.get()
    then = Verdict.objects.select_related("bundle").get()
    factories.change_manifest("trader", limits={"max_notional_cents": 100})
    assert desk.propose(desk.open())["verdict"] == "ESCALATE"
    in_force = Bundle.objects.exclude(pk=then.bundle_id).get()
    Bundle.objects.filter(pk=in_force.pk).update(body=bytes(then.bundle.body))
    Verdict.objects.filter(pk=then.pk).update(bundle=in_force)
    assert attempt(intent.pk).detail == "TAMPERED"
    assert target.seen == []
    assert mismatches(intent.pk) == ["verdict.bundle"]


def test_what_has_ended_is_not_called_again_by_its_row(target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    put(intent_id, state=IntentState.PENDING)
    assert found() == ["intent.state"]
    again = attempt(intent_id)
    assert (again.status, again.called, again.outcome) == (AttemptStatus.ENDED, False, "SUCCEEDED")
    assert len(target.seen) == 1
    assert mismatches(intent_id) == ["intent.state"]
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
    assert found() == []


def test_what_a_person_is_asked_about_is_not_called_by_its_row(target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    put(intent_id, lifted=FORGED["lifted"])
    assert attempt(intent_id).detail == "TAMPERED"
    put(intent_id, lifted=b"[]", state=IntentState.PENDING)
    assert found() == ["intent.state"]
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.HELD, called=False, detail="WITH_PERSON"
    )
    assert target.seen == []
    assert trading_desk.states(intent_id) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
    assert found() == []
    factories.decide(Escalation.objects.get(), factories.user(), Action.RESUME)
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED


@pytest.fixture
def doubtful(book: fake_target.Book) -> UUID:
    """An intent whose first call has an unknown result, which a person is asked about."""
    book.faults["/reserve"] = [fake_target.HANG_UP]
    intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
    attempt(intent_id)
    assert trading_desk.states(intent_id)[0] is IntentState.IN_DOUBT
    return intent_id


def test_a_doubt_is_not_ended_by_the_state_of_its_row(book: fake_target.Book, doubtful: UUID) -> None:
    called = len(book.calls)
    put(doubtful, state=IntentState.PENDING)
    assert found() == ["intent.state"]
    assert attempt(doubtful).detail == "IN_DOUBT"
    assert len(book.calls) == called
    assert trading_desk.states(doubtful) == (IntentState.IN_DOUBT, FlowState.ESCALATED)


SETTLED = {"effect": "NOT_HAPPENED", "settled_by": "user:1", "settled_at": datetime(2026, 1, 1, tzinfo=UTC)}
REFUSED = {"state": "FAILED", "error_category": "REFUSED"}


@pytest.mark.parametrize("columns", [SETTLED, REFUSED, {"purpose": "PROBE"}, None])
def test_a_call_in_doubt_is_not_freed_by_its_row(doubtful: UUID, columns: dict[str, Any] | None) -> None:
    rows = Attempt.objects.filter(intent=doubtful)
    assert found() == []
    assert rows.delete()[0] if columns is None else rows.update(**columns)
    assert found()[0] in {"attempt.effect", "attempt.state", "attempt.error_category", "attempt.purpose"} | {
        "attempt 1"
    }
    olivia, escalation = factories.user(), Escalation.objects.get()
    for action in (Action.RESUME, Action.MODIFY):
        assert getattr(factories.decide(escalation, olivia, action), "code", "") == "TAMPERED"
    assert isinstance(
        factories.decide(escalation, olivia, Action.ABORT, effect=Effect.UNKNOWN), deciding.DecisionResult
    )


@pytest.mark.parametrize("fault", [fake_target.HANG_UP, fake_target.LOSE])
def test_what_a_probe_settles_is_recorded(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack(on_unknown="probe"))
    with fake_target.opened() as book:
        book.faults["/pay"] = [fault, ""]
        intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
        assert fake_target.walk(intent_id)[-1] == AttemptStatus.SUCCEEDED
        book.check()
    (settled,) = LedgerEntry.objects.filter(kind="attempt:settled")
    effect = "NOT_HAPPENED" if fault == fake_target.HANG_UP else "HAPPENED"
    assert (settled.payload["effect"], settled.payload["by"]) == (effect, "probe")
    assert "recorded" not in found_words()
    Attempt.objects.filter(number__in=settled.payload["numbers"]).update(settled_by="receipt")
    assert found() == ["attempt.settled_by"]


def found_words() -> str:
    return " ".join(item.detail for item in findings.verify_all().findings)


def test_what_a_person_states_is_recorded_for_each_call(doubtful: UUID) -> None:
    olivia = factories.user()
    factories.decide(Escalation.objects.get(), olivia, Action.ABORT, effect=Effect.NOT_HAPPENED)
    (settled,) = LedgerEntry.objects.filter(kind="attempt:settled")
    assert settled.payload == {
        "intent_id": str(doubtful),
        "numbers": [1],
        "effect": "NOT_HAPPENED",
        "by": f"user:{olivia.pk}",
        "contradicts": None,
    }
    assert [item for item in found() if item.startswith("attempt")] == []


@pytest.mark.parametrize("change", ["gone", "forged"])
def test_nothing_follows_from_steps_that_a_row_calls_done(book: fake_target.Book, change: str) -> None:
    intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
    assert fake_target.attempt(intent_id).status is AttemptStatus.ADVANCED
    rows = StepReceipt.objects.filter(intent=intent_id)
    if change == "gone":
        rows.delete()
    else:
        rows.update(direction="COMPENSATE")
    assert attempt(intent_id).detail == "TAMPERED"
    assert mismatches(intent_id) == ["stepreceipt"]


@pytest.mark.parametrize(
    ("column", "value"),
    [("expected", b"[1]"), ("deviations", b"[1]"), ("writes", b"[1]"), ("recorded_by", "user:9")],
)
def test_what_an_outcome_says_is_compared(
    target: misbehaving_targets.StandIn, column: str, value: Any
) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert found() == []
    Outcome.objects.update(**{column: value})
    assert found() == ["outcome"]


def follow(*entries: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """The columns of an intent with two steps after these entries."""
    return record_of(*entries).columns


def calls(*entries: tuple[str, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The columns of its attempts."""
    return record_of(*entries).calls


def record_of(*entries: tuple[str, dict[str, Any]]) -> intent_records.IntentRecord:
    created = {
        "intent_id": "i",
        "request_digest": "d",
        "step_ids": ["book", "ship"],
        "valid_until": "2026-01-02T03:04:05.000000Z",
    }
    records: dict[str, intent_records.IntentRecord] = {}
    for kind, said in (("intent:created", created), *entries):
        intent_records.follow(records, kind, {"intent_id": "i", **said})
    return records["i"]


def test_what_entries_of_older_versions_do_not_say_is_not_compared() -> None:
    started = {"number": 2, "step": "book", "target_key": "k"}
    resumed = follow(("attempt:started", started), ("intent:resumed", {"lifted": ["notional"]}))
    assert (resumed["valid_until"], resumed["lifted"], resumed["answered"]) == (None, None, 2)
    plain = follow(("intent:resumed", {"lifted": []}))
    assert plain["lifted"] == canonical.digest(b"[]")
    ended = {"number": 1, "result": "UNKNOWN", "next_at": None}
    assert calls(("attempt:finished", ended))[1]["effect"] is None
    assert calls(("attempt:finished", {**ended, "next_purpose": None}))[1]["effect"] == ""
    retried = follow(("attempt:finished", {**ended, "next_at": "2026-01-02T03:04:06.000000Z"}))
    assert retried["purpose"] is None
    advanced = follow(
        ("saga:advanced", {"step": "book", "direction": "FORWARD", "next_step": "ship"}),
        ("saga:dirtied", {"step": "ship", "cause": "TERMINAL_FAILURE", "done": ["book"]}),
    )
    assert (advanced["valid_until"], advanced["cause_category"]) == (None, None)
    assert (advanced["position"], advanced["direction"]) == (0, "COMPENSATE")


ASKED = ("flow:moved", {"to_state": "ESCALATED"})
RUNS = ("flow:moved", {"to_state": "EXECUTING"})


@pytest.mark.parametrize(
    ("entries", "at_rest"),
    [
        ((), None),
        ((RUNS,), None),
        ((RUNS, ASKED), "WITH_PERSON"),
        ((RUNS, ("intent:in_doubt", {}), ASKED), "IN_DOUBT"),
        ((RUNS, ("intent:in_doubt", {}), ASKED, RUNS), None),
        ((ASKED, ("intent:superseded", {}), RUNS), "CANCELLED"),
        ((("intent:cancelled", {}), ("flow:moved", {"to_state": "ABORTED"})), "CANCELLED"),
        ((RUNS, ("outcome:recorded", {"status": "COMPENSATED"})), "FAILED"),
        ((RUNS, ("outcome:recorded", {"status": "SUCCEEDED"}), ASKED), "DONE"),
    ],
)
def test_where_entries_leave_an_intent(entries: Any, at_rest: str | None) -> None:
    assert record_of(*entries).at_rest == at_rest


def test_a_step_that_the_intent_does_not_have_fits_no_row() -> None:
    moved = follow(("route:taken", {"action": "FALL_BACK", "to_step": "elsewhere"}))
    assert moved["position"] == -1
    unread = follow(("saga:dirtied", {"step": "1", "cause": "X", "done": ["1"]}))
    assert unread["position"] == 1
    stays = follow(("route:taken", {"action": "RE_ENGAGE", "to_step": None}))
    assert stays["position"] == 0


def test_an_entry_about_an_intent_of_another_flow_says_nothing() -> None:
    records: dict[str, intent_records.IntentRecord] = {}
    intent_records.follow(records, "intent:resumed", {"intent_id": "other", "lifted": []})
    assert records == {}
