"""A run under real threads: started twice at once it is one, and two workers count each flow once."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contracts.problem import Problem
from runtime.maintenance.models import ReplayRun
from runtime.maintenance.services import replay_runs
from runtime.proposals.queries import flow_replay
from runtime.workers.embedded import Drain
from tests.support import factories, racing
from tests.support.wait_until import until

AT_ONCE = 4
FLOWS = 6


@pytest.fixture
def flows(real_db: str) -> list[UUID]:
    desk = factories.desk()
    return [desk.open().dfid for _ in range(FLOWS)]


def start(_: int = 0) -> ReplayRun | Problem:
    return replay_runs.start(tenant="default", actor="user:7")


def test_of_several_that_start_at_once_one_does(flows: list[UUID]) -> None:
    answers = racing.race(AT_ONCE, start)
    assert sum(isinstance(answer, ReplayRun) for answer in answers) == 1
    assert ReplayRun.objects.count() == 1
    assert LedgerEntry.objects.filter(kind="replay:run_started").count() == 1


def test_several_workers_count_each_flow_once(flows: list[UUID], monkeypatch: pytest.MonkeyPatch) -> None:
    replayed, real = Counter[UUID](), flow_replay.replay

    def replay(**known: Any) -> Any:
        replayed[known["dfid"]] += 1
        return real(**known)

    monkeypatch.setattr(flow_replay, "replay", replay)
    monkeypatch.setattr(replay_runs, "BATCH", 1)
    run = start()
    assert isinstance(run, ReplayRun)
    assert sum(racing.race(AT_ONCE, lambda _: replay_runs.work_due())) == FLOWS
    run.refresh_from_db()
    assert (run.state, run.equal) == ("DONE", FLOWS)
    assert replayed == Counter(flows)
    assert LedgerEntry.objects.filter(kind="replay:run_ended").count() == 1
    assert isinstance(verify_database(), Whole)


def test_a_cancel_beside_workers_leaves_one_end(flows: list[UUID], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_runs, "BATCH", 1)
    run = start()
    assert isinstance(run, ReplayRun)

    def work_or_cancel(number: int) -> None:
        if number:
            replay_runs.work_due()
        else:
            replay_runs.cancel(tenant="default", run_id=run.pk, actor="user:9")

    racing.race(AT_ONCE, work_or_cancel)
    run.refresh_from_db()
    ended = LedgerEntry.objects.get(kind="replay:run_ended").payload
    assert (ended["state"], ended["equal"]) == (run.state, run.equal)
    assert ended["results_digest"] == run.results_digest


def test_the_embedded_worker_finishes_a_run_without_being_asked(flows: list[UUID]) -> None:
    run = start()
    assert isinstance(run, ReplayRun)
    drain = Drain()
    drain.start()
    try:
        until(lambda: ReplayRun.objects.get(pk=run.pk).state == "DONE")
    finally:
        drain.stop(timeout_s=10)
    assert ReplayRun.objects.get(pk=run.pk).equal == FLOWS
