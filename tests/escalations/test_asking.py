"""REQUEST_INFO: it resolves nothing, stops the clock for a while, and is signed like a decision."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.contrib.auth.models import User
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from audit import canonical, signing
from audit.models import LedgerEntry, Payload
from escalations.contracts import Action
from escalations.models import Decision, Escalation, Question
from escalations.services import deadlines, deciding, questions
from runtime.core import clock
from runtime.flows.models import Feedback
from runtime.registry.models import Agent
from tests.escalations.conftest import SetClock
from tests.support import decision_rows, factories

pytestmark = pytest.mark.django_db

MS = timedelta(milliseconds=1)
ASKED = "Which two signals disagree, and by how much?"
# A third of the ten minutes that the kind of `builders` allows.
WAIT = timedelta(seconds=200)


def ask(escalation: Escalation, account: User, **fields: Any) -> Question:
    """The question that stands after asking."""
    answer = factories.decide(
        escalation, account, Action.REQUEST_INFO, **{"justification": ASKED, "typed_again": "", **fields}
    )
    assert isinstance(answer, deciding.DecisionResult), answer
    return Question.objects.filter(escalation=escalation).latest("number")


def now_of(escalation: Escalation) -> Escalation:
    """The row as it is stored now."""
    return Escalation.objects.select_related("flow").get(pk=escalation.pk)


def deadline(escalation: Escalation) -> datetime:
    """The deadline as it is stored now."""
    found = now_of(escalation).deadline_at
    assert found is not None
    return found


def test_asking_resolves_nothing_and_moves_the_version(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    before = deadline(escalation)
    question = ask(escalation, olivia)
    row = now_of(escalation)
    assert (row.state, row.resolution, row.version, row.revision) == ("OPEN", "", 2, 1)
    assert row.flow.state == "ESCALATED"
    assert not Decision.objects.exists()
    assert (question.number, question.text, question.asked_by, question.closed_why) == (1, ASKED, olivia, "")
    assert question.wait_until - question.asked_at == WAIT
    assert row.waiting_until == question.wait_until
    assert row.deadline_at == before + WAIT


def test_the_agent_is_told_what_is_asked_and_until_when(desk: factories.Desk, olivia: User) -> None:
    question = ask(desk.escalate(), olivia)
    told = Feedback.objects.latest("seq")
    assert told.event_type == "INFORMATION_REQUESTED"
    body = canonical.decode(bytes(told.body))
    assert datetime.fromisoformat(body.pop("until")) == question.wait_until.replace(
        microsecond=question.wait_until.microsecond // 1000 * 1000
    )
    assert body == {"escalation_id": str(question.escalation_id), "number": 1, "question": ASKED}


def test_the_ledger_holds_a_commitment_to_the_words_and_the_signed_statement(
    desk: factories.Desk, olivia: User
) -> None:
    question = ask(desk.escalate(), olivia)
    entry = LedgerEntry.objects.get(stream=str(question.escalation.flow_id), kind="information:requested")
    assert entry.actor == f"user:{olivia.pk}"
    assert ASKED.encode() not in bytes(entry.body)
    kept = Payload.objects.get(commitment=entry.payload["text_commitment"])
    assert kept.body is not None
    assert canonical.decode(bytes(kept.body)) == ASKED
    key = Ed25519PublicKey.from_public_bytes(signing.signer().public_key)
    key.verify(bytes.fromhex(entry.payload["signature"]), bytes(question.statement))
    assert entry.payload["statement_digest"] == canonical.digest(bytes(question.statement))
    said = canonical.decode(bytes(question.statement))
    assert (said["type"], said["question"], said["number"]) == ("dir-console/question/1", ASKED, 1)
    assert said["evidence_hash"] == question.evidence_hash == question.escalation.evidence_hash
    assert said["asked_by"] == f"user:{olivia.pk}"


def test_a_question_binds_to_what_was_seen_like_any_action(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    before = decision_rows.state_of(escalation)
    for change, code in (
        ({"evidence_hash": "0" * 64}, "EVIDENCE_CHANGED"),
        ({"version": 9}, "VERSION_CHANGED"),
        ({"impact": "HIGH_IMPACT"}, "IMPACT_CHANGED"),
    ):
        answer = factories.decide(escalation, olivia, Action.REQUEST_INFO, justification=ASKED, **change)
        assert decision_rows.refused(answer) == (409, code)
    answer = factories.decide(escalation, olivia, Action.REQUEST_INFO, justification=" ")
    assert decision_rows.refused(answer) == (400, "JUSTIFICATION_MISSING")
    assert decision_rows.state_of(escalation) == before
    assert not Question.objects.exists()


def test_a_question_is_cheap_whatever_the_impact(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate(params=factories.HIGH_IMPACT)
    stale = factories.person(olivia, confirmed_at_ms=None)
    assert ask(escalation, olivia, who=stale, justification="Why?").number == 1


def test_one_question_at_a_time_and_three_in_all(
    desk: factories.Desk, olivia: User, set_clock: SetClock
) -> None:
    escalation = desk.escalate()
    for number in (1, 2, 3):
        question = ask(escalation, olivia)
        assert question.number == number
        answer = factories.decide(escalation, olivia, Action.REQUEST_INFO, justification=ASKED)
        assert decision_rows.refused(answer) == (409, "QUESTION_OPEN")
        set_clock(question.wait_until + MS)
    answer = factories.decide(escalation, olivia, Action.REQUEST_INFO, justification=ASKED)
    assert decision_rows.refused(answer) == (409, "QUESTIONS_SPENT")
    assert deadline(escalation) - escalation.opened_at == timedelta(seconds=1200)


def test_nobody_asks_an_agent_that_may_not_answer(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    Agent.objects.update(status="SUSPENDED")
    row = now_of(escalation)
    assert row.state == "OPEN"
    answer = factories.decide(escalation, olivia, Action.REQUEST_INFO, justification=ASKED)
    # The gate finds something else in a suspended agent's proposal: first the evidence is looked at anew.
    assert decision_rows.refused(answer) == (409, "EVIDENCE_CHANGED")
    answer = factories.decide(escalation, olivia, Action.REQUEST_INFO, justification=ASKED)
    assert decision_rows.refused(answer) == (409, "AGENT_SILENCED")


@pytest.mark.parametrize("left", [MS, timedelta(0)], ids=["before", "at"])
def test_the_wait_lasts_to_its_last_millisecond(
    desk: factories.Desk, olivia: User, set_clock: SetClock, left: timedelta
) -> None:
    question = ask(desk.escalate(), olivia)
    set_clock(question.wait_until - left)
    assert questions.stop_all_overdue() == 0
    assert Question.objects.get().closed_why == ""


def test_when_no_answer_comes_the_clock_runs_on_and_nobodys_form_is_spoilt(
    desk: factories.Desk, olivia: User, set_clock: SetClock
) -> None:
    escalation = desk.escalate()
    question = ask(escalation, olivia)
    before = now_of(escalation)
    set_clock(question.wait_until + MS)
    assert deadlines.sweep() == 0
    row, closed = now_of(escalation), Question.objects.get()
    assert (closed.closed_why, closed.closed_at) == ("WAIT_ENDED", question.wait_until)
    assert (row.waiting_until, row.deadline_at, row.version) == (None, before.deadline_at, before.version)
    assert decision_rows.recorded(escalation)[-1] == ("information:closed", "system")
    assert decision_rows.last_payload(escalation)["why"] == "WAIT_ENDED"
    assert isinstance(factories.decide(escalation, olivia), deciding.DecisionResult)


def test_the_deadline_stays_away_while_the_question_is_out_and_comes_after(
    desk: factories.Desk, olivia: User, set_clock: SetClock
) -> None:
    escalation = desk.escalate()
    first = deadline(escalation)
    ask(escalation, olivia)
    set_clock(first + MS)
    assert deadlines.sweep() == 0
    assert now_of(escalation).state == "OPEN"
    set_clock(first + WAIT)
    assert deadlines.sweep() == 0
    set_clock(first + WAIT + MS)
    assert deadlines.sweep() == 1
    assert now_of(escalation).state == "EXPIRED"


def test_a_question_asked_at_the_last_millisecond_ends_with_the_deadline(
    desk: factories.Desk, olivia: User, set_clock: SetClock
) -> None:
    escalation = desk.escalate()
    set_clock(deadline(escalation))
    question = ask(escalation, olivia)
    assert question.wait_until == deadline(escalation)
    set_clock(question.wait_until)
    assert deadlines.sweep() == 0
    set_clock(question.wait_until + MS)
    assert deadlines.sweep() == 1
    assert Question.objects.get().closed_why == "WAIT_ENDED"
    assert now_of(escalation).state == "EXPIRED"


def test_a_decision_without_a_sweeper_expires_both(
    desk: factories.Desk, olivia: User, set_clock: SetClock
) -> None:
    escalation = desk.escalate()
    set_clock(deadline(escalation))
    question = ask(escalation, olivia)
    set_clock(question.wait_until + MS)
    answer = factories.decide(escalation, olivia)
    assert decision_rows.refused(answer) == (409, "ALREADY_DECIDED")
    assert (now_of(escalation).state, Question.objects.get().closed_why) == ("EXPIRED", "WAIT_ENDED")


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY, Action.ABORT])
def test_a_decision_closes_the_question_that_is_out(
    desk: factories.Desk, olivia: User, action: Action
) -> None:
    escalation = desk.escalate()
    ask(escalation, olivia)
    answer = factories.decide(escalation, olivia, action, params=factories.OVER_LIMIT)
    assert isinstance(answer, deciding.DecisionResult)
    assert Question.objects.get().closed_why == "DECIDED"
    assert (now_of(escalation).state, now_of(escalation).waiting_until) == ("RESOLVED", None)
    assert "information:closed" in [kind for kind, _ in decision_rows.recorded(escalation)]


def test_a_flow_that_ends_otherwise_closes_the_question(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    ask(escalation, olivia)
    factories.cancel(desk, escalation)
    assert Question.objects.get().closed_why == "WITHDRAWN"
    assert now_of(escalation).state == "WITHDRAWN"


def test_one_question_that_cannot_be_closed_keeps_no_other_out(
    desk: factories.Desk, olivia: User, set_clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned, other = ask(desk.escalate(), olivia), ask(desk.escalate(), olivia)
    set_clock(max(poisoned.wait_until, other.wait_until) + MS)
    stop = questions.stop_overdue

    def fail(*, escalation: Escalation, at: datetime) -> Any:
        if escalation.pk == poisoned.escalation_id:
            raise ValueError("poison")
        return stop(escalation=escalation, at=at)

    monkeypatch.setattr(questions, "stop_overdue", fail)
    assert questions.stop_all_overdue() == 1
    assert Question.objects.get(closed_why="WAIT_ENDED") == other


def test_what_was_closed_between_choosing_and_locking_is_left_alone(
    desk: factories.Desk, olivia: User, set_clock: SetClock
) -> None:
    escalation = desk.escalate()
    question = ask(escalation, olivia)
    assert questions._stop_one(escalation.pk, "default") == 0
    factories.decide(escalation, olivia, Action.ABORT)
    set_clock(question.wait_until + MS)
    assert questions._stop_one(escalation.pk, "default") == 0
    assert questions._stop_one(escalation.pk, "other") == 0


class TestTheClock(TestCase):
    """Whatever is asked and however long it takes, a deadline moves by exactly the time waited."""

    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 300_000)), min_size=1, max_size=3))
    def test_moves_by_the_time_waited(self, turns: list[tuple[int, int]]) -> None:
        desk = factories.desk(agent_id="clocked")
        olivia = factories.user("clocked-person")
        escalation = desk.escalate()
        at, first, waited = clock.now(), deadline(escalation), timedelta()
        with pytest.MonkeyPatch.context() as patch:
            for pause_ms, spent_ms in turns:
                at += pause_ms * MS
                patch.setattr(clock, "now", lambda at=at: at)
                if at > first + waited:
                    break
                ask(escalation, olivia)
                at += spent_ms * MS
                patch.setattr(clock, "now", lambda at=at: at)
                if spent_ms * MS > WAIT:
                    questions.stop_all_overdue()
                    waited += WAIT
                else:
                    factories.answer(desk, escalation)
                    waited += spent_ms * MS
                assert deadline(escalation) == first + waited
