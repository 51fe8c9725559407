"""What the agent answers to a person's question. A claim: shown as such, and the evidence moves with it."""

from uuid import UUID

from audit import canonical, events, ledger
from escalations import policy
from escalations.contracts import Closing, Family, State
from escalations.models import Escalation, Question
from escalations.services import comparing, holding, revising, waiting
from escalations.services.holding import Held
from runtime.contracts import wire
from runtime.contracts.problem import Problem
from runtime.models import Agent, Flow
from runtime.services import flows, races
from runtime.services.journal import Journal


def answer(*, agent: Agent, dfid: UUID, asked: wire.AnswerRequest) -> wire.AnswerView | Problem:
    """Store the answer to the open question of a flow; the same answer again is the stored one.

    404 for a flow that is not the agent's; 403 for an agent that a person has suspended; 409 NOTHING_ASKED,
    QUESTION_CLOSED (waited for long enough, or decided without it) or ALREADY_ANSWERED (with other words).
    """
    return races.run(lambda: _answer(agent, dfid, asked))


def _answer(agent: Agent, dfid: UUID, asked: wire.AnswerRequest) -> wire.AnswerView | Problem:
    rows = Escalation.objects.of(agent.tenant).filter(flow=dfid, family=Family.DECISION)
    newest = rows.order_by("-opened_at", "-escalation_id").values_list("escalation_id", flat=True).first()
    if not Flow.objects.of(agent.tenant).filter(dfid=dfid, agent=agent).exists():
        return flows.not_found()
    held = None if newest is None else holding.hold(escalation_id=newest, tenant=agent.tenant)
    if held is None:
        return _nothing_asked(dfid)
    if held.agent.status in policy.SILENCED:
        detail = f"The agent is {held.agent.status}: its answers are refused until an admin restores it."
        return Problem(status=403, code=f"AGENT_{held.agent.status}", detail=detail, dfid=str(dfid))
    journal = Journal(flow=held.flow, actor=f"agent:{agent.agent_id}", at=held.at)
    overdue = waiting.stop_overdue(escalation=held.escalation, at=journal.at)
    if overdue:
        journal.add(*overdue)
        journal.write()
    question = _named(held.escalation, asked.number)
    if question is None:
        return _nothing_asked(dfid)
    if question.closed_why or held.escalation.state != State.OPEN:
        return _repeated(question, asked, dfid)
    _take(held, journal, question, asked)
    journal.write()
    return _view(question)


def _named(escalation: Escalation, number: int | None) -> Question | None:
    """The question of that number; without one the newest, since only that can be open."""
    rows = Question.objects.filter(escalation=escalation)
    return (rows if number is None else rows.filter(number=number)).order_by("-number").first()


def _take(held: Held, journal: Journal, question: Question, asked: wire.AnswerRequest) -> None:
    row = held.escalation
    untrusted = comparing.compare_basis(row)
    question.answer, question.payload_ref = asked.text, asked.payload_ref or ""
    question.answered_at = journal.at
    waiting.close(question=question, escalation=row, at=journal.at, why=Closing.ANSWERED)
    commitment = ledger.commit_payload(tenant=row.tenant, body=canonical.encode(asked.text))
    journal.add(
        events.InformationAnswered(
            escalation_id=str(row.pk),
            number=question.number,
            answer_commitment=commitment,
            payload_ref=asked.payload_ref,
        )
    )
    if untrusted:
        # Evidence that does not match the ledger is not revised: the answer is kept, and the case stays open.
        journal.add(*(mismatch.event() for mismatch in untrusted))
        return
    revising.revise_with_answer(
        escalation=row, flow=held.flow, agent=held.agent, journal=journal, number=question.number
    )


def _repeated(question: Question, asked: wire.AnswerRequest, dfid: UUID) -> wire.AnswerView | Problem:
    if question.closed_why != Closing.ANSWERED:
        return Problem(
            status=409,
            code="QUESTION_CLOSED",
            detail="This question is closed. Read the feedback for the outcome of the flow.",
            dfid=str(dfid),
        )
    if (question.answer, question.payload_ref) != (asked.text, asked.payload_ref or ""):
        return Problem(
            status=409,
            code="ALREADY_ANSWERED",
            detail="The question already has a different answer; answers cannot be changed.",
            dfid=str(dfid),
        )
    return _view(question)


def _nothing_asked(dfid: UUID) -> Problem:
    return Problem(
        status=409,
        code="NOTHING_ASKED",
        detail="There is no such question. Answer only after INFORMATION_REQUESTED in the feedback.",
        dfid=str(dfid),
    )


def _view(question: Question) -> wire.AnswerView:
    if question.answered_at is None:
        raise ValueError("an answered question has no answered_at")
    return wire.AnswerView(
        escalation_id=str(question.escalation_id), number=question.number, answered_at=question.answered_at
    )
