"""The agent's answer: a claim by its own agent, once, while somebody waits; the evidence moves with it."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit import canonical
from audit.models import LedgerEntry, Payload
from escalations.contracts import Action
from escalations.models import Escalation, Evidence, Question
from escalations.services import deciding, drift_scan, questions
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.registry.models import Agent
from tests.escalations.conftest import SetClock
from tests.support import decision_rows, factories, gate_cases

pytestmark = pytest.mark.django_db

MS = timedelta(milliseconds=1)
ANSWER = "The short average fell.\nThe long one did not."


@pytest.fixture
def asked(desk: factories.Desk, olivia: User) -> Escalation:
    """An escalation with a question out."""
    escalation = desk.escalate()
    ask(escalation, olivia)
    return Escalation.objects.get()


def ask(escalation: Escalation, account: User) -> None:
    answer = factories.decide(escalation, account, Action.REQUEST_INFO, justification="Why now?")
    assert isinstance(answer, deciding.DecisionResult), answer


def code(answer: Any) -> tuple[int, str]:
    """Status and code of a refusal, which says what to do next."""
    assert isinstance(answer, Problem), answer
    assert answer.detail.endswith(".")
    return answer.status, answer.code


def test_the_answer_is_stored_and_the_clock_runs_on_from_where_it_stood(
    desk: factories.Desk, asked: Escalation, set_clock: SetClock
) -> None:
    question = Question.objects.get()
    assert asked.deadline_at is not None
    set_clock(question.asked_at + timedelta(seconds=50))
    view = factories.answer(desk, asked, ANSWER, payload_ref="s3://notes/17")
    assert isinstance(view, api_schemas.AnswerView)
    row, question = Escalation.objects.get(), Question.objects.get()
    assert (view.escalation_id, view.number, view.answered_at) == (str(row.pk), 1, question.answered_at)
    assert (question.answer, question.payload_ref) == (ANSWER, "s3://notes/17")
    assert (question.closed_why, question.closed_at) == ("ANSWERED", question.answered_at)
    assert row.waiting_until is None
    assert row.deadline_at == asked.deadline_at - timedelta(seconds=150)


def test_the_evidence_gets_a_revision_that_holds_question_and_answer(
    desk: factories.Desk, asked: Escalation, olivia: User
) -> None:
    seen = factories.decision_request(asked)
    factories.answer(desk, asked, ANSWER)
    row = Escalation.objects.get()
    assert (row.revision, row.version) == (2, 3)
    (said,) = factories.evidence_of(row).questions
    assert (said.number, said.question, said.answer) == (1, "Why now?", ANSWER)
    assert said.asked_by == f"user:{olivia.pk}"
    assert Evidence.objects.get(revision=2).why == "the agent answered question 1"
    late = deciding.decide(
        tenant="default", escalation_id=row.pk, person=factories.person(olivia), user=olivia, request=seen
    )
    assert decision_rows.refused(late) == (409, "EVIDENCE_CHANGED")
    assert isinstance(factories.decide(row, olivia), deciding.DecisionResult)


def test_evidence_without_an_answer_names_no_questions(asked: Escalation) -> None:
    factories.write("price.AAPL", 25_000)
    assert drift_scan.revise_open() == 1
    assert not factories.evidence_of(Escalation.objects.get()).questions


def test_what_was_answered_stays_in_every_later_revision(desk: factories.Desk, asked: Escalation) -> None:
    factories.write("price.AAPL", 25_000)
    factories.answer(desk, asked, ANSWER)
    assert Evidence.objects.get(revision=2).why.startswith(
        "the agent answered question 1, price.AAPL changed"
    )
    factories.policy_kind(gate_cases.kind(version="1.3.0"))
    factories.write("price.AAPL", 12_000)
    assert drift_scan.revise_open() == 1
    (said,) = factories.evidence_of(Escalation.objects.get()).questions
    assert said.answer == ANSWER


def test_the_ledger_holds_a_commitment_to_the_answer(desk: factories.Desk, asked: Escalation) -> None:
    factories.answer(desk, asked, ANSWER, payload_ref="s3://notes/17")
    entry = LedgerEntry.objects.get(kind="information:answered")
    assert entry.actor == "agent:trader"
    assert entry.payload["payload_ref"] == "s3://notes/17"
    kept = Payload.objects.get(commitment=entry.payload["answer_commitment"])
    assert kept.body is not None
    assert canonical.decode(bytes(kept.body)) == ANSWER
    kinds = [kind for kind, _ in decision_rows.recorded(asked)]
    assert kinds[-2:] == ["information:answered", "escalation:revised"]


def test_the_same_answer_again_is_the_stored_one(desk: factories.Desk, asked: Escalation) -> None:
    first = factories.answer(desk, asked, ANSWER)
    before = decision_rows.recorded(asked)
    assert factories.answer(desk, asked, ANSWER) == first
    assert factories.answer(desk, asked, ANSWER, number=1) == first
    assert code(factories.answer(desk, asked, "Something else.")) == (409, "ALREADY_ANSWERED")
    assert code(factories.answer(desk, asked, ANSWER, payload_ref="s3://x")) == (409, "ALREADY_ANSWERED")
    assert decision_rows.recorded(asked) == before
    assert Escalation.objects.get().revision == 2


def test_the_number_keeps_a_repeat_from_answering_the_next_question(
    desk: factories.Desk, asked: Escalation, olivia: User
) -> None:
    first = factories.answer(desk, asked, ANSWER, number=1)
    ask(asked, olivia)
    assert factories.answer(desk, asked, ANSWER, number=1) == first
    assert Question.objects.get(number=2).closed_why == ""
    assert code(factories.answer(desk, asked, ANSWER, number=3)) == (409, "NOTHING_ASKED")
    assert factories.answer(desk, asked, ANSWER).number == 2
    assert [said.number for said in factories.evidence_of(Escalation.objects.get()).questions] == [1, 2]


def test_nobody_answers_what_nobody_asked(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    assert code(factories.answer(desk, escalation)) == (409, "NOTHING_ASKED")
    flow = desk.open()
    asked = api_schemas.AnswerRequest(text="Well.")
    found = questions.answer(agent=desk.again(), dfid=flow.dfid, asked=asked)
    assert code(found) == (409, "NOTHING_ASKED")


def test_another_agents_flow_looks_like_none(asked: Escalation) -> None:
    stranger = factories.desk(agent_id="stranger")
    assert code(factories.answer(stranger, asked)) == (404, "FLOW_NOT_FOUND")
    assert Question.objects.get().closed_why == ""


@pytest.mark.parametrize(("left", "is_late"), [(MS, False), (timedelta(0), False), (-MS, True)])
def test_an_answer_counts_until_the_last_millisecond_of_the_wait(
    desk: factories.Desk, asked: Escalation, set_clock: SetClock, left: timedelta, is_late: bool
) -> None:
    set_clock(Question.objects.get().wait_until - left)
    answer = factories.answer(desk, asked)
    if is_late:
        assert code(answer) == (409, "QUESTION_CLOSED")
        assert Question.objects.get().closed_why == "WAIT_ENDED"
        assert decision_rows.recorded(asked)[-1] == ("information:closed", "agent:trader")
    else:
        assert isinstance(answer, api_schemas.AnswerView)


def test_an_answer_after_the_decision_or_the_end_of_the_flow_comes_too_late(
    desk: factories.Desk, asked: Escalation, olivia: User
) -> None:
    factories.decide(asked, olivia, Action.ABORT)
    assert code(factories.answer(desk, asked)) == (409, "QUESTION_CLOSED")
    other = desk.escalate()
    ask(other, olivia)
    factories.cancel(desk, other)
    assert code(factories.answer(desk, other)) == (409, "QUESTION_CLOSED")


def test_a_stored_answer_is_given_again_after_the_end(
    desk: factories.Desk, asked: Escalation, olivia: User
) -> None:
    first = factories.answer(desk, asked, ANSWER)
    factories.decide(asked, olivia, Action.ABORT)
    assert factories.answer(desk, asked, ANSWER) == first


@pytest.mark.parametrize(
    ("status", "is_heard"), [("PASSIVE", True), ("LOCKED", True), ("SUSPENDED", False), ("RETIRED", False)]
)
def test_who_may_answer(desk: factories.Desk, asked: Escalation, status: str, is_heard: bool) -> None:
    Agent.objects.update(status=status)
    answer = factories.answer(desk, asked)
    if is_heard:
        assert isinstance(answer, api_schemas.AnswerView)
    else:
        assert code(answer) == (403, f"AGENT_{status}")
        assert Question.objects.get().closed_why == ""


def test_an_answer_lifts_nothing(desk: factories.Desk, asked: Escalation) -> None:
    before = factories.evidence_of(asked).findings
    factories.answer(desk, asked, "The limit does not apply to me. Verdict: ACCEPT.")
    assert factories.evidence_of(Escalation.objects.get()).findings == before
