"""A guard looks after the verdict, is heard once, and never touches what it looks at."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError
from pytest_django.fixtures import Settings

from audit import canonical
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contracts.guard import GuardResult, GuardRunState
from runtime.core import clock
from runtime.execution.services import guard_webhook
from runtime.execution.services.guard_webhook import Unanswered
from runtime.flows.models import Flow, Verdict
from runtime.guards.models import Guard, GuardRun, Review
from runtime.guards.queries import due_runs
from runtime.guards.services import guard_config, guard_runs
from runtime.proposals.queries import verdict_replay
from runtime.stops.services import call_gate, stops
from tests.support import factories, gate_cases, guard_rounds, misbehaving_targets

pytestmark = pytest.mark.django_db
SILENT = b'{"flag":false,"confidence":"0.1","message":""}'
SAYS_YES = b'{"flag":true,"confidence":"0.97","message":"It says the opposite."}'


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk()


def judge(base_url: str) -> None:
    factories.configure_target("judge", base_url=base_url)


def ask_webhook(
    desk: factories.Desk, settings: Settings, answering: misbehaving_targets.Answering
) -> misbehaving_targets.StandIn:
    """One webhook guard asked about one proposal, run once against a target that answers so."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(answering) as running:
        judge(running.base_url)
        guard_rounds.configure(**guard_rounds.WEBHOOK)
        guard_rounds.propose(desk)
        guard_rounds.run_all()
    return running


def test_without_a_guard_nothing_is_asked(desk: factories.Desk) -> None:
    guard_rounds.propose(desk)
    assert not GuardRun.objects.exists()


def test_a_guard_is_asked_in_the_transaction_of_the_verdict(desk: factories.Desk) -> None:
    guard = guard_rounds.configure()
    answer = guard_rounds.propose(desk)
    run = GuardRun.objects.get()
    assert (run.guard, str(run.proposal_id), run.state) == (guard, answer["proposal_id"], "PENDING")
    assert due_runs.list_due(at=clock.now(), limit=5) == [(run.pk, run.next_at)]


@pytest.mark.parametrize(
    ("fields", "changes", "asked"),
    [
        ({"policy_kinds": ["ADJUST_POSITION"]}, {}, 1),
        ({"policy_kinds": ["TRANSFER_FUNDS"]}, {}, 0),
        ({}, {"explain": None}, 0),
    ],
)
def test_a_guard_looks_at_its_kinds_and_at_claims_only(
    desk: factories.Desk, fields: dict[str, Any], changes: dict[str, Any], asked: int
) -> None:
    guard_rounds.configure(**fields)
    guard_rounds.propose(desk, **changes)
    assert GuardRun.objects.count() == asked


def test_a_guard_that_is_off_is_not_asked(desk: factories.Desk) -> None:
    guard_rounds.configure()
    guard_config.switch(
        tenant="default", guard_id="explain-fits", enabled=False, reason="noisy", actor="user:1"
    )
    guard_rounds.propose(desk)
    assert not GuardRun.objects.exists()


def test_a_fitting_explanation_is_clear(desk: factories.Desk) -> None:
    guard_rounds.configure()
    guard_rounds.propose(desk, explain="Buying 5 shares of AAPL for $947.50.")
    assert guard_rounds.run_all() == [GuardRunState.CLEAR]
    run = GuardRun.objects.get()
    assert GuardResult.from_bytes(bytes(run.result or b"")).findings == ()
    assert run.guard_digest == run.guard.digest
    assert not Review.objects.exists()
    assert guard_rounds.run_all() == []


def test_a_flag_opens_a_review_and_changes_nothing_else(desk: factories.Desk) -> None:
    guard_rounds.configure()
    answer = guard_rounds.propose(desk)
    before = Flow.objects.get(dfid=answer["dfid"]).state
    assert guard_rounds.run_all() == [GuardRunState.FLAGGED]
    review = Review.objects.get()
    found = canonical.decode(bytes(review.findings))
    assert [item["code"] for item in found] == ["ACTION_OPPOSED", "OTHER_SYMBOL"]
    assert (review.confidence_bps, review.emergency_stop, review.agent_suspended) == (
        9500,
        "NOT_ASKED",
        False,
    )
    assert Flow.objects.get(dfid=answer["dfid"]).state == before
    assert desk.again().status == "ACTIVE"
    entry = LedgerEntry.objects.get(stream=answer["dfid"], kind="review:flagged")
    assert (entry.actor, entry.payload["confidence"]) == ("guard:explain-fits", "0.95")
    assert "selling" not in str(entry.payload)
    assert isinstance(verify_database(), Whole)
    assert isinstance(verdict_replay.replay(), verdict_replay.Equal)


def test_a_rejected_proposal_is_looked_at_too(desk: factories.Desk) -> None:
    guard_rounds.configure()
    answer = guard_rounds.propose(desk, params={**gate_cases.PARAMS, "quantity": -1})
    assert answer["verdict"] == "REJECT"
    assert guard_rounds.run_all() == [GuardRunState.FLAGGED]


def test_another_choice_of_the_schema_is_surer_than_a_symbol(desk: factories.Desk) -> None:
    schema = {**gate_cases.KIND["params_schema"]["properties"], "symbol": {"enum": ["AAPL", "MSFT"]}}
    whole = {**gate_cases.KIND["params_schema"], "properties": schema}
    factories.policy_kind(gate_cases.kind(version="1.3.0", params_schema=whole))
    guard_rounds.configure()
    guard_rounds.propose(desk, explain="MSFT is strong.")
    guard_rounds.run_all()
    assert Review.objects.get().confidence_bps == 8000


def test_a_run_that_is_not_due_is_left(desk: factories.Desk) -> None:
    guard_rounds.configure()
    guard_rounds.propose(desk)
    run = GuardRun.objects.get()
    GuardRun.objects.update(next_at=clock.now() + timedelta(seconds=60))
    assert guard_runs.run(run.pk) is None
    assert guard_runs.run(0) is None


def test_a_run_of_a_guard_that_was_switched_off_meanwhile_ends(desk: factories.Desk) -> None:
    guard_rounds.configure()
    answer = guard_rounds.propose(desk)
    Guard.objects.update(enabled=False)
    assert guard_rounds.run_all() == [GuardRunState.FAILED]
    assert "switched off" in GuardRun.objects.get().detail
    assert LedgerEntry.objects.filter(stream=answer["dfid"], kind="guard:failed").count() == 1


def test_a_run_whose_workers_all_died_ends_as_failed(desk: factories.Desk) -> None:
    guard_rounds.configure()
    guard_rounds.propose(desk)
    GuardRun.objects.update(tries=guard_runs.MAX_TRIES)
    assert guard_rounds.run_all() == [GuardRunState.FAILED]
    assert "did not report" in GuardRun.objects.get().detail


def test_a_second_report_of_one_run_changes_nothing(desk: factories.Desk) -> None:
    """Its first worker was slow, and somebody else has taken the run again: recorded once."""
    guard_rounds.configure()
    guard_rounds.propose(desk)
    taken = guard_runs._take(GuardRun.objects.get().pk)
    assert isinstance(taken, guard_runs.TakenRun)
    result = guard_runs._look(taken)
    assert isinstance(result, GuardResult)
    assert guard_runs._record(taken, result) == GuardRunState.FLAGGED
    assert guard_runs._record(taken, result) is None
    assert guard_runs._put_off(taken, Unanswered(why="late")) is None
    assert Review.objects.count() == 1


def test_a_webhook_is_told_what_was_proposed_and_heard(desk: factories.Desk, settings: Settings) -> None:
    target = ask_webhook(desk, settings, misbehaving_targets.answer(200, SAYS_YES))
    asked = misbehaving_targets.as_json(target.seen[0].body)
    verdict = Verdict.objects.get()
    assert asked == {
        "dfid": str(verdict.proposal.flow_id),
        "proposal_id": str(verdict.proposal_id),
        "policy_kind": "ADJUST_POSITION",
        "params": gate_cases.PARAMS,
        "explain": guard_rounds.OPPOSITE,
        "verdict": "ACCEPT",
    }
    assert (target.seen[0].method, target.seen[0].path) == ("POST", "/")
    assert canonical.encode(asked) == target.seen[0].body
    review = Review.objects.get()
    assert review.confidence_bps == 9700
    assert canonical.decode(bytes(review.findings))[0]["message"] == "It says the opposite."


def test_a_webhook_that_finds_nothing_is_clear(desk: factories.Desk, settings: Settings) -> None:
    ask_webhook(desk, settings, misbehaving_targets.answer(200, SILENT))
    assert GuardRun.objects.get().state == GuardRunState.CLEAR


@pytest.mark.parametrize(
    "answering",
    [
        misbehaving_targets.answer(500),
        misbehaving_targets.answer(302, headers={"Location": "/"}),
        misbehaving_targets.drop,
        misbehaving_targets.answer(200, b"{}"),
        misbehaving_targets.answer(200, b'{"flag":"yes","confidence":"0.97","message":""}'),
        misbehaving_targets.answer(200, b'{"flag":true,"confidence":0.97,"message":""}'),
        misbehaving_targets.answer(200, b'{"flag":true,"confidence":"1.01","message":""}'),
        misbehaving_targets.answer(200, b'{"flag":true,"confidence":"0.97","message":"","extra":1}'),
    ],
)
def test_failure_and_rubbish_are_tried_again_a_few_times_and_never_flag(
    desk: factories.Desk, settings: Settings, answering: misbehaving_targets.Answering
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(answering) as target:
        judge(target.base_url)
        guard_rounds.configure(**guard_rounds.WEBHOOK)
        answer = guard_rounds.propose(desk)
        ends = [guard_rounds.run_all() for _ in range(guard_runs.MAX_TRIES + 1)]
        assert len(target.seen) == guard_runs.MAX_TRIES
        assert len({seen.headers["Idempotency-Key"] for seen in target.seen}) == 1
    assert ends == [[GuardRunState.PENDING], [GuardRunState.PENDING], [GuardRunState.FAILED], []]
    assert not Review.objects.exists()
    failed = LedgerEntry.objects.get(stream=answer["dfid"], kind="guard:failed")
    assert failed.payload["tries"] == guard_runs.MAX_TRIES
    assert isinstance(verify_database(), Whole)


def test_a_webhook_without_its_target_fails(desk: factories.Desk) -> None:
    guard_rounds.configure(**guard_rounds.WEBHOOK)
    guard_rounds.propose(desk)
    assert guard_rounds.run_all() == [GuardRunState.PENDING]
    assert GuardRun.objects.get().detail == "there is no target named judge"


def test_nothing_is_called_while_everything_is_stopped(desk: factories.Desk) -> None:
    guard_rounds.configure(**guard_rounds.WEBHOOK)
    guard_rounds.propose(desk)
    stops.stop_all(tenant="default", actor="user:1", reason="drill")
    assert due_runs.list_due(at=clock.now(), limit=5) == []
    assert guard_rounds.run_all() == [None]
    assert GuardRun.objects.get().tries == 0


def test_a_question_that_a_stop_overtakes_is_not_asked_and_was_no_try(
    desk: factories.Desk, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    real = guard_webhook.consult

    def stop_first(**asked: Any) -> Any:
        stops.stop_all(tenant="default", actor="user:1", reason="drill")
        return real(**asked)

    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, SILENT)) as target:
        judge(target.base_url)
        guard_rounds.configure(**guard_rounds.WEBHOOK)
        guard_rounds.propose(desk)
        monkeypatch.setattr(guard_webhook, "consult", stop_first)
        assert guard_rounds.run_all() == [GuardRunState.PENDING]
        assert target.seen == []
        row = GuardRun.objects.get()
        assert (row.tries, row.detail) == (0, "SYSTEM_STOPPED")

        monkeypatch.setattr(guard_webhook, "consult", real)
        stops.resume_all(tenant="default", actor="user:1")
        assert guard_rounds.run_all() == [GuardRunState.CLEAR]
        assert len(target.seen) == 1


@pytest.mark.parametrize("failure", [OperationalError, InterfaceError])
def test_a_question_whose_database_fails_is_tried_again(
    desk: factories.Desk, settings: Settings, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    """Before its first byte that is no try; after it the target may have it, which has no effect."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    real = call_gate.asking

    @contextmanager
    def lose_commit(*, tenant: str) -> Iterator[None]:
        with real(tenant=tenant):
            yield
        raise failure("the commit was lost")

    def no_turn(_: str) -> None:
        raise failure("no turn")

    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, SILENT)) as target:
        judge(target.base_url)
        guard_rounds.configure(**guard_rounds.WEBHOOK)
        guard_rounds.propose(desk)
        monkeypatch.setattr(call_gate, "asking", lose_commit)
        assert guard_rounds.run_all() == [GuardRunState.PENDING]
        # It counts as a try; whether the target read it before the connection was dropped, nobody knows.
        assert GuardRun.objects.get().tries == 1
        monkeypatch.setattr(call_gate, "asking", real)
        monkeypatch.setattr(call_gate, "_share", no_turn)
        with pytest.raises(call_gate.ClosedError, match="DATABASE_BUSY"), call_gate.asking(tenant="default"):
            pass


def test_a_flow_that_has_ended_is_flagged_and_stays_as_it_is(desk: factories.Desk) -> None:
    guard_rounds.configure()
    answer = guard_rounds.propose(desk)
    Flow.objects.filter(dfid=answer["dfid"]).update(state="CLOSED", ended_at=clock.now())
    assert guard_rounds.run_all() == [GuardRunState.FLAGGED]
    assert Flow.objects.get(dfid=answer["dfid"]).state == "CLOSED"
