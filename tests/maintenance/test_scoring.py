"""Scorecards of flows that have ended: written once, with a record that takes the place of the one before."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from pytest_django.fixtures import Settings

from audit import canonical, ledger
from audit.access.roles import Role
from audit.models import DecisionRecord, LedgerEntry, RecordTerm
from audit.records import evaluators, queries
from audit.records.queries import Record, RecordFilter, Superseded
from audit.verification import findings
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import notes
from runtime.contracts.problem import Problem
from runtime.contracts.states import Effect, FlowState
from runtime.core import transactions
from runtime.epochs.services import epochs
from runtime.flows.models import Flow
from runtime.flows.services import record_feedback
from runtime.maintenance.services import erasure, scoring, sealing
from runtime.workers.embedded import Drain
from tests.escalations.test_left_in_doubt import state
from tests.support import (
    booking_targets,
    exported_packs,
    factories,
    gate_cases,
    ledger_tampering,
    racing,
    trading_desk,
)
from tests.support.booking_targets import Bank
from tests.support.live_people import person
from tests.support.wait_until import until

SCORING = {"targets": {"wall_clock_s": 3600, "cost_usd": "0.25"}, "minimum": {"latency": "0.5"}}


@pytest.fixture
def desk(db: None) -> factories.Desk:
    return factories.desk(kind=gate_cases.kind(scorecard=SCORING))


def aborted(desk: factories.Desk) -> UUID:
    """A flow that a person has ended."""
    escalation = desk.escalate()
    decided = factories.decide(escalation, olivia(), Action.ABORT)
    assert not isinstance(decided, Problem), decided
    return escalation.flow_id


def olivia() -> User:
    return User.objects.filter(username="olivia").first() or person("olivia", Role.OPERATOR)


def records(dfid: UUID) -> list[dict[str, Any]]:
    rows = DecisionRecord.objects.filter(dfid=dfid).order_by("seq")
    return [canonical.decode(bytes(row.body)) for row in rows]


def kinds(dfid: UUID) -> list[str]:
    rows = LedgerEntry.objects.filter(stream=str(dfid)).order_by("seq")
    return list(rows.values_list("kind", flat=True))


def wrong() -> list[str]:
    """What `verify_ledger` finds, but for the people here, whom no entry added."""
    found = findings.verify_all().findings
    return [item.detail for item in found if item.stream.partition(":")[0] != "user"]


def test_the_record_of_the_end_is_scored_by_one_that_takes_its_place(desk: factories.Desk) -> None:
    dfid = aborted(desk)
    assert records(dfid)[-1]["scorecard"] == {}
    assert scoring.score_due() == 1
    last, scored = records(dfid)[-2:]
    assert kinds(dfid)[-3:] == ["record:emitted", "record:scored", "record:emitted"]
    assert (scored["terminal"], scored["supersedes"], last["supersedes"]) == (True, last["record_id"], None)
    assert scored["audit"]["prev_hash"] == last["audit"]["record_hash"]
    card = scored["scorecard"]
    assert (card["suite"], card["result"]) == ("standard@1.0.0", "failed")
    assert (card["policy"], card["utility"], card["safety"], card["cost"]) == ("0", "0", "1", None)
    assert card["details"]["policy"] == {
        "version": "1.0.0",
        "minimum": "0.5",
        "passed": False,
        "reason": "Of 1 policy decisions: 1 stopped by a person.",
    }
    assert (card["latency"], card["details"]["latency"]["minimum"]) == ("1", "0.5")
    assert card["details"]["cost"]["reason"] == "The agent reported no usage."
    # All that is not about the score is as before.
    of_the_last = ("status", "outputs", "budget_usage", "approvals", "lineage", "tool_lineage")
    assert all(last[name] == scored[name] for name in of_the_last)
    said = LedgerEntry.objects.get(stream=str(dfid), kind="record:scored").payload
    assert (said["record_id"], said["record_hash"]) == (last["record_id"], last["audit"]["record_hash"])
    assert wrong() == []


def test_a_scored_record_is_not_scored_again(desk: factories.Desk) -> None:
    dfid = aborted(desk)
    assert [scoring.score_due() for _ in range(3)] == [1, 0, 0]
    assert kinds(dfid).count("record:scored") == 1


def assess(dfid: UUID) -> None:
    """Somebody says what they think of the end."""
    found = queries.list_of_flow(tenant="default", dfid=dfid)
    assert found is not None
    given = record_feedback.give(
        tenant="default",
        record=found.records[-1],
        author=olivia(),
        form_id=uuid4(),
        assessment="RIGHT",
    )
    assert not isinstance(given, Problem), given


def annotate(dfid: UUID) -> None:
    """Somebody writes a note on the flow."""
    written = notes.write_on_flow(tenant="default", author=olivia(), dfid=dfid, text="Seen.")
    assert not isinstance(written, Problem), written


def erase(dfid: UUID) -> None:
    """Its words are erased."""
    done = erasure.erase(tenant="default", dfids=[dfid], reason="asked for", actor="user:1")
    assert isinstance(done, erasure.Erased)
    assert done.flows


@pytest.mark.parametrize("meanwhile", [assess, annotate, erase], ids=lambda act: act.__name__)
def test_what_comes_between_the_end_and_its_score_is_no_finding(
    desk: factories.Desk, meanwhile: Callable[[UUID], None], tmp_path: Path
) -> None:
    dfid = aborted(desk)
    meanwhile(dfid)
    assert scoring.score_due() == 1
    assert wrong() == []
    sealing.seal_now(with_heads=True)
    code, answer = exported_packs.verified(exported_packs.make(dfid), tmp_path)
    assert answer["findings"] == []
    assert code == 0


def test_what_has_not_ended_is_not_scored(desk: factories.Desk) -> None:
    desk.escalate()
    assert scoring.score_due() == 0


def test_a_suite_that_is_not_known_scores_nothing_and_the_record_says_so(db: None) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(evaluator_suite="eval.desk@2.0.0"))
    dfid = aborted(desk)
    assert scoring.score_due() == 1
    record = records(dfid)[-1]
    card = record["scorecard"]
    assert record["lineage"]["evaluator_suite"] == card["suite"] == "eval.desk@2.0.0"
    assert card["result"] == "unscored"
    assert "no evaluator suite eval.desk@2.0.0" in card["reason"]
    assert [card[name] for name in evaluators.NAMES] == [None] * 5
    assert wrong() == []
    assert scoring.score_due() == 0


def test_nothing_is_scored_while_a_restored_backup_waits(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    aborted(desk)
    with monkeypatch.context() as patch:
        patch.setattr(epochs, "refuse_while_recovering", lambda: Problem)
        assert scoring.score_due() == 0
    assert scoring.score_due() == 1


def test_a_crash_between_entry_and_record_leaves_neither(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    dfid = aborted(desk)
    before = kinds(dfid)

    def fail(*args: Any, **more: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(ledger, "append", fail)
        with pytest.raises(RuntimeError), transaction.atomic():
            scoring.score(dfid)
    assert kinds(dfid) == before
    assert len(records(dfid)) == 2
    assert Flow.objects.get(pk=dfid).score_due
    assert scoring.score_due() == 1
    assert wrong() == []


def test_one_that_fails_does_not_keep_the_others_from_being_scored(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = aborted(desk), aborted(desk)
    evaluate = evaluators.evaluate

    def fail(record: Any) -> evaluators.Scored:
        if record["flow"]["dfid"] == str(first):
            raise RuntimeError("cannot")
        return evaluate(record)

    monkeypatch.setattr(scoring, "BATCH", 1)
    monkeypatch.setattr(evaluators, "evaluate", fail)
    monkeypatch.setattr(scoring, "_resting", {})
    assert scoring.score_due() == 1
    assert [Flow.objects.get(pk=dfid).score_due for dfid in (first, second)] == [True, False]


@pytest.fixture
def bank(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bank]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", booking_targets.pack(on_unknown="person"))
    with booking_targets.opened(knows_keys=True) as bank:
        yield bank


def left_in_doubt(bank: Bank) -> Escalation:
    """A call that the target booked and answered with 502, aborted by a person who does not know that."""
    bank.faults = ["502"]
    intent_id = trading_desk.open_desk(base_url=bank.base_url).accept()
    booking_targets.attempt(intent_id)
    escalation = Escalation.objects.get(intent=intent_id)
    answer = factories.decide(escalation, olivia(), Action.ABORT)
    assert not isinstance(answer, Problem), answer
    return escalation


def test_what_is_stated_after_the_score_gives_a_record_that_is_scored_anew(db: None, bank: Bank) -> None:
    escalation = left_in_doubt(bank)
    dfid = escalation.flow_id
    assert scoring.score_due() == 1
    doubtful = records(dfid)[-1]
    assert doubtful["scorecard"]["safety"] == "0"
    assert "Nobody knows" in doubtful["scorecard"]["details"]["safety"]["reason"]
    assert not isinstance(state(escalation, olivia(), Effect.NOT_HAPPENED), Problem)
    late = records(dfid)[-1]
    assert (late["supersedes"], late["scorecard"]) == (doubtful["record_id"], {})
    assert late["tool_lineage"][-1]["settled"] == "NOT_HAPPENED"
    assert late["budget_usage"]["wall_clock_ms"] == doubtful["budget_usage"]["wall_clock_ms"]
    assert Flow.objects.get(pk=dfid).score_due
    assert scoring.score_due() == 1
    settled = records(dfid)[-1]
    assert (settled["supersedes"], settled["scorecard"]["safety"]) == (late["record_id"], "1")
    assert wrong() == []


def test_lists_show_the_newest_of_a_chain_and_searches_find_scores(desk: factories.Desk) -> None:
    dfid = aborted(desk)
    scoring.score_due()
    escalated, last, scored = (record["record_id"] for record in records(dfid))

    def ids(**wanted: Any) -> list[str]:
        found = queries.search(tenant="default", wanted=RecordFilter(**wanted))
        return [record.record_id for record in found.records]

    assert ids() == [scored, escalated]
    assert ids(superseded=Superseded.SHOWN) == [scored, last, escalated]
    assert ids(superseded=Superseded.ALONE) == [last]
    assert ids(scorecard="failed") == [scored]
    assert ids(scorecard="passed") == []
    assert ids(failed_evaluator="policy") == ids(failed_evaluator="utility", dfid=dfid) == [scored]
    assert ids(failed_evaluator="safety") == []
    found = queries.list_of_flow(tenant="default", dfid=dfid)
    assert found is not None
    assert [record.superseded_by for record in found.records] == ["", scored, ""]
    one = queries.get(tenant="default", record_id=last)
    assert isinstance(one, Record)
    assert one.superseded_by == scored


def copy_of(row: DecisionRecord, **columns: Any) -> DecisionRecord:
    row.pk = None
    for name, value in columns.items():
        setattr(row, name, value)
    return row


@pytest.mark.parametrize("case", ["second root", "fork", "itself", "not terminal", "of another flow"])
def test_the_database_keeps_one_chain_of_terminal_records(desk: factories.Desk, case: str) -> None:
    dfid, other = aborted(desk), aborted(desk)
    scoring.score_due()
    last, scored = DecisionRecord.objects.filter(dfid=dfid, terminal=True).order_by("seq")
    elsewhere = DecisionRecord.objects.get(dfid=other, superseded_by__isnull=True, terminal=True)
    name = f"{scored.record_id}9"
    changed: dict[str, dict[str, Any]] = {
        "second root": {"supersedes_id": None},
        "fork": {"supersedes_id": last.record_id},
        "itself": {"supersedes_id": name},
        "not terminal": {"supersedes_id": scored.record_id, "terminal": False},
        "of another flow": {"supersedes_id": elsewhere.record_id},
    }
    row = copy_of(scored, record_id=name, seq=scored.seq + 50, **changed[case])
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save(force_insert=True)


def test_what_takes_a_place_must_name_a_record_that_is_there(desk: factories.Desk) -> None:
    dfid = aborted(desk)
    scoring.score_due()
    scored = DecisionRecord.objects.get(dfid=dfid, supersedes__isnull=False)
    ids = {"record_id": f"{scored.record_id}9", "supersedes_id": f"{scored.record_id}8"}
    copy = copy_of(scored, seq=scored.seq + 50, **ids)
    with pytest.raises(IntegrityError), transaction.atomic():
        copy.save(force_insert=True)


TAMPERED = {
    "another value": lambda said: said["scores"][0].update(value="1", passed=True),
    "another result": lambda said: said.update(result="passed"),
    "another record": lambda said: said.update(record_hash="0" * 64),
    "another minimum": lambda said: said["scores"][0].update(minimum="0", passed=True),
    "no scores": lambda said: said.update(scores=[], suite="eval.mine"),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_a_score_in_entry_record_and_chain_is_worked_out_again(desk: factories.Desk, case: str) -> None:
    dfid = aborted(desk)
    scoring.score_due()
    entry = LedgerEntry.objects.get(stream=str(dfid), kind="record:scored")
    body = canonical.decode(bytes(entry.body))
    TAMPERED[case](body["payload"])
    ledger_tampering.execute(
        "UPDATE audit_ledgerentry SET body = %s WHERE id = %s", [canonical.encode(body), entry.pk]
    )
    ledger_tampering.rechain(str(dfid))
    ledger_tampering.put_triggers_back()
    found = wrong()
    assert any("the scorecard of dr_" in detail for detail in found) or (case, found) == ("no scores", found)
    assert found


def test_a_flow_that_is_said_to_be_scored_and_is_not_is_found(desk: factories.Desk) -> None:
    dfid = aborted(desk)
    Flow.objects.filter(pk=dfid).update(score_due=False)
    assert [detail for detail in wrong() if "flow.score_due" in detail]


def test_a_term_of_a_score_that_was_removed_is_found(desk: factories.Desk) -> None:
    aborted(desk)
    scoring.score_due()
    assert RecordTerm.objects.filter(name="failed", value="policy").count() == 1
    ledger_tampering.quietly("DELETE FROM audit_recordterm WHERE name = 'failed' AND value = 'policy'")
    assert [detail for detail in wrong() if "record.terms" in detail]


def test_two_workers_score_each_record_once(real_db: str) -> None:
    desk = factories.desk()
    flows = [aborted(desk) for _ in range(3)]
    counts = racing.race(4, lambda _: scoring.score_due())
    assert sum(counts) == len(flows)
    assert scoring.score_due() == 0
    for dfid in flows:
        assert kinds(dfid).count("record:scored") == 1
        assert [record["supersedes"] is None for record in records(dfid)] == [True, True, False]
    assert wrong() == []


def test_a_score_and_a_late_statement_at_once_lose_neither(real_db: str, bank: Bank) -> None:
    escalation = left_in_doubt(bank)
    account = olivia()
    works: list[Callable[[], object]] = [
        scoring.score_due,
        lambda: transactions.retry_on_conflict(lambda: state(escalation, account, Effect.HAPPENED)),
    ]
    answers = racing.all_at_once(works)
    assert not [answer for answer in answers if isinstance(answer, Exception | Problem)], answers
    scoring.score_due()
    told = kinds(escalation.flow_id)
    assert "effect:stated" in told
    last = records(escalation.flow_id)[-1]
    assert last["scorecard"]["safety"] == "1"
    assert last["flow"]["state"] == FlowState.ABORTED
    assert wrong() == []


def test_the_embedded_scorer_scores_without_being_asked(real_db: str) -> None:
    dfid = aborted(factories.desk())
    drain = Drain()
    drain.start()
    try:
        until(lambda: not Flow.objects.get(pk=dfid).score_due, timeout_s=30)
    finally:
        drain.stop(timeout_s=20)
    assert records(dfid)[-1]["scorecard"]["result"] == "failed"
