"""Steps that people carry out: the wait, the answer, the deadline, and who may answer."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, transaction
from pytest_django.fixtures import Settings

from audit import canonical, signing
from audit.models import LedgerEntry
from audit.verification import findings
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import FlowState, IntentState
from runtime.core import clock
from runtime.execution.models import HumanTask
from runtime.execution.services import human_steps
from runtime.flows.models import Attempt, Intent, Outcome
from runtime.flows.services import flows
from runtime.maintenance.services import erasure, sweeper
from runtime.packs.services import packs
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import ReplayEqual
from runtime.registry.models import Agent
from runtime.stops.services import stops
from tests.support import exported_packs, factories, human_tasks, misbehaving_targets, trading_desk
from tests.support.human_tasks import answer, attempt, person, task
from tests.verification import test_every_column

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _checked(settings: Settings) -> Iterator[None]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    yield
    # The people of these tests were never recorded.
    told = [item.detail for item in findings.verify_all().findings]
    assert [detail for detail in told if "the user" not in detail] == []


def open_desk(monkeypatch: pytest.MonkeyPatch, *steps: str, url: str = "", **parts: str) -> trading_desk.Desk:
    monkeypatch.setattr(trading_desk, "PACK", human_tasks.pack(*steps, **parts))
    return trading_desk.open_desk(base_url=url or "http://127.0.0.1:1")


def waiting(monkeypatch: pytest.MonkeyPatch, *steps: str, **parts: str) -> UUID:
    """An intent whose first step, a person's, is asked for."""
    intent_id = open_desk(monkeypatch, *(steps or ("approve",)), **parts).accept()
    assert attempt(intent_id) == "AWAITING"
    return intent_id


def refused(answered: object) -> str:
    assert isinstance(answered, Problem), answered
    return answered.code.value


def entries(intent_id: UUID, kind: str) -> list[dict[str, Any]]:
    rows = LedgerEntry.objects.filter(stream=str(trading_desk.intent(intent_id).flow_id), kind=kind)
    return [canonical.decode(bytes(row.body))["payload"] for row in rows.order_by("seq")]


def test_a_task_waits_without_a_lease_and_nothing_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = waiting(monkeypatch)
    row = trading_desk.intent(intent_id)
    assert trading_desk.states(intent_id) == (IntentState.AWAITING, FlowState.EXECUTING)
    assert (row.lease_owner, row.lease_until) == ("", None)
    assert trading_desk.attempts(intent_id) == ["AWAITING"]
    shown = canonical.decode(bytes(task(intent_id).body))
    assert shown["instructions"] == "Look at 2 of ABC"
    assert (shown["effect"], shown["step"], shown["group"]) == ("Buy 2 ABC", "approve", "treasury")
    # No worker takes it, no window ends it, and the agent cannot cancel it.
    assert attempt(intent_id) in ("NOT_DUE", "HELD")
    late = row.valid_until + timedelta(seconds=1)
    with monkeypatch.context() as patched:
        patched.setattr("runtime.core.clock.now", lambda: late)
        assert sweeper.sweep().failed == 0
    cancelled = flows.cancel(agent=row.flow.agent, dfid=row.flow_id, reason="Changed my mind")
    assert isinstance(cancelled, Problem)
    assert cancelled.status == 409
    assert trading_desk.states(intent_id) == (IntentState.AWAITING, FlowState.EXECUTING)


def test_the_answer_is_signed_bound_to_what_was_shown_and_the_receipt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    intent_id = waiting(monkeypatch)
    account = person()
    assert not isinstance(answer(task(intent_id), account, approved=True, price=7), Problem)
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
    done = task(intent_id)
    stated = canonical.decode(bytes(done.statement))
    assert stated["answer"] == {"approved": True, "price": 7}
    assert (stated["task_hash"], stated["approver"]) == (done.task_hash, f"user:{account.pk}")
    assert signing.signer().key_id == done.key_id
    outcome = Outcome.objects.get(pk=intent_id)
    assert canonical.decode(bytes(outcome.receipt or b"")) == {"approved": True, "price": 7}
    assert outcome.recorded_by == f"user:{account.pk}"
    [said] = entries(intent_id, "task:answered")
    assert said["statement_digest"] == canonical.digest(bytes(done.statement))
    # Once is enough.
    assert refused(answer(done, person("tom"))) == "TASK_CLOSED"
    flow = trading_desk.intent(intent_id).flow
    assert isinstance(flow_replay.replay(tenant=flow.tenant, dfid=flow.pk), ReplayEqual)


def test_steps_before_and_after_run_and_the_window_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    body = misbehaving_targets.answer(200, b'{"order_id":"o1"}')
    with misbehaving_targets.stand_in(body) as target:
        desk = open_desk(monkeypatch, "approve", "order", "confirm", url=target.base_url)
        intent_id = desk.accept(window_s=60)
        assert attempt(intent_id) == "AWAITING"
        before = trading_desk.intent(intent_id).valid_until
        assert not isinstance(answer(task(intent_id), person()), Problem)
        assert trading_desk.intent(intent_id).valid_until > before
        assert attempt(intent_id) == "ADVANCED"
        assert attempt(intent_id) == "AWAITING"
        shown = canonical.decode(bytes(task(intent_id).body))
        assert shown["receipts"]["order"] == {"order_id": "o1"}
        assert not isinstance(answer(task(intent_id), person("tom")), Problem)
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)


def test_a_stop_holds_what_follows_and_not_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = waiting(monkeypatch, "approve", "order")
    stops.stop_all(tenant=trading_desk.TENANT, actor="user:1", reason="trial")
    assert not isinstance(answer(task(intent_id), person()), Problem)
    assert attempt(intent_id) == "HELD"
    assert trading_desk.intent(intent_id).state == IntentState.PENDING


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ({"approved": False, "price": 1}, ["/approved"]),
        ({"approved": True, "price": 0}, ["/price"]),
        ({"approved": True}, ["/price"]),
        ({"approved": True, "price": 1, "odd": 2}, ["/odd"]),
    ],
)
def test_an_answer_that_does_not_fit_the_form_is_refused(
    given: dict[str, Any], places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = waiting(monkeypatch)
    told = answer(task(intent_id), person(), **given)
    assert isinstance(told, Problem)
    assert told.code is ProblemCode.ANSWER_INVALID
    assert [item.pointer for item in told.violations] == places
    assert trading_desk.intent(intent_id).state == IntentState.AWAITING
    [said] = entries(intent_id, "task:refused")
    assert said["code"] == "ANSWER_INVALID"


def test_who_may_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = waiting(monkeypatch, impact="HIGH_IMPACT")
    asked = task(intent_id)
    assert refused(answer(asked, factories.user("stranger"))) == "NOT_OF_GROUP"
    assert refused(answer(asked, person("owner", "treasury", "desk"))) == "SEPARATION_OF_DUTY"
    # Being alone is no excuse here.
    alone = answer(asked, person("alone", "treasury", "desk"), who={"is_solo": True})
    assert refused(alone) == "SEPARATION_OF_DUTY"
    assert refused(answer(asked, person("old"), who={"confirmed_at_ms": 1})) == "STEP_UP"
    assert refused(answer(asked, person("left"), who={"groups_now": frozenset()})) == "NOT_OF_GROUP"
    writer = person("writer")
    proposal = trading_desk.intent(intent_id).proposal
    author = proposal.author
    type(proposal).objects.filter(pk=proposal.pk).update(author=f"user:{writer.pk}")
    assert refused(answer(asked, writer)) == "SEPARATION_OF_DUTY"
    type(proposal).objects.filter(pk=proposal.pk).update(author=author)
    assert refused(answer(asked, person("wrong"), shown="0" * 64)) == "EVIDENCE_CHANGED"
    assert refused(answer(asked, person("unread"), shown="x")) == "HASH_UNREADABLE"
    assert not isinstance(answer(asked, person("tara")), Problem)


def test_low_impact_needs_no_fresh_password(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = waiting(monkeypatch)
    assert not isinstance(answer(task(intent_id), person(), who={"confirmed_at_ms": None}), Problem)


def overdue(intent_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline of the open task passes, and the sweeper comes by."""
    later = clock.now() + timedelta(seconds=601)
    with monkeypatch.context() as patched:
        patched.setattr("runtime.core.clock.now", lambda: later)
        assert refused(answer(task(intent_id), person("late"))) == "TASK_CLOSED"
        assert sweeper.sweep().tasks == 1


def test_a_deadline_that_passes_asks_an_operator_who_may_ask_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runtime.kernel.undo_window.length_s", lambda *_, **__: 0)
    intent_id = waiting(monkeypatch)
    first = task(intent_id)
    overdue(intent_id, monkeypatch)
    assert trading_desk.states(intent_id) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
    case = Escalation.objects.get()
    assert (case.family, case.reason, case.deadline_at) == ("OPERATIONAL", "TASK_OVERDUE", None)
    marked = factories.decide(case, factories.user("mark"), Action.MARK_DONE, receipt={"approved": True})
    assert refused(marked) == "ACTION_UNKNOWN"
    assert not isinstance(factories.decide(case, factories.user("again"), Action.RESUME), Problem)
    Intent.objects.filter(pk=intent_id).update(next_at=clock.now() - timedelta(seconds=1))
    monkeypatch.setattr("runtime.core.clock.now", lambda now=clock.now: now() + timedelta(seconds=602))
    assert attempt(intent_id) == "AWAITING"
    again = task(intent_id)
    assert (again.number, again.pk != first.pk) == (2, True)
    assert HumanTask.objects.get(pk=first.pk).state == "OVERDUE"
    assert not isinstance(answer(again, person()), Problem)
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)


def test_abort_of_an_overdue_task_ends_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = waiting(monkeypatch, "approve", "order")
    overdue(intent_id, monkeypatch)
    assert not isinstance(factories.decide(Escalation.objects.get(), person(), Action.ABORT), Problem)
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)


@pytest.mark.parametrize("undo", ["", "Take back what you did for {symbol}"])
def test_a_check_needs_no_undoing_and_an_act_is_undone_by_a_person(
    undo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(422, b"{}")) as target:
        desk = open_desk(monkeypatch, "approve", "order", url=target.base_url, undo=undo)
        intent_id = desk.accept()
        attempt(intent_id)
        assert not isinstance(answer(task(intent_id), person()), Problem)
        status = attempt(intent_id)
        if not undo:
            assert status == "FAILED"
            assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
            told = dict(trading_desk.told(intent_id))["EXECUTION_OUTCOME"]
            assert (told["status"], told["effect"]) == ("FAILED", "NOT_HAPPENED")
            assert Agent.objects.get().status == "ACTIVE"
            return
        assert status == "TURNED_BACK"
        assert Agent.objects.get().status == "LOCKED"
        assert attempt(intent_id) == "AWAITING"
        asked = task(intent_id)
        shown = canonical.decode(bytes(asked.body))
        assert (shown["direction"], shown["instructions"]) == ("COMPENSATE", "Take back what you did for ABC")
        assert refused(answer(asked, person("tom"), undone=False)) == "ANSWER_INVALID"
        assert not isinstance(answer(asked, person("tim"), undone=True), Problem)
        assert Outcome.objects.get(pk=intent_id).status == "COMPENSATED"
        assert Agent.objects.get().status == "ACTIVE"


def test_a_task_that_was_rewritten_takes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = waiting(monkeypatch)
    asked = task(intent_id)
    HumanTask.objects.filter(pk=asked.pk).update(group="operator")
    asked.refresh_from_db()
    assert refused(answer(asked, factories.user("eve"))) == "TAMPERED"
    found = [item.detail for item in findings.verify_all().findings]
    assert any("humantask.group" in detail for detail in found)
    HumanTask.objects.filter(pk=asked.pk).update(group="treasury")


def test_a_row_that_is_put_back_among_the_waiting_is_not_asked_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    intent_id = waiting(monkeypatch)
    Intent.objects.filter(pk=intent_id).update(state=IntentState.PENDING)
    assert attempt(intent_id) == "HELD"
    assert trading_desk.intent(intent_id).state == IntentState.AWAITING
    assert HumanTask.objects.count() == 1


def test_a_task_of_another_intent_or_tenant_is_not_there() -> None:
    assert human_steps.lock_task(task_id=UUID(int=1), tenant="default") is None
    assert not human_steps.expire(UUID(int=1))


@pytest.mark.parametrize(
    ("was", "becomes", "words"),
    [
        ("executor: human", "executor: http", "only that has it"),
        ("executor: human", "executor: simulated", "only that has it"),
        ("receipt_schema: {type: object", "receipt_schema: {type: array", "must have type object"),
        ("{quantity} of", "{amount} of", "amount, which is not a parameter"),
        ("deadline_s: 600}}", "deadline_s: 600}, timeout_s: 5}", "of calls"),
        ("deadline_s: 600", "deadline_s: 0", "deadline_s"),
    ],
)
def test_a_human_step_that_nobody_could_carry_out_is_refused(was: str, becomes: str, words: str) -> None:
    text = human_tasks.pack("approve").replace("BASE_URL", "http://127.0.0.1:1")
    assert was in text
    found = packs.load(text=text.replace(was, becomes), source="trial.yaml", activate=True, actor="system")
    assert isinstance(found, packs.PackRefused)
    assert any(words in problem for problem in found.problems), found.problems


def test_an_attempt_of_a_person_is_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = waiting(monkeypatch)
    assert not isinstance(answer(task(intent_id), person()), Problem)
    row = Attempt.objects.get(intent=intent_id)
    assert (row.state, row.lease_owner, row.sent_at) == ("SUCCEEDED", "", None)


COLUMNS = [field for field in HumanTask._meta.concrete_fields if not field.primary_key]


@pytest.mark.parametrize("is_answered", [False, True])
def test_verify_ledger_finds_a_change_of_any_column(
    is_answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = waiting(monkeypatch)
    if is_answered:
        assert not isinstance(answer(task(intent_id), person()), Problem)
    row, unseen = task(intent_id), []
    for field in COLUMNS:
        for value in test_every_column.others(field, getattr(row, field.attname)):
            with transaction.atomic():
                try:
                    with transaction.atomic():
                        HumanTask.objects.filter(pk=row.pk).update(**{field.attname: value})
                except DatabaseError:
                    pass  # the database refuses it itself
                else:
                    told = [item.detail for item in findings.verify_all().findings]
                    if not any("humantask" in item or "signature" in item or "task" in item for item in told):
                        unseen.append(field.name)
                transaction.set_rollback(True)
    assert unseen == []


def test_an_erased_task_keeps_its_entries_and_verifies(monkeypatch: pytest.MonkeyPatch) -> None:
    intent_id = waiting(monkeypatch)
    assert not isinstance(answer(task(intent_id), person()), Problem)
    dfid = trading_desk.intent(intent_id).flow_id
    erased = erasure.erase(tenant=trading_desk.TENANT, dfids=[dfid], reason="Asked to", actor="user:1")
    assert not isinstance(erased, Problem), erased
    gone = task(intent_id)
    assert (bytes(gone.body), bytes(gone.answer), bytes(gone.statement)) == (b"", b"", b"")


@pytest.mark.parametrize("is_erased", [False, True])
def test_the_evidence_pack_of_a_task_verifies(
    is_erased: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    intent_id = waiting(monkeypatch)
    assert not isinstance(answer(task(intent_id), person()), Problem)
    dfid = trading_desk.intent(intent_id).flow_id
    if is_erased:
        erased = erasure.erase(tenant=trading_desk.TENANT, dfids=[dfid], reason="Asked to", actor="user:1")
        assert not isinstance(erased, Problem), erased
    code, checked = exported_packs.verified(exported_packs.make(dfid), tmp_path)
    assert code == 0, checked
