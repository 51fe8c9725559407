"""Several steps: done in order, undone backwards, each once (DIR paper, 7.3)."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit import canonical
from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.receipt import Receipt
from runtime.contracts.states import AgentStatus, Direction, FlowState, IntentState, OutcomeStatus
from runtime.core import clock
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Intent, Outcome, StepReceipt
from runtime.flows.queries import due_intents
from runtime.registry.models import Agent
from runtime.registry.services import agents
from runtime.stops.services import stops
from tests.support import fake_target, ledger_tampering, resources_pack, trading_desk
from tests.support.fake_target import BACK, BUSY, FORWARD, REFUSE, Book, attempt, walk

pytestmark = pytest.mark.django_db
DIRTY = "PARTIAL_SUCCESS_DIRTY"


@pytest.fixture
def book(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Book]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened() as opened:
        yield opened
        opened.check()
    assert isinstance(verify_database(), Whole)


@pytest.fixture
def desk(book: Book) -> trading_desk.Desk:
    return trading_desk.open_desk(base_url=book.base_url)


def agent() -> Agent:
    return Agent.objects.get(agent_id=trading_desk.AGENT)


def standing() -> tuple[str, str]:
    row = agent()
    return row.status, row.status_reason


def outcome(intent_id: UUID) -> tuple[str, str]:
    row = Outcome.objects.get(pk=intent_id)
    return row.status, row.error_category


def test_steps_are_done_in_order_each_under_a_key_of_its_own(book: Book, desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    assert attempt(intent_id).status is AttemptStatus.ADVANCED
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.EXECUTING)
    assert walk(intent_id) == ["ADVANCED", "SUCCEEDED"]
    assert book.order == list(FORWARD)
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
    assert len(book.effects) == 3
    assert standing() == (AgentStatus.ACTIVE, "")
    assert trading_desk.kinds(intent_id) == [
        "record:emitted",
        "flow:moved",
        *("attempt:started", "attempt:finished", "saga:advanced") * 3,
        "outcome:recorded",
        "flow:moved",
        "record:emitted",
    ]
    told = dict(trading_desk.told(intent_id))
    assert told["EXECUTION_OUTCOME"]["receipt"]["pay"] == {"path": "/pay", "number": 2}
    assert attempt(intent_id).receipt == bytes(Outcome.objects.get(pk=intent_id).receipt or b"")


def test_what_a_later_step_says_of_a_fact_counts(
    desk: trading_desk.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = desk.accept()
    said = iter([b'{"status":"PART"}', b'{"status":"FILLED"}', b'{"other":1}'])
    monkeypatch.setattr(
        "runtime.execution.services.calling.call",
        lambda claim, **_: Receipt(status_code=200, body=next(said)),
    )
    walk(intent_id)
    assert canonical.decode(bytes(Outcome.objects.get(pk=intent_id).deviations)) == []


def test_a_first_step_that_is_refused_leaves_nothing_to_undo(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/reserve"] = [REFUSE]
    intent_id = desk.accept()
    assert walk(intent_id) == ["FAILED"]
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    assert outcome(intent_id) == ("FAILED", "TARGET_REFUSED")
    assert standing() == (AgentStatus.ACTIVE, "")
    assert not book.effects


@pytest.mark.parametrize("failing", [1, 2])
def test_a_refusal_undoes_what_was_done_newest_first(
    failing: int, book: Book, desk: trading_desk.Desk
) -> None:
    book.faults[FORWARD[failing]] = [REFUSE]
    intent_id = desk.accept()
    for _ in range(failing):
        assert attempt(intent_id).status is AttemptStatus.ADVANCED
    assert attempt(intent_id).status is AttemptStatus.TURNED_BACK
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.PARTIAL_SUCCESS_DIRTY)
    assert standing() == (AgentStatus.LOCKED, DIRTY)
    assert desk_refuses(desk) == "AGENT_LOCKED"

    assert walk(intent_id) == ["ADVANCED"] * (failing - 1) + ["COMPENSATED"]
    assert book.order == [*FORWARD[:failing], *reversed(BACK[:failing])]
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    assert trading_desk.flow_of(intent_id).reason == "TERMINAL_FAILURE"
    assert outcome(intent_id) == ("COMPENSATED", "TARGET_REFUSED")
    assert standing() == (AgentStatus.ACTIVE, "")
    kinds = trading_desk.kinds(intent_id)
    assert kinds.count("saga:dirtied") == kinds.count("saga:compensated") == 1
    names = [name for name, _ in trading_desk.told(intent_id)]
    assert names[-2:] == ["EXECUTION_OUTCOME", "FLOW_ABORTED"]
    assert dict(trading_desk.told(intent_id))["EXECUTION_OUTCOME"]["status"] == OutcomeStatus.COMPENSATED
    assert all(len(found) == 1 for found in fake_target.keys(intent_id).values())


def desk_refuses(desk: trading_desk.Desk) -> str:
    verdict = trading_desk.propose(desk)
    assert verdict["verdict"] == "REJECT"
    return str(verdict["reasons"][0]["code"])


def test_a_compensation_names_the_key_it_undoes(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/pay"] = [REFUSE]
    intent_id = desk.accept()
    walk(intent_id)
    rendered = canonical.decode(bytes(trading_desk.intent(intent_id).requests))["steps"][0]
    assert rendered["compensation"]["body"]["compensates"] == rendered["key"]
    assert set(book.effects) == {rendered["key"], rendered["compensation"]["key"]}


def test_busy_targets_are_waited_for_in_both_directions(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/pay"] = [BUSY, BUSY, BUSY, REFUSE]
    book.faults["/reserve/undo"] = [BUSY, BUSY, BUSY, ""]
    intent_id = desk.accept()
    assert walk(intent_id) == [
        *("ADVANCED", "RETRY_LATER", "RETRY_LATER", "RETRY_LATER", "TURNED_BACK"),
        *("RETRY_LATER", "RETRY_LATER", "RETRY_LATER", "COMPENSATED"),
    ]
    assert outcome(intent_id)[0] == "COMPENSATED"


@pytest.mark.parametrize("what", ["window", "facts", "retired"])
def test_a_later_step_does_not_run_late(what: str, book: Book, desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    attempt(intent_id)
    cause = {"window": "EXPIRED", "facts": "STALE_CONTEXT", "retired": "AGENT_RETIRED"}[what]
    if what == "window":
        Intent.objects.filter(pk=intent_id).update(valid_until=clock.now() - timedelta(seconds=1))
    elif what == "facts":
        trading_desk.write_fact("price.ABC", 101)
    else:
        Agent.objects.update(status=AgentStatus.RETIRED)
    result = attempt(intent_id)
    assert (result.status, result.called, result.detail) == (AttemptStatus.TURNED_BACK, False, cause)
    assert walk(intent_id) == ["COMPENSATED"]
    assert book.order == ["/reserve", "/reserve/undo"]
    assert trading_desk.flow_of(intent_id).reason == cause
    assert outcome(intent_id) == ("COMPENSATED", cause)
    assert agent().status == (AgentStatus.RETIRED if what == "retired" else AgentStatus.ACTIVE)


def turn_back(desk: trading_desk.Desk, book: Book) -> UUID:
    book.faults["/pay"] = [REFUSE]
    intent_id = desk.accept()
    attempt(intent_id)
    assert attempt(intent_id).status is AttemptStatus.TURNED_BACK
    return intent_id


def due() -> list[UUID]:
    return [item.intent_id for item in due_intents.list_due(at=clock.now(), limit=10)]


@pytest.mark.parametrize("status", [AgentStatus.LOCKED, AgentStatus.SUSPENDED])
def test_no_status_holds_a_compensation_but_a_forward_call_waits(
    status: AgentStatus, book: Book, desk: trading_desk.Desk
) -> None:
    waiting = desk.accept()
    intent_id = turn_back(desk, book)
    Agent.objects.update(status=status)
    assert due() == [intent_id]
    assert attempt(waiting).detail == f"AGENT_{status}"
    assert walk(intent_id) == ["COMPENSATED"]


def test_a_stop_holds_a_compensation_however_long_it_lasts(book: Book, desk: trading_desk.Desk) -> None:
    intent_id = turn_back(desk, book)
    stops.stop_all(tenant=trading_desk.TENANT, actor="user:1", reason="trial")
    Intent.objects.filter(pk=intent_id).update(valid_until=clock.now() - timedelta(days=1))
    assert attempt(intent_id).detail == due_intents.SYSTEM_STOPPED
    assert due() == []
    assert book.order == ["/reserve"]
    stops.resume_all(tenant=trading_desk.TENANT, actor="user:1")
    assert walk(intent_id) == ["COMPENSATED"]


def test_a_stop_between_claim_and_compensation_gives_the_claim_back(
    book: Book, desk: trading_desk.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = turn_back(desk, book)
    looks = iter([due_intents.AGENT_STOPPED])  # as the gate looks; the claim asks otherwise
    monkeypatch.setattr(
        due_intents,
        "get_standing",
        lambda *, agent_pk: due_intents.AgentStanding(
            status=AgentStatus.LOCKED, held_by="AGENT_LOCKED", stopped_by=next(looks, None)
        ),
    )
    assert attempt(intent_id).detail == due_intents.AGENT_STOPPED
    assert trading_desk.states(intent_id) == (IntentState.PENDING, FlowState.COMPENSATING)
    assert walk(intent_id) == ["COMPENSATED"]


@pytest.mark.parametrize(
    ("before", "reason"), [(AgentStatus.PASSIVE, "ESCALATION_BUDGET_EXHAUSTED"), (AgentStatus.ACTIVE, "")]
)
def test_the_agent_is_what_it_was_once_the_state_has_converged(
    before: AgentStatus, reason: str, book: Book, desk: trading_desk.Desk
) -> None:
    book.faults["/pay"] = [REFUSE]
    intent_id = desk.accept()
    Agent.objects.update(status=before, status_reason=reason)
    attempt(intent_id)
    attempt(intent_id)
    assert standing() == (AgentStatus.LOCKED, DIRTY)
    walk(intent_id)
    assert standing() == (before, reason)
    assert (agent().locked_from, agent().locked_from_reason) == ("", "")


def test_a_suspended_agent_stays_suspended(book: Book, desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    attempt(intent_id)
    Agent.objects.update(status=AgentStatus.SUSPENDED, status_reason="looked at")
    Intent.objects.filter(pk=intent_id).update(valid_until=clock.now())
    assert walk(intent_id) == ["TURNED_BACK", "COMPENSATED"]
    assert standing() == (AgentStatus.SUSPENDED, "looked at")


def test_what_a_person_has_made_of_the_agent_meanwhile_stays(book: Book, desk: trading_desk.Desk) -> None:
    intent_id = turn_back(desk, book)
    agents.set_status(
        tenant=trading_desk.TENANT,
        agent_id=trading_desk.AGENT,
        status=AgentStatus.SUSPENDED,
        reason="looked at",
        actor="user:1",
    )
    walk(intent_id)
    assert standing() == (AgentStatus.SUSPENDED, "looked at")


def test_an_agent_that_comes_back_to_half_done_work_is_locked_until_it_has_converged(
    book: Book, desk: trading_desk.Desk
) -> None:
    intent_id = turn_back(desk, book)
    for status in (AgentStatus.SUSPENDED, AgentStatus.PASSIVE):
        agents.set_status(
            tenant=trading_desk.TENANT,
            agent_id=trading_desk.AGENT,
            status=status,
            reason="looked at",
            actor="user:1",
        )
    assert standing() == (AgentStatus.LOCKED, DIRTY)
    walk(intent_id)
    assert standing() == (AgentStatus.PASSIVE, "looked at")


def test_the_agent_stays_locked_until_its_last_dirty_flow_has_converged(
    book: Book, desk: trading_desk.Desk
) -> None:
    first, second = desk.accept(), desk.accept()
    attempt(first)
    attempt(second)
    book.faults["/pay"] = [REFUSE]
    Agent.objects.update(status=AgentStatus.PASSIVE)
    attempt(first)
    Agent.objects.filter(status=AgentStatus.LOCKED).update(status=AgentStatus.PASSIVE)
    attempt(second)
    assert walk(first) == ["COMPENSATED"]
    assert standing() == (AgentStatus.LOCKED, DIRTY)
    assert walk(second) == ["COMPENSATED"]
    assert standing()[0] == AgentStatus.PASSIVE


def test_reservations_are_kept_until_the_end_and_then_free(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources_pack, "_PLAIN", fake_target.pack())
    monkeypatch.setattr(trading_desk, "PACK", resources_pack.pack())
    desk = trading_desk.open_desk(base_url=book.base_url)
    intent_id = turn_back(desk, book)
    assert (resources_pack.states(intent_id), resources_pack.used()) == ({"PINNED"}, (60, 0))
    walk(intent_id)
    assert (resources_pack.states(intent_id), resources_pack.used()) == ({"RELEASED"}, (0, 0))
    book.mend()
    walk(desk.accept())
    assert resources_pack.used() == (0, 60)
    resources_pack.check()


def test_a_compensation_that_was_never_made_asks_a_person(book: Book, desk: trading_desk.Desk) -> None:
    book.faults["/pay"] = [REFUSE]
    intent_id = desk.accept()
    rendered: dict[str, Any] = canonical.decode(bytes(trading_desk.intent(intent_id).requests))
    del rendered["steps"][0]["compensation"]
    ledger_tampering.rewrite_requests(intent_id, canonical.encode(rendered))
    assert walk(intent_id) == ["ADVANCED", "TURNED_BACK", "BLOCKED"]
    assert trading_desk.states(intent_id) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
    assert Escalation.objects.get().reason == "COMPENSATION_FAILED"


def test_requests_that_can_no_longer_be_read_ask_a_person(book: Book, desk: trading_desk.Desk) -> None:
    intent_id = desk.accept()
    attempt(intent_id)
    ledger_tampering.rewrite_requests(intent_id, b"{}")
    assert walk(intent_id) == ["TURNED_BACK", "BLOCKED"]
    assert Escalation.objects.get().reason == "COMPENSATION_FAILED"


def test_each_finished_step_has_its_row(book: Book, desk: trading_desk.Desk) -> None:
    intent_id = turn_back(desk, book)
    walk(intent_id)
    rows = list(
        StepReceipt.objects.filter(intent_id=intent_id).values_list("step", "direction", "recorded_by")
    )
    assert rows == [
        ("reserve", Direction.FORWARD, "system"),
        ("reserve", Direction.COMPENSATE, "system"),
    ]
