"""A review waits for a person; an emergency stop does not."""

import logging
from uuid import uuid4

import pytest

from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contexts.services import agent_events
from runtime.contracts.guard import ReviewResult
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus, IntentState
from runtime.core import transactions
from runtime.execution.services import claiming
from runtime.flows.models import Intent
from runtime.flows.queries import due_intents
from runtime.guards.models import Guard, Review
from runtime.guards.services import guard_config, reviews
from runtime.registry.models import Agent
from runtime.registry.services import agents
from tests.support import factories, guard_rounds

pytestmark = pytest.mark.django_db
STOPS = {"emergency_stop": True, "stop_confidence": "0.95"}


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk()


def close(review: Review, result: ReviewResult = ReviewResult.CONFIRMED) -> Review | Problem:
    return reviews.close(
        tenant="default", review_id=review.pk, result=result, note="It said sell.", actor="user:7"
    )


def test_a_person_closes_a_review_once(desk: factories.Desk) -> None:
    guard_rounds.configure()
    review = guard_rounds.flagged(desk)
    closed = close(review)
    assert isinstance(closed, Review)
    assert (closed.state, closed.result, closed.reviewed_by) == ("REVIEWED", "CONFIRMED", "user:7")
    again = close(review, ReviewResult.FALSE_ALARM)
    assert isinstance(again, Problem)
    assert (again.status, again.code) == (409, "REVIEW_CLOSED")
    entry = LedgerEntry.objects.get(kind="review:closed")
    assert (entry.actor, entry.payload["result"]) == ("user:7", "CONFIRMED")
    assert isinstance(verify_database(), Whole)


def test_a_review_of_nobody_or_of_another_tenant_is_not_found(desk: factories.Desk) -> None:
    guard_rounds.configure()
    review = guard_rounds.flagged(desk)
    for tenant, review_id in (("default", uuid4()), ("other", review.pk)):
        answer = reviews.close(
            tenant=tenant, review_id=review_id, result=ReviewResult.CONFIRMED, note="x", actor="user:7"
        )
        assert isinstance(answer, Problem)
        assert answer.status == 404


def test_every_flag_is_logged(
    desk: factories.Desk,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: object,
) -> None:
    guard_rounds.configure()
    with caplog.at_level(logging.WARNING), django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        review = guard_rounds.flagged(desk)
    assert f"review {review.pk}, confidence 0.95" in caplog.text


def test_a_sure_emergency_guard_suspends_the_agent_and_holds_its_intent(desk: factories.Desk) -> None:
    agent_events.begin(agent=desk.agent)
    guard_rounds.configure(**STOPS)
    review = guard_rounds.flagged(desk)
    assert (review.emergency_stop, review.agent_suspended) == ("HELD", True)
    assert desk.again().status == AgentStatus.SUSPENDED
    intent = Intent.objects.get()
    refused = transactions.retry_on_conflict(lambda: claiming.claim(intent.pk, owner="w"))
    assert refused == claiming.ClaimRefused(status="HELD", detail="AGENT_SUSPENDED")
    assert due_intents.get_standing(agent_pk=desk.agent.pk).held_by == "AGENT_SUSPENDED"
    entry = LedgerEntry.objects.get(stream="agent:trader", kind="agent:status_changed")
    assert entry.actor == "guard:explain-fits"
    told = agent_events.read(agent=desk.agent, after=0)
    assert [event.event_type for event in told.events] == ["STATUS_CHANGED"]
    assert isinstance(verify_database(), Whole)


def test_a_person_restores_the_agent_and_the_intent_may_run(desk: factories.Desk) -> None:
    guard_rounds.configure(**STOPS)
    guard_rounds.flagged(desk)
    agents.set_status(
        tenant="default", agent_id="trader", status=AgentStatus.ACTIVE, reason="looked", actor="user:1"
    )
    claimed = transactions.retry_on_conflict(lambda: claiming.claim(Intent.objects.get().pk, owner="w"))
    assert isinstance(claimed, claiming.Claimed)


def test_an_intent_that_is_claimed_is_not_touched_and_the_flag_says_so(desk: factories.Desk) -> None:
    guard_rounds.configure(**STOPS)
    guard_rounds.propose(desk)
    intent = Intent.objects.get()
    assert isinstance(
        transactions.retry_on_conflict(lambda: claiming.claim(intent.pk, owner="w")), claiming.Claimed
    )
    guard_rounds.run_all()
    assert Review.objects.get().emergency_stop == "UNDER_WAY"
    intent.refresh_from_db()
    assert (intent.state, desk.again().status) == (IntentState.CLAIMED, AgentStatus.SUSPENDED)


def test_an_intent_that_waits_for_its_next_try_was_called_before(desk: factories.Desk) -> None:
    guard_rounds.configure(**STOPS)
    guard_rounds.propose(desk)
    intent = Intent.objects.get()
    transactions.retry_on_conflict(lambda: claiming.claim(intent.pk, owner="w"))
    Intent.objects.update(state=IntentState.PENDING, lease_until=None)
    guard_rounds.run_all()
    assert Review.objects.get().emergency_stop == "UNDER_WAY"


def test_an_ended_intent_and_none_are_told_apart(desk: factories.Desk) -> None:
    guard_rounds.configure(**STOPS)
    guard_rounds.propose(desk)
    Intent.objects.update(state=IntentState.CANCELLED)
    guard_rounds.run_all()
    assert Review.objects.get().emergency_stop == "ENDED"
    agents.set_status(
        tenant="default", agent_id="trader", status=AgentStatus.ACTIVE, reason="looked", actor="user:1"
    )
    assert guard_rounds.flagged(desk, params=factories.OVER_LIMIT).emergency_stop == "NO_INTENT"


def test_below_its_stop_confidence_an_emergency_guard_only_flags(desk: factories.Desk) -> None:
    guard_rounds.configure(emergency_stop=True)
    review = guard_rounds.flagged(desk)
    assert (review.emergency_stop, review.agent_suspended) == ("NOT_ASKED", False)
    assert desk.again().status == AgentStatus.ACTIVE


def test_a_retired_agent_stays_retired(desk: factories.Desk) -> None:
    guard_rounds.configure(**STOPS)
    guard_rounds.propose(desk)
    Agent.objects.update(status=AgentStatus.RETIRED)
    guard_rounds.run_all()
    review = Review.objects.get()
    assert (review.emergency_stop, review.agent_suspended) == ("HELD", False)
    assert desk.again().status == AgentStatus.RETIRED


def test_the_same_guard_again_changes_nothing_and_another_keeps_its_switch() -> None:
    guard = guard_rounds.configure()
    guard_config.switch(
        tenant="default", guard_id=guard.guard_id, enabled=False, reason="noisy", actor="user:1"
    )
    guard_rounds.configure()
    assert LedgerEntry.objects.filter(kind="guard:configured").count() == 1
    changed = guard_rounds.configure(policy_kinds=["ADJUST_POSITION"])
    assert (changed.enabled, changed.digest == guard.digest) == (False, False)
    assert Guard.objects.count() == 1
    assert LedgerEntry.objects.filter(kind="guard:configured").count() == 2


def test_a_switch_is_recorded_once() -> None:
    guard_rounds.configure()
    for _ in range(2):
        switched = guard_config.switch(
            tenant="default", guard_id="explain-fits", enabled=False, reason="noisy", actor="user:1"
        )
        assert isinstance(switched, Guard)
        assert not switched.enabled
    entry = LedgerEntry.objects.get(kind="guard:switched")
    assert entry.payload == {"guard_id": "explain-fits", "enabled": False, "reason": "noisy"}
    absent = guard_config.switch(tenant="default", guard_id="none", enabled=True, reason="x", actor="user:1")
    assert isinstance(absent, Problem)
