"""Reservations from the verdict to every end: what is held, for how long, and that nothing leaks."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction

from audit import events
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.receipt import FailureClass
from runtime.contracts.states import Effect, FlowState, IntentState
from runtime.contracts.verdict import ResourceClaim
from runtime.core import clock, transactions
from runtime.execution.services import attempting, claiming, recovery
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Flow, Intent, Proposal
from runtime.flows.services import flows, locks
from runtime.flows.services.flow_transaction import Journal
from runtime.maintenance.services import sweeper
from runtime.resources.models import Reservation, Resource
from runtime.resources.services import reservations
from tests.support import resources_pack, trading_desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> trading_desk.Desk:
    return resources_pack.open_desk(monkeypatch)


def attempt(intent_id: UUID) -> attempting.AttemptResult:
    return attempting.attempt(intent_id, owner=trading_desk.OWNER)


def reserve(proposal: Proposal, claims: Sequence[ResourceClaim]) -> list[events.Event]:
    return reservations.reserve(
        flow=proposal.flow,
        proposal=proposal,
        claims=claims,
        resources=Resource.objects.all(),
        at=clock.now(),
    )


def lapse() -> None:
    """The lease of everything that is held ends."""
    Reservation.objects.filter(lease_until__isnull=False).update(
        lease_until=clock.now() - timedelta(seconds=1)
    )


def resource_entries(intent_id: UUID) -> list[str]:
    rows = LedgerEntry.objects.filter(
        stream=str(trading_desk.intent(intent_id).flow_id), kind__startswith="resource"
    )
    return list(rows.order_by("seq").values_list("kind", flat=True))


def test_an_accepted_proposal_holds_what_it_claims_on_a_lease(desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    assert (resources_pack.used(), resources_pack.used("slots")) == ((60, 0), (1, 0))
    assert resources_pack.states(intent_id) == {"HELD"}
    row = Reservation.objects.get(resource__name="units")
    assert row.lease_until is not None
    assert timedelta(seconds=50) < row.lease_until - clock.now() <= timedelta(seconds=60)
    assert resource_entries(intent_id) == ["resource:reserved", "resource:reserved"]


def test_success_uses_up_what_was_held(desk: trading_desk.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    resources_pack.answer_with(monkeypatch, resources_pack.DONE)
    intent_id = desk.accept()
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert (resources_pack.used(), resources_pack.used("slots")) == ((0, 60), (0, 1))
    assert resources_pack.states(intent_id) == {"COMMITTED"}
    assert resource_entries(intent_id)[2:] == ["resource:pinned"] * 2 + ["resource:committed"] * 2
    assert isinstance(verify_database(), Whole)


def test_a_terminal_failure_frees_what_was_held(
    desk: trading_desk.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources_pack.answer_with(monkeypatch, resources_pack.failure(FailureClass.TERMINAL))
    intent_id = desk.accept()
    assert attempt(intent_id).status is AttemptStatus.FAILED
    assert resources_pack.used() == (0, 0)
    assert resources_pack.states(intent_id) == {"RELEASED"}


def test_a_retry_keeps_what_was_held(desk: trading_desk.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    resources_pack.answer_with(monkeypatch, resources_pack.failure(FailureClass.TRANSIENT))
    intent_id = desk.accept()
    assert attempt(intent_id).status is AttemptStatus.RETRY_LATER
    assert resources_pack.used() == (60, 0)
    assert resources_pack.states(intent_id) == {"PINNED"}
    lapse()
    assert sweeper.sweep().leases == 0


def test_cancelling_frees_what_was_held(desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    answer = flows.cancel(
        agent=desk.agent, dfid=trading_desk.flow_of(intent_id).dfid, reason="Changed my mind"
    )
    assert not isinstance(answer, Problem)
    assert resources_pack.used() == (0, 0)


def test_a_window_that_ended_in_the_queue_frees_what_was_held(desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    Intent.objects.filter(pk=intent_id).update(valid_until=clock.now())
    assert attempt(intent_id).status is AttemptStatus.EXPIRED
    assert resources_pack.used() == (0, 0)


def test_a_lease_that_ends_before_the_claim_is_freed_by_the_sweeper(desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    assert sweeper.sweep().leases == 0
    lapse()
    assert sweeper.sweep().leases == 1
    assert sweeper.sweep().leases == 0
    assert resources_pack.used() == (0, 0)
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.ACCEPTED)
    assert set(Reservation.objects.values_list("reason", flat=True)) == {Reason.LEASE_ENDED}


def test_the_claim_takes_again_what_the_sweeper_freed(
    desk: trading_desk.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources_pack.answer_with(monkeypatch, resources_pack.DONE)
    intent_id = desk.accept()
    lapse()
    sweeper.sweep()
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert resources_pack.used() == (0, 60)
    resources_pack.check()


def test_the_claim_blocks_when_somebody_else_has_it_meanwhile(desk: trading_desk.Desk) -> None:
    late = desk.accept()
    lapse()
    sweeper.sweep()
    quick = desk.accept()
    blocked = attempt(late)
    assert (blocked.status, blocked.detail) == (AttemptStatus.BLOCKED, Reason.RESOURCE_CONTENTION)
    assert trading_desk.states(late) == (IntentState.FAILED, FlowState.ABORTED)
    assert trading_desk.flow_of(late).reason == Reason.RESOURCE_CONTENTION
    assert resources_pack.states(quick) == {"HELD"}
    assert (resources_pack.used(), resources_pack.used("slots")) == ((60, 0), (1, 0))
    resources_pack.check()


def test_the_claim_blocks_when_somebody_else_has_used_it_up(
    desk: trading_desk.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources_pack.answer_with(monkeypatch, resources_pack.DONE)
    late = desk.accept()
    lapse()
    sweeper.sweep()
    assert attempt(desk.accept()).status is AttemptStatus.SUCCEEDED
    blocked = attempt(late)
    assert (blocked.status, blocked.detail) == (AttemptStatus.BLOCKED, Reason.RESOURCE_CONTENTION)
    assert (resources_pack.used(), resources_pack.used("slots")) == ((0, 60), (0, 1))
    resources_pack.check()


def test_in_doubt_keeps_it_until_a_person_knows(
    desk: trading_desk.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources_pack.answer_with(monkeypatch, resources_pack.failure(FailureClass.UNKNOWN))
    intent_id = desk.accept()
    attempt(intent_id)
    lapse()
    sweeper.sweep()
    assert trading_desk.states(intent_id)[0] == IntentState.IN_DOUBT
    assert (resources_pack.used(), resources_pack.states(intent_id)) == ((60, 0), {"PINNED"})
    _decide(intent_id, done=True)
    assert resources_pack.used() == (0, 60)
    resources_pack.check()


@pytest.mark.parametrize(
    ("effect", "used"),
    [(Effect.NOT_HAPPENED, (0, 0)), (Effect.HAPPENED, (0, 60)), (Effect.UNKNOWN, (0, 60)), (None, (0, 60))],
)
def test_giving_up_what_is_in_doubt_frees_it_only_where_it_did_not_happen(
    effect: Effect | None, used: tuple[int, int], desk: trading_desk.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources_pack.answer_with(monkeypatch, resources_pack.failure(FailureClass.UNKNOWN))
    intent_id = desk.accept()
    attempt(intent_id)
    _decide(intent_id, done=False, effect=effect)
    assert resources_pack.used() == used
    resources_pack.check()


def test_a_worker_killed_between_claim_and_call_leaks_nothing(desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a worker that died"))
    assert sweeper.expire_all_leases() == 1
    assert resources_pack.used() == (60, 0)
    _decide(intent_id, done=False, effect=Effect.NOT_HAPPENED)
    assert resources_pack.used() == (0, 0)
    resources_pack.check()


def test_a_kind_without_steps_uses_it_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = resources_pack.pack()
    steps = text[text.index("    steps:") : text.index("targets:")]
    monkeypatch.setattr(trading_desk, "PACK", text.replace(steps, ""))
    desk = trading_desk.open_desk()
    with pytest.raises(KeyError):  # the answer names no intent
        desk.accept()
    assert resources_pack.used() == (0, 60)
    assert Flow.objects.get().state == FlowState.CLOSED


def test_a_lost_update_leaves_nothing_behind(desk: trading_desk.Desk) -> None:
    holder, other = desk.accept(), another_proposal(desk)
    claims = [ResourceClaim(resource="slots", amount=1), ResourceClaim(resource="units", amount=41)]
    with pytest.raises(transactions.ConcurrentUpdateError), transaction.atomic():
        reserve(other, claims)
    assert (resources_pack.used(), resources_pack.used("slots")) == ((60, 0), (1, 0))
    assert resources_pack.states(holder) == {"HELD"}


def test_another_proposal_of_the_flow_takes_the_place_of_the_first(desk: trading_desk.Desk) -> None:
    flow = trading_desk.flow_of(desk.accept())
    claims = [ResourceClaim(resource="units", amount=90)]
    with transaction.atomic():
        added = reserve(another_proposal(desk, flow), claims)
    assert [event.kind for event in added] == ["resource:released", "resource:released", "resource:reserved"]
    assert resources_pack.used() == (90, 0)


def test_the_call_keeps_what_its_own_proposal_claims_in_the_order_of_names(desk: trading_desk.Desk) -> None:
    first = desk.accept()
    flow = trading_desk.flow_of(first)
    other = another_proposal(desk, flow)
    claims = [ResourceClaim(resource="units", amount=30), ResourceClaim(resource="slots", amount=1)]
    with transaction.atomic():
        added = reserve(other, claims)
        assert names_of(added[2:]) == ["slots", "units"]
        pinned = reservations.pin(intent=Intent.objects.get(pk=first), at=clock.now())
    assert names_of(pinned or ()) == ["slots", "units"]
    assert set(other.reservations.values_list("state", flat=True)) == {"HELD"}
    assert (resources_pack.used(), resources_pack.used("slots")) == ((90, 0), (2, 0))


def test_a_lease_ends_after_its_last_moment_and_a_call_has_none(desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    flow = trading_desk.flow_of(intent_id)
    ends = Reservation.objects.get(resource__name="units").lease_until
    assert ends is not None
    with transaction.atomic():
        assert reservations.release_lapsed(flow=flow, at=ends) == []
        assert reservations.pin(intent=Intent.objects.get(pk=intent_id), at=ends)
        assert reservations.release_lapsed(flow=flow, at=ends + timedelta(days=1)) == []
    assert resources_pack.states(intent_id) == {"PINNED"}


def names_of(added: Iterable[events.Event]) -> list[str]:
    """The resources that entries are about, in their order."""
    return [event.model_dump()["resource"] for event in added]


def test_the_database_refuses_more_than_the_capacity(desk: trading_desk.Desk) -> None:
    with pytest.raises(IntegrityError, match="resource_never_over_capacity"), transaction.atomic():
        Resource.objects.filter(name="units").update(reserved=70, committed=31)


def another_proposal(desk: trading_desk.Desk, flow: Flow | None = None) -> Proposal:
    """A proposal's row, of a new flow where none is given."""
    if flow is None:
        opened = flows.open_flow(agent=desk.agent, trigger="another")
        assert not isinstance(opened, Problem)
        flow = Flow.objects.get(dfid=opened.dfid)
    return Proposal.objects.create(
        flow=flow,
        agent=desk.agent,
        author="user:1",
        policy_kind=trading_desk.KIND,
        policy_version="1.0.0",
        body=b"{}",
        digest="0" * 64,
        received_at=clock.now(),
        valid_until=clock.now(),
    )


def _decide(intent_id: UUID, *, done: bool, effect: Effect | None = None) -> None:
    with transaction.atomic():
        found = locks.lock_intent(intent_id=intent_id)
        assert found is not None
        flow, intent = found
        journal = Journal(flow=flow, actor="user:1", at=clock.now())
        journal.add(trading_desk.decided(flow, recovery.mark_done if done else recovery.give_up))
        if done:
            recovery.mark_done(
                journal=journal, intent=intent, receipt={"order": "o1"}, actor="user:1", at=journal.at
            )
        else:
            recovery.give_up(
                journal=journal,
                intent=intent,
                reason=Reason.ABORTED_BY_PERSON,
                actor="user:1",
                at=journal.at,
                effect=effect,
            )
        journal.write()
