"""A run that replays all flows: counts, findings, cursor, lease, cancel, and what the ledger says of it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.core import clock, ids
from runtime.epochs.services import epochs
from runtime.flows.models import Flow, Verdict
from runtime.maintenance.models import ReplayFinding, ReplayRun
from runtime.maintenance.services import erasure, payloads, replay_runs
from runtime.proposals.queries import flow_replay
from tests.support import factories, ledger_tampering, worlds
from tests.verification import test_every_column as every_column

EQUAL, CHANGED, ERASED = range(3)


@dataclass(frozen=True)
class Flows:
    """Three flows by age: an equal one, one whose verdict was changed, one with an erased payload."""

    dfids: list[UUID]


def build() -> Flows:
    desk = factories.desk()
    flows = [desk.open() for _ in range(3)]
    for flow in flows[:2]:
        desk.propose(flow, params={})
    return Flows(sorted(flow.dfid for flow in flows))


world = worlds.shared(build)


@pytest.fixture
def flows(world: Flows, django_db_blocker: Any) -> Iterator[Flows]:
    """The flows after the changes."""
    with django_db_blocker.unblock(), transaction.atomic():
        Verdict.objects.filter(proposal__flow=world.dfids[CHANGED]).update(decision="ACCEPT")
        opened = LedgerEntry.objects.get(stream=str(world.dfids[ERASED]), kind="flow:opened")
        payloads.erase(
            tenant="default", commitment=opened.payload["trigger_commitment"], reason="asked", actor="user:1"
        )
        yield world
        transaction.set_rollback(True)


def started(**period: Any) -> ReplayRun:
    answer = replay_runs.start(tenant="default", actor="user:7", **period)
    assert isinstance(answer, ReplayRun), answer
    return answer


def counts(run: ReplayRun) -> tuple[int, int, int, int]:
    run.refresh_from_db()
    return run.equal, run.different, run.erased, run.failed


def wrong() -> list[str]:
    """What `verify_ledger` finds of runs."""
    return [
        item.detail
        for item in findings.verify_all().findings
        if "replay" in item.detail or "findings" in item.detail
    ]


def entries() -> list[dict[str, Any]]:
    rows = LedgerEntry.objects.filter(kind__startswith="replay:").order_by("id")
    return [row.payload for row in rows]


def test_counts_every_flow_and_keeps_what_differs(flows: Flows) -> None:
    run = started()
    assert (run.flows, run.state) == (3, "RUNNING")
    assert replay_runs.work_due() == 3
    assert counts(run) == (1, 1, 1, 0)
    assert (run.state, run.ended_by, run.lease_owner) == ("DONE", "system", "")
    found = run.findings.get()
    assert (found.dfid, found.result, found.change) == (
        flows.dfids[CHANGED], "DIFFERENT", "tamper_detected",
    )  # fmt: skip
    assert (found.path, found.recorded, found.found) == ("/verdict/decision", '"REJECT"', '"ACCEPT"')
    begun, ended = entries()
    assert (begun["flows"], begun["last_dfid"]) == (3, str(flows.dfids[-1]))
    assert (ended["equal"], ended["different"], ended["erased"], ended["findings"]) == (1, 1, 1, 1)
    assert ended["results_digest"] == run.results_digest != "0" * 64
    assert wrong() == []
    assert replay_runs.work_due() == 0


def test_the_digest_is_the_same_in_one_batch_and_in_many(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = started()
    replay_runs.work_due()
    monkeypatch.setattr(replay_runs, "BATCH", 1)
    second = started()
    replay_runs.work_due()
    assert counts(first) == counts(second)
    assert first.results_digest == second.results_digest


def test_goes_on_after_a_crash_behind_the_last_flow_that_is_counted(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = started()
    replay_runs.work_due()
    run, replayed = started(), list[UUID]()
    real = flow_replay.replay

    def crash(**known: Any) -> Any:
        if known["dfid"] == flows.dfids[CHANGED] and not replayed.count(known["dfid"]):
            replayed.append(known["dfid"])
            raise KeyboardInterrupt
        replayed.append(known["dfid"])
        return real(**known)

    monkeypatch.setattr(replay_runs, "BATCH", 1)
    with monkeypatch.context() as patch:
        patch.setattr(flow_replay, "replay", crash)
        # A process that is killed gives nothing back.
        patch.setattr(replay_runs, "_give_back", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            replay_runs.work_due()
        assert counts(run) == (1, 0, 0, 0)
        assert replay_runs.work_due() == 0, "the lease holds until it ends"
        ReplayRun.objects.filter(pk=run.pk).update(lease_until=clock.now() - timedelta(seconds=1))
        assert replay_runs.work_due() == 2
    assert replayed == [flows.dfids[EQUAL], flows.dfids[CHANGED], flows.dfids[CHANGED], flows.dfids[ERASED]]
    assert counts(run) == counts(whole) == (1, 1, 1, 0)
    assert run.results_digest == whole.results_digest
    assert wrong() == []


def test_one_runs_at_a_time(flows: Flows) -> None:
    run = started()
    again = replay_runs.start(tenant="default", actor="user:8")
    assert isinstance(again, Problem)
    assert again.code == "REPLAY_RUN_NOT_IN_THAT_STATE"
    with pytest.raises(DatabaseError), transaction.atomic():
        ReplayRun.objects.create(
            cursor=run.cursor, last_dfid=run.last_dfid, flows=1, started_by="x", started_at=clock.now()
        )


def test_a_cancelled_run_keeps_its_counts_and_takes_no_more(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, real = started(), flow_replay.replay

    def cancel_meanwhile(**known: Any) -> Any:
        if known["dfid"] == flows.dfids[CHANGED]:
            assert isinstance(replay_runs.cancel(tenant="default", run_id=run.pk, actor="user:9"), ReplayRun)
        return real(**known)

    monkeypatch.setattr(replay_runs, "BATCH", 1)
    monkeypatch.setattr(flow_replay, "replay", cancel_meanwhile)
    assert replay_runs.work_due() == 1
    assert counts(run) == (1, 0, 0, 0)
    assert (run.state, run.ended_by, run.findings.count()) == ("CANCELLED", "user:9", 0)
    assert (entries()[-1]["state"], entries()[-1]["equal"]) == ("CANCELLED", 1)
    assert wrong() == []
    again = replay_runs.cancel(tenant="default", run_id=run.pk, actor="user:9")
    assert isinstance(again, Problem)
    assert again.status == 409
    unknown = replay_runs.cancel(tenant="default", run_id=ids.new_id(), actor="user:9")
    assert isinstance(unknown, Problem)
    assert unknown.status == 404


def test_takes_the_flows_of_a_period(flows: Flows) -> None:
    at = clock.now()
    early = started(until=at - timedelta(days=1))
    replay_runs.work_due()
    assert (early.flows, counts(early)) == (0, (0, 0, 0, 0))
    late = started(since=at - timedelta(days=1), until=at + timedelta(days=1))
    replay_runs.work_due()
    assert counts(late) == (1, 1, 1, 0)
    assert wrong() == []
    assert isinstance(replay_runs.start(tenant="default", actor="user:7", since=at, until=at), Problem)


def test_a_flow_that_only_entries_name_is_replayed_too(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_replay, "count_flows_between", lambda **_: 0)
    with monkeypatch.context() as patch:
        patch.setattr(Flow.objects, "of", lambda _: Flow.objects.none())
        run = started()
        assert replay_runs.work_due() == 3
    assert sum(counts(run)) == 3


def test_one_flow_whose_replay_fails_does_not_end_the_run(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = flow_replay.replay

    def fail(**known: Any) -> Any:
        if known["dfid"] == flows.dfids[EQUAL]:
            raise RuntimeError
        return real(**known)

    monkeypatch.setattr(flow_replay, "replay", fail)
    run = started()
    replay_runs.work_due()
    assert counts(run) == (0, 1, 1, 1)
    failed = run.findings.get(result="FAILED")
    assert (failed.dfid, failed.change) == (flows.dfids[EQUAL], "RuntimeError")


def test_what_is_kept_is_bounded_and_everything_is_counted(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    Verdict.objects.filter(proposal__flow=flows.dfids[EQUAL]).update(decision="ACCEPT")
    monkeypatch.setattr(replay_runs, "MOST_FINDINGS", 1)
    run = started()
    replay_runs.work_due()
    assert counts(run) == (0, 2, 1, 0)
    assert run.findings.count() == 1
    assert wrong() == []


def test_an_erasure_takes_the_values_and_leaves_the_place(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started()
    replay_runs.work_due()
    monkeypatch.setattr(erasure, "why_kept", lambda _: "")
    Flow.objects.filter(pk=flows.dfids[CHANGED]).update(state="ABORTED", ended_at=clock.now())
    erasure.erase(tenant="default", dfids=[flows.dfids[CHANGED]], reason="asked", actor="user:1")
    found = run.findings.get()
    assert (found.path, found.recorded, found.found) == ("/verdict/decision", "", "")
    assert wrong() == []


def test_values_of_a_flow_that_was_erased_meanwhile_are_not_kept(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = flow_replay.replay

    def erase_meanwhile(**known: Any) -> Any:
        found = real(**known)
        Flow.objects.filter(pk=known["dfid"]).update(
            state="ABORTED", ended_at=clock.now(), erased_at=clock.now()
        )
        return found

    monkeypatch.setattr(flow_replay, "replay", erase_meanwhile)
    run = started()
    replay_runs.work_due()
    assert (run.findings.get().recorded, run.findings.get().found) == ("", "")


TAMPERED: dict[str, Callable[[ReplayRun], Any]] = {
    "counts": lambda run: ReplayRun.objects.update(different=0, equal=2),
    "digest": lambda run: ReplayRun.objects.update(results_digest="f" * 64),
    "who started it": lambda run: ReplayRun.objects.update(started_by="user:1"),
    "the period": lambda run: ReplayRun.objects.update(until=clock.now()),
    "a cancelled run": lambda run: ReplayRun.objects.update(state="CANCELLED"),
    "the place": lambda run: ReplayFinding.objects.update(path="/elsewhere"),
    "a finding is gone": lambda run: ReplayFinding.objects.all().delete(),
    "the run is gone": lambda run: (ReplayFinding.objects.all().delete(), ReplayRun.objects.all().delete()),
    "a run too many": lambda run: ReplayRun.objects.create(
        cursor=run.cursor, last_dfid=run.cursor, flows=0, started_by="x", started_at=clock.now()
    ),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_verify_ledger_finds_a_run_that_was_changed(flows: Flows, how: str) -> None:
    run = started()
    replay_runs.work_due()
    run.refresh_from_db()
    TAMPERED[how](run)
    assert wrong()


@pytest.mark.parametrize("model", [ReplayRun, ReplayFinding])
def test_a_change_of_any_column_is_found_or_said_not_to_be(
    flows: Flows, model: type[ReplayRun] | type[ReplayFinding]
) -> None:
    started(since=clock.now() - timedelta(days=1), until=clock.now() + timedelta(days=1))
    replay_runs.work_due()
    unseen = []
    for field in model._meta.concrete_fields:
        if field.primary_key or every_column.is_excepted(model, field.name):
            continue
        with transaction.atomic():
            how = every_column.change(model, field)
            if how == "no row" or (how == "changed" and not wrong()):
                unseen.append(f"{field.name}: {how}")
            transaction.set_rollback(True)
    assert unseen == []


def test_verify_ledger_finds_a_run_that_no_longer_runs_and_never_ended(flows: Flows) -> None:
    started()
    assert wrong() == []
    ReplayRun.objects.update(state="DONE", ended_by="system", ended_at=clock.now())
    assert wrong()


def command(*arguments: str) -> tuple[str, str]:
    printed, said = StringIO(), StringIO()
    try:
        call_command("replay", *arguments, stdout=printed, stderr=said)
    except CommandError as error:
        return printed.getvalue(), f"{error.returncode} {error}"
    return printed.getvalue(), said.getvalue()


def test_the_command_makes_a_run_or_goes_on_with_one(flows: Flows) -> None:
    run = started()
    words = "DONE: 1 equal, 1 different, 1 erased, 0 failed. The first: flow"
    assert command("--all", "--record")[1] == f"1 {words} {flows.dfids[CHANGED]}."
    assert counts(run) == (1, 1, 1, 0)
    Verdict.objects.filter(proposal__flow=flows.dfids[CHANGED]).update(decision="REJECT")
    printed, said = command("--all", "--record", "--json")
    assert said == "3 of 3 flows\n"
    answer = json.loads(printed)
    assert (answer["state"], answer["equal"], answer["different"]) == ("DONE", 2, 0)
    assert ReplayRun.objects.count() == 2


def test_the_command_takes_a_period_without_writing_anything(flows: Flows) -> None:
    before = LedgerEntry.objects.count()
    assert command("--all", "--until", "2020-01-01")[0] == "Replay equal: 0 verdicts of 0 flows.\n"
    assert command("--all", "--since", "2020-01-01")[1].startswith("1 1 of 3 flows differ.")
    assert command("--all", "--since", "soon")[1].startswith("2 --since soon is neither a date")
    assert command("--since", "2020-01-01", str(flows.dfids[0]))[1].startswith("2 --since, --until and --rec")
    assert LedgerEntry.objects.count() == before
    assert not ReplayRun.objects.exists()


def test_a_run_waits_for_the_end_of_a_recovery(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started()
    refused = object()
    monkeypatch.setattr(epochs, "refuse_while_recovering", lambda: refused)
    assert replay_runs.work_due() == 0
    assert counts(run) == (0, 0, 0, 0)
    assert replay_runs.start(tenant="default", actor="user:7") is refused


def test_a_tampered_entry_is_a_finding_of_the_run(flows: Flows) -> None:
    ledger_tampering.execute(
        "UPDATE audit_ledgerentry SET actor = %s WHERE stream = %s AND seq = 1",
        ["user:99", str(flows.dfids[EQUAL])],
    )
    run = started()
    replay_runs.work_due()
    assert counts(run) == (0, 2, 1, 0)
    assert run.findings.get(dfid=flows.dfids[EQUAL]).change == "tamper_detected"
