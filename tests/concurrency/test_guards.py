"""A guard and the workers at one moment: a call is made before the stop or never, and the flag says which."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contracts.guard import EmergencyStop, GuardRunState
from runtime.contracts.states import AgentStatus, AttemptState, IntentState
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Attempt, Intent
from runtime.guards.models import GuardRun, Review
from runtime.guards.services import guard_runs
from runtime.registry.services import agents
from tests.support import factories, guard_rounds, misbehaving_targets, racing

ROUNDS = 8
WORKERS = 6


@pytest.fixture
def target(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, b'{"order_id":"o1"}')) as running:
        yield running


def desk_at(base_url: str) -> factories.Desk:
    desk = factories.desk()
    factories.configure_target(base_url=base_url)
    return desk


def restore(desk: factories.Desk) -> None:
    agents.set_status(
        tenant=factories.TENANT,
        agent_id=desk.agent.agent_id,
        status=AgentStatus.ACTIVE,
        reason="looked at it",
        actor="user:1",
    )


def test_a_claim_and_an_emergency_stop_never_both_have_their_way(
    real_db: str, target: misbehaving_targets.StandIn
) -> None:
    desk = desk_at(target.base_url)
    guard_rounds.configure(emergency_stop=True, stop_confidence="0.9")
    for _ in range(ROUNDS):
        target.seen.clear()
        guard_rounds.propose(desk)
        run, intent = GuardRun.objects.latest("pk"), Intent.objects.latest("intent_id")

        def work(number: int, run: GuardRun = run, intent: Intent = intent) -> object:
            if number == 0:
                return guard_runs.run(run.pk)
            return attempting.attempt(intent.pk, owner="worker").status

        flagged, status = racing.race(2, work)
        assert flagged == GuardRunState.FLAGGED
        assert desk.again().status == AgentStatus.SUSPENDED
        review = Review.objects.get(run=run)
        match review.emergency_stop:
            case EmergencyStop.HELD:
                assert (status, len(target.seen)) == (AttemptStatus.HELD, 0)
            case EmergencyStop.UNDER_WAY:
                # Claimed before: its call is not touched, unless its own second look came after the stop.
                called = Attempt.objects.get(intent=intent).state == AttemptState.SUCCEEDED
                assert (status, len(target.seen)) == (
                    (AttemptStatus.SUCCEEDED, 1) if called else (AttemptStatus.HELD, 0)
                )
            case EmergencyStop.ENDED:
                assert (status, len(target.seen)) == (AttemptStatus.SUCCEEDED, 1)
            case _:
                raise AssertionError(review.emergency_stop)
        # And never afterwards, while nobody has restored the agent.
        before = len(target.seen)
        attempting.attempt(intent.pk, owner="worker-2")
        assert len(target.seen) == before
        intent.refresh_from_db()
        assert intent.state == (IntentState.DONE if before else IntentState.PENDING)
        restore(desk)
    assert isinstance(verify_database(), Whole)


def test_many_workers_on_one_run_record_it_once(real_db: str, target: misbehaving_targets.StandIn) -> None:
    desk = desk_at(target.base_url)
    guard_rounds.configure()
    for _ in range(ROUNDS):
        answer = guard_rounds.propose(desk)
        run = GuardRun.objects.latest("pk")
        ends = racing.race(WORKERS, lambda number, run=run: guard_runs.run(run.pk))  # type: ignore[misc]
        assert ends.count(GuardRunState.FLAGGED) == 1
        assert set(ends) == {GuardRunState.FLAGGED, None}
        assert Review.objects.filter(run=run).count() == 1
        stream = LedgerEntry.objects.filter(stream=answer["dfid"], kind="review:flagged")
        assert stream.count() == 1
    assert isinstance(verify_database(), Whole)
