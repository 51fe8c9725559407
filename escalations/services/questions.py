"""Questions to the agent: a person asks, the agent answers; meanwhile the deadline is paused.

The answer is a claim: it is shown as one, and the evidence gets a new revision with it.
"""

import logging
import secrets
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from audit import actors, canonical, events, ledger
from audit.payload_keys import PayloadClass
from audit.sealing import own_key
from audit.verification.verify import UNREADABLE
from escalations import policy
from escalations.contracts import WITH_DEADLINE, Closing, State
from escalations.evidence_contracts import InterruptEvidence, JudgedEvidence
from escalations.models import Escalation, Question
from escalations.models.question import IS_OPEN
from escalations.services import comparing, escalation_locks, evidence_revision, interrupt_evidence
from escalations.services.statements import AuthorizedDecision
from runtime.contracts import api_schemas, timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import AGENT_STATUS_CODES, ProblemCode
from runtime.contracts.redaction import RedactedIn, Redaction, TextPattern
from runtime.contracts.states import FeedbackType
from runtime.core import clock, transactions
from runtime.flows.models import Flow, Verdict
from runtime.flows.services import flows, redacting
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import redaction
from runtime.proposals.queries import stored_cases
from runtime.registry.models import Agent

_MS = timedelta(milliseconds=1)
_BATCH = 200
_EVERY_PATTERN = tuple(Redaction(id=pattern.value, pattern=pattern) for pattern in TextPattern)

_log = logging.getLogger(__name__)


@transactions.retried
def answer(*, agent: Agent, dfid: UUID, asked: api_schemas.AnswerRequest) -> api_schemas.AnswerView | Problem:
    """Store the answer to the open question of a flow; the same answer again is the stored one.

    404 for a flow that is not the agent's; 403 for an agent that a person has suspended; 409 NOTHING_ASKED,
    QUESTION_CLOSED (waited for long enough, or decided without it) or ALREADY_ANSWERED (with other words).
    """
    rows = Escalation.objects.of(agent.tenant).filter(flow=dfid, family__in=WITH_DEADLINE)
    newest = rows.order_by("-opened_at", "-escalation_id").values_list("escalation_id", flat=True).first()
    if not Flow.objects.of(agent.tenant).filter(dfid=dfid, agent=agent).exists():
        return flows.not_found()
    locked = (
        None
        if newest is None
        else escalation_locks.lock_escalation(escalation_id=newest, tenant=agent.tenant)
    )
    if locked is None:
        return _nothing_asked(dfid)
    if locked.agent.status in policy.SILENCED:
        detail = f"The agent is {locked.agent.status}: its answers are refused until an admin restores it."
        return Problem(code=AGENT_STATUS_CODES[locked.agent.status], detail=detail, dfid=str(dfid))
    journal = Journal(flow=locked.flow, actor=actors.agent(agent.agent_id), at=locked.at)
    overdue = stop_overdue(escalation=locked.escalation, at=journal.at)
    if overdue:
        journal.add(*overdue)
        journal.write()
    # Without a number the newest is meant, since only that can be open.
    questions = Question.objects.filter(escalation=locked.escalation)
    if asked.number is not None:
        questions = questions.filter(number=asked.number)
    question = questions.order_by("-number").first()
    if question is None:
        return _nothing_asked(dfid)
    row = locked.escalation
    taken = redaction.redact(asked.text, _redaction_rules(row), source=RedactedIn.ANSWER)
    if question.closed_why or row.state != State.OPEN:
        return _repeated(question, taken.value, asked.payload_ref or "")
    basis = comparing.check_basis(row)
    question.answer, question.payload_ref = taken.value, asked.payload_ref or ""
    question.answered_at = journal.at
    close(question=question, escalation=row, at=journal.at, why=Closing.ANSWERED)
    commitment = ledger.commit_payload(
        tenant=row.tenant, data_class=PayloadClass.PEOPLE, body=canonical.encode(question.answer)
    )
    journal.add(
        events.InformationAnswered(
            escalation_id=str(row.pk),
            number=question.number,
            answer_commitment=commitment,
            payload_ref=asked.payload_ref,
        )
    )
    redacting.note(journal, taken.times, source=RedactedIn.ANSWER, about=str(row.pk), number=question.number)
    # Evidence that does not match the ledger is not revised: the answer is kept, and the case stays open.
    journal.add(*(mismatch.event() for mismatch in basis.mismatches))
    if isinstance(basis.evidence, JudgedEvidence):
        evidence_revision.revise_with_answer(
            escalation=row,
            shown=basis.evidence,
            flow=locked.flow,
            agent=locked.agent,
            journal=journal,
            number=question.number,
        )
    elif isinstance(basis.evidence, InterruptEvidence):
        interrupt_evidence.revise_with_answer(
            escalation=row, shown=basis.evidence, journal=journal, number=question.number
        )
    journal.write()
    return _view(question)


def _redaction_rules(escalation: Escalation) -> tuple[Redaction, ...]:
    """Those of the kind under which the gate asked for a person; without it, every pattern there is."""
    if escalation.proposal_id is None:
        return _EVERY_PATTERN
    try:
        kind = stored_cases.get_case(proposal_id=escalation.proposal_id).rules.kind
    except (*UNREADABLE, Verdict.DoesNotExist):
        kind = None
    return _EVERY_PATTERN if kind is None else kind.redact


def _repeated(question: Question, text: str, payload_ref: str) -> api_schemas.AnswerView | Problem:
    dfid = question.escalation.flow_id
    if question.closed_why != Closing.ANSWERED:
        return Problem(
            code=ProblemCode.QUESTION_CLOSED,
            detail="This question is closed. Read the feedback for the outcome of the flow.",
            dfid=str(dfid),
        )
    if (question.answer, question.payload_ref) != (text, payload_ref):
        return Problem(
            code=ProblemCode.ALREADY_ANSWERED,
            detail="The question already has a different answer; answers cannot be changed.",
            dfid=str(dfid),
        )
    return _view(question)


def _nothing_asked(dfid: UUID) -> Problem:
    return Problem(
        code=ProblemCode.NOTHING_ASKED,
        detail="There is no such question. Answer only after INFORMATION_REQUESTED in the feedback.",
        dfid=str(dfid),
    )


def _view(question: Question) -> api_schemas.AnswerView:
    if question.answered_at is None:
        raise ValueError("an answered question has no answered_at")
    return api_schemas.AnswerView(
        escalation_id=str(question.escalation_id), number=question.number, answered_at=question.answered_at
    )


def ask(*, order: AuthorizedDecision, journal: Journal) -> Question:
    """Put the question that policy allowed: stop the clock, sign who asked on what evidence, tell the agent.

    The text may be personal: the ledger holds a commitment to it.
    """
    row, text = order.escalation, order.request.justification
    number = Question.objects.filter(escalation=row).count() + 1
    until = start(escalation=row, at=order.at)
    statement = canonical.encode(
        {
            "type": "dir-console/question/1",
            "tenant": row.tenant,
            "escalation_id": str(row.pk),
            "dfid": str(row.flow_id),
            "number": number,
            "revision": row.revision,
            "evidence_hash": row.evidence_hash,
            "impact": row.impact,
            "question": text,
            "asked_by": actors.user(order.person.user_id),
            "solo": order.solo,
            "asked_at": timestamps.iso(order.at),
            "until": timestamps.iso(until),
            "nonce": secrets.token_hex(16),
        }
    )
    signer = own_key.signer(tenant=row.tenant, at=order.at)
    question = Question.objects.create(
        escalation=row,
        number=number,
        text=text,
        asked_by=order.user,
        asked_at=order.at,
        wait_until=until,
        revision=row.revision,
        evidence_hash=row.evidence_hash,
        statement=statement,
        signature=signer.sign(statement),
        key_id=signer.key_id,
    )
    journal.add(
        events.InformationRequested(
            escalation_id=str(row.pk),
            number=number,
            text_commitment=ledger.commit_payload(
                tenant=row.tenant, data_class=PayloadClass.PEOPLE, body=canonical.encode(text)
            ),
            revision=row.revision,
            evidence_hash=row.evidence_hash,
            until=until,
            statement_digest=canonical.digest(statement),
            signature=question.signature.hex(),
            key_id=signer.key_id,
        )
    )
    details = {
        "escalation_id": str(row.pk),
        "number": number,
        "question": text,
        "until": timestamps.iso(until),
    }
    journal.notify_agent(FeedbackType.INFORMATION_REQUESTED, details)
    return question


def start(*, escalation: Escalation, at: datetime) -> datetime:
    """Stop the clock for one question; returns until when. The caller holds the escalation's lock."""
    if escalation.deadline_at is None:
        raise ValueError("an escalation without a deadline has no clock to stop")
    closed = Question.objects.filter(escalation=escalation, closed_at__isnull=False)
    waited = sum(  # for how long earlier questions stopped the clock
        (
            closed_at - asked_at
            for asked_at, closed_at in closed.values_list("asked_at", "closed_at")
            if closed_at
        ),
        timedelta(),
    )
    term = escalation.deadline_at - escalation.opened_at - waited
    wait = _MS * policy.wait_ms(term_ms=term // _MS, longest_ms=settings.DIR_QUESTION_S * 1000)
    escalation.deadline_at += wait
    escalation.waiting_until = at + wait
    escalation.version += 1
    escalation.save(update_fields=["deadline_at", "waiting_until", "version"])
    return escalation.waiting_until


def close(*, question: Question, escalation: Escalation, at: datetime, why: Closing) -> None:
    """End the wait: the clock resumes where it was paused. Saves what `question` holds."""
    question.closed_at, question.closed_why = min(at, question.wait_until), why
    question.save(update_fields=["answer", "payload_ref", "answered_at", "closed_at", "closed_why"])
    if escalation.deadline_at is not None:
        escalation.deadline_at -= question.wait_until - question.closed_at
    escalation.waiting_until = None
    escalation.save(update_fields=["deadline_at", "waiting_until"])


def stop(*, escalation: Escalation, at: datetime, why: Closing) -> list[events.Event]:
    """Close the open question unanswered, where there is one; returns the entry for the journal."""
    question = get_open(escalation)
    if question is None:
        return []
    close(question=question, escalation=escalation, at=at, why=why)
    return [events.InformationClosed(escalation_id=str(escalation.pk), number=question.number, why=why)]


def stop_overdue(*, escalation: Escalation, at: datetime) -> list[events.Event]:
    """`stop`, where the wait has ended. The version stays, so that open forms remain valid."""
    if escalation.waiting_until is None or at <= escalation.waiting_until:
        return []
    return stop(escalation=escalation, at=at, why=Closing.WAIT_ENDED)


def get_open(escalation: Escalation) -> Question | None:
    """The question that is out."""
    return Question.objects.filter(IS_OPEN, escalation=escalation).first()


def stop_all_overdue() -> int:
    """Close every question that was waited for long enough; returns how many. For the sweeper."""
    due = Escalation.objects.filter(state=State.OPEN, waiting_until__lt=clock.now())
    closed = 0
    for escalation_id, tenant in list(due.values_list("escalation_id", "tenant")[:_BATCH]):
        try:
            closed += _stop_one(escalation_id, tenant)
        except Exception:
            _log.exception("the question of escalation %s could not be closed", escalation_id)
    return closed


@transactions.retried
def _stop_one(escalation_id: UUID, tenant: str) -> int:
    locked = escalation_locks.lock_escalation(escalation_id=escalation_id, tenant=tenant)
    if locked is None or locked.escalation.state != State.OPEN:
        return 0
    journal = Journal(flow=locked.flow, actor=actors.SYSTEM, at=locked.at)
    closed = stop_overdue(escalation=locked.escalation, at=journal.at)
    if not closed:
        return 0
    journal.add(*closed)
    journal.write()
    return 1
