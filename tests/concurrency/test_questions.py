"""Questions under real threads: one question, one answer, and one end of each."""

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User

from escalations.contracts import Action
from escalations.models import Decision, Escalation, Evidence, Question
from escalations.services import deadlines, deciding
from escalations.services.decision_request import DecisionRequest
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.flows.models import Feedback
from runtime.flows.services import flows
from tests.support import factories, racing


@pytest.fixture
def desk(real_db: str) -> factories.Desk:
    return factories.desk()


def send(escalation: Escalation, account: User, request: DecisionRequest) -> Any:
    """Post a form that was filled in before the race."""
    return racing.patiently(
        lambda: deciding.decide(
            tenant="default",
            escalation_id=escalation.pk,
            person=factories.person(account),
            user=account,
            request=request,
        )
    )


def reply(desk: factories.Desk, escalation: Escalation, text: str = "Because.") -> Any:
    return racing.patiently(lambda: factories.answer(desk, escalation, text))


def result(answer: Any) -> str:
    """What was done, a refusal as its code, a bug as its words."""
    match answer:
        case deciding.DecisionResult():
            return str(answer.action.value)
        case api_schemas.AnswerView():
            return "ANSWERED"
        case Problem():
            return answer.code
        case _:
            return repr(answer)


def ask(escalation: Escalation, account: User) -> Escalation:
    """A question that is out; the row as it is then."""
    answer = factories.decide(escalation, account, Action.REQUEST_INFO, justification="Why now?")
    assert isinstance(answer, deciding.DecisionResult), answer
    return Escalation.objects.get(pk=escalation.pk)


def test_eight_people_who_ask_at_once_have_asked_one_question(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    assert escalation.deadline_at is not None
    people = [factories.user(f"person{number}") for number in range(8)]
    request = factories.decision_request(escalation, Action.REQUEST_INFO)
    answers = racing.all_at_once([partial(send, escalation, who, request) for who in people])
    counted = Counter(map(result, answers))
    assert counted.pop("REQUEST_INFO") == 1
    assert set(counted) <= {"QUESTION_OPEN", "VERSION_CHANGED"}
    row, question = Escalation.objects.get(), Question.objects.get()
    assert (row.version, row.waiting_until) == (2, question.wait_until)
    assert row.deadline_at == escalation.deadline_at + (question.wait_until - question.asked_at)
    assert Feedback.objects.filter(event_type="INFORMATION_REQUESTED").count() == 1


@pytest.mark.parametrize("repeat", range(3))
@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.ABORT])
def test_an_answer_against_a_decision_has_one_winner(
    desk: factories.Desk, action: Action, repeat: int
) -> None:
    olivia = factories.user("olivia")
    escalation = ask(desk.escalate(), olivia)
    request = factories.decision_request(escalation, action)
    works: list[Any] = [partial(send, escalation, olivia, request), partial(reply, desk, escalation)]
    decided, answered = map(result, racing.all_at_once(works))
    question, row = Question.objects.get(), Escalation.objects.get()
    if question.closed_why == "ANSWERED" and action is Action.ABORT:
        # To stop is taken from any revision, so it also follows an answer that it has not seen.
        assert (decided, answered) == ("ABORT", "ANSWERED")
        assert (row.state, row.revision, Decision.objects.count()) == ("RESOLVED", 2, 1)
    elif question.closed_why == "ANSWERED":
        assert (decided, answered) == ("EVIDENCE_CHANGED", "ANSWERED")
        assert (row.state, row.revision, Decision.objects.count()) == ("OPEN", 2, 0)
    else:
        assert (decided, answered) == (action.value, "QUESTION_CLOSED")
        assert (question.closed_why, row.state, row.revision) == ("DECIDED", "RESOLVED", 1)


def test_one_answer_sent_ten_times_at_once_is_one_revision(desk: factories.Desk) -> None:
    escalation = ask(desk.escalate(), factories.user("olivia"))
    answers = racing.all_at_once([partial(reply, desk, escalation)] * 10)
    assert {result(answer) for answer in answers} == {"ANSWERED"}
    assert len({answer.answered_at for answer in answers if isinstance(answer, api_schemas.AnswerView)}) == 1
    assert Evidence.objects.filter(escalation=escalation).count() == 2


def test_of_different_answers_at_once_one_stands(desk: factories.Desk) -> None:
    escalation = ask(desk.escalate(), factories.user("olivia"))
    works = [partial(reply, desk, escalation, f"Answer {number}.") for number in range(6)]
    assert Counter(map(result, racing.all_at_once(works))) == {"ANSWERED": 1, "ALREADY_ANSWERED": 5}
    assert Evidence.objects.filter(escalation=escalation).count() == 2


def test_an_answer_and_the_sweeper_at_the_end_of_the_wait_have_one_winner(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    escalation = ask(desk.escalate(), factories.user("olivia"))
    before = escalation.deadline_at
    late = Question.objects.get().wait_until + timedelta(milliseconds=1)
    monkeypatch.setattr(clock, "now", lambda: late)
    works: list[Any] = [partial(reply, desk, escalation), deadlines.sweep, deadlines.sweep]
    answered, *_ = map(result, racing.all_at_once(works))
    assert answered == "QUESTION_CLOSED"
    row = Escalation.objects.get()
    assert (row.state, row.waiting_until, row.deadline_at) == ("OPEN", None, before)
    assert Question.objects.get().closed_why == "WAIT_ENDED"


def test_an_answer_and_a_withdrawal_of_the_flow_have_one_end(desk: factories.Desk) -> None:
    escalation = ask(desk.escalate(), factories.user("olivia"))
    withdraw = partial(flows.cancel, agent=desk.again(), dfid=escalation.flow_id, reason="")
    works: list[Any] = [partial(reply, desk, escalation), lambda: racing.patiently(withdraw)]
    answered, _ = map(result, racing.all_at_once(works))
    row = Escalation.objects.get()
    assert (row.state, row.waiting_until) == ("WITHDRAWN", None)
    expected = {"ANSWERED": "ANSWERED", "QUESTION_CLOSED": "WITHDRAWN"}
    assert Question.objects.get().closed_why == expected[answered]
