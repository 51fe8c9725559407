"""A person asks a target, by the key of a call in doubt, what became of it: the probe, outside any claim.

The same request, gate and circuit as a probe of the runtime. The answer is information for whoever decides:
it settles nothing and moves no intent, since a person has been asked, and decides with a signature.
"""

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from audit import canonical, events, ledger
from audit.payload_keys import PayloadClass
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass, Receipt
from runtime.contracts.redaction import RedactedIn, Redaction
from runtime.contracts.states import AttemptState, Purpose, QueryResult
from runtime.contracts.verdict import StepRequest
from runtime.core import clock, transactions
from runtime.epochs.services import boots
from runtime.execution.adapters.executors import registry
from runtime.execution.adapters.executors.call import RawAnswer
from runtime.execution.queries import status_queries
from runtime.execution.services import calling, circuit, recovery
from runtime.flows.models import Attempt
from runtime.flows.queries import calls_in_doubt, due_intents, recorded_flow
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services import locks, redacting
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import redaction
from runtime.registry.queries import target_endpoints
from runtime.registry.queries.target_endpoints import TargetEndpoint
from runtime.stops.services import call_gate

EVERY = timedelta(seconds=5)
SHOWN_BYTES = 16 * 1024
_HEADER_CHARS = 200
# What helps to read an answer. Cookies and the like stay where they are.
_HEADERS = frozenset(
    ("content-type", "content-length", "date", "server", "retry-after", "location", "etag", "x-request-id")
)
_HELD = {
    due_intents.SYSTEM_STOPPED: "Everything is stopped: no target is called. Lift the stop first.",
    due_intents.AGENT_STOPPED: "The agent is stopped: nothing is sent for it. Resume it first.",
}
_RECOVERING = "The database is in recovery: no target is called."
TAMPERED = "What is stored of this call or its target does not match the ledger, so nothing is sent."

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A recorded question that may be sent: all that it needs, so that sending it reads nothing."""

    intent_id: UUID
    number: int
    query: int
    tenant: str
    agent_pk: int
    actor: str
    step: StepRequest
    place: TargetEndpoint
    traceparent: str

    @property
    def trial(self) -> str:
        """The name under which it is the trial call of a half-open circuit."""
        return f"{self.intent_id}/query-{self.query}"


@dataclass(kw_only=True)
class _Answer:
    """What came back: `why` where nothing was sent, else `result`; `raw` is the answer as it came."""

    result: CallResult | None = None
    why: str = ""
    raw: list[RawAnswer] = field(default_factory=list)
    took_ms: int = 0


def ask(*, tenant: str, intent_id: UUID, number: int, actor: str) -> QueryResult | Problem:
    """Ask the target about a call that waits for a person, and record question and answer.

    Blocks for as long as the answer takes, at most `calling.ASKED_TIMEOUT_S` seconds. Of two people at once
    one asks, and the other is refused (ASKED_JUST_NOW).

    Raises:
        transactions.BusyError: the rows were too contended; nothing was sent then.
    """
    question = transactions.retry_on_conflict(
        lambda: _begin(tenant=tenant, intent_id=intent_id, number=number, actor=actor)
    )
    if isinstance(question, Problem):
        return question
    answer = _send(question)
    return transactions.retry_on_conflict(lambda: _record(question, answer))


def refuse_asking(call: Attempt) -> Problem | None:
    """Why nobody can be asked about a call, whoever wants to know; None where its step has a probe."""
    step = status_queries.step_of(call.intent, key=call.target_key)
    if step is None or step.executor not in registry.REMOTE:
        words = "This call went to no target, so there is nobody to ask."
        return Problem(code=ProblemCode.NO_STATUS_QUERY, detail=words)
    if step.probe is None:
        words = "The policy kind has no probe for this step: no request is known that asks the target by key."
        return Problem(code=ProblemCode.NO_STATUS_QUERY, detail=words)
    return None


def _is_in_doubt(call: Attempt) -> bool:
    """Whether people have yet to find out what became of the call, and the runtime leaves it to them."""
    if call.state != AttemptState.UNKNOWN or call.purpose != Purpose.CALL:
        return False
    if call.effect and not call.contradicts:
        return False
    intent = call.intent
    return intent.state in recovery.WITH_PEOPLE or (
        calls_in_doubt.get_left(intent=intent, number=call.number) is not None
    )


def _begin(*, tenant: str, intent_id: UUID, number: int, actor: str) -> Question | Problem:
    found = locks.lock_intent(intent_id=intent_id)
    call = Attempt.objects.select_related("intent").filter(intent=intent_id, number=number).first()
    if found is None or call is None or found[0].tenant != tenant:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No call has this intent and number.")
    flow, intent = found
    if not _is_in_doubt(call):
        return Problem(code=ProblemCode.NOT_IN_DOUBT, detail="This call is not, or no longer, in doubt.")
    refused = refuse_asking(call)
    if refused is not None:
        return refused
    journal = Journal(flow=flow, actor=actor, at=clock.now())
    step = status_queries.step_of(intent, key=call.target_key)
    target = None if step is None else target_endpoints.get_target(tenant=tenant, name=step.target)
    if step is None or target is None:
        words = "The target of this call is not configured any more."
        return Problem(code=ProblemCode.NO_STATUS_QUERY, detail=words)
    recorded = recorded_flow.of_flow(tenant=tenant, dfid=flow.dfid)
    moved = recorded.compare_intent(intent) or recorded.compare_target(target)
    if moved is not None:
        journal.add(moved.event())
        journal.write()
        return Problem(code=ProblemCode.TAMPERED, detail=TAMPERED)
    before = status_queries.get_newest(call=call)
    if before is not None and journal.at < _free_at(before):
        words = (
            f"The target was asked about this call just now. Wait {EVERY.seconds} seconds between questions."
        )
        return Problem(code=ProblemCode.ASKED_JUST_NOW, detail=words)
    question = Question(
        intent_id=intent.pk,
        number=number,
        query=1 if before is None else before.query + 1,
        tenant=tenant,
        agent_pk=flow.agent_id,
        actor=actor,
        step=step,
        place=target_endpoints.place_of(target),
        traceparent=flow.traceparent,
    )
    held = _held_by(question, journal)
    if held is not None:
        return held
    journal.add(
        events.StatusQueryStarted(
            intent_id=str(intent.pk),
            number=number,
            target_key=call.target_key,
            target=step.target,
            query=question.query,
        )
    )
    journal.write()
    return question


def _free_at(before: status_queries.StatusQuery) -> datetime:
    """When the target may be asked again: a question that is under way is over before that, too."""
    if before.found is None:
        return before.asked_at + timedelta(seconds=calling.ASKED_TIMEOUT_S) + EVERY
    return before.asked_at + EVERY


def _held_by(question: Question, journal: Journal) -> Problem | None:
    """What keeps back every call now: a stop, a restored database, another server, or the circuit."""
    why = due_intents.get_standing(agent_pk=question.agent_pk).stopped_by
    if why is not None:
        return Problem(code=ProblemCode.TARGET_HELD, detail=_HELD.get(why, _RECOVERING))
    if boots.is_superseded():
        return Problem(code=ProblemCode.TARGET_HELD, detail="Another server has taken over this database.")
    until = circuit.try_acquire_query(
        tenant=question.tenant, target=question.step.target, probe=question.trial, at=journal.at
    )
    if until is None:
        return None
    words = (
        f"The circuit of {question.step.target} is open after repeated failures; nothing is sent to it yet."
    )
    return Problem(code=ProblemCode.TARGET_HELD, detail=words)


def _send(question: Question) -> _Answer:
    answer = _Answer()
    transactions.give_back_connection()
    begun_s = time.monotonic()
    try:
        answer.result = calling.ask(
            step=question.step,
            place=question.place,
            message=f"{question.step.key}-query-{question.query}",
            traceparent=question.traceparent,
            gate=partial(call_gate.querying, tenant=question.tenant, agent_pk=question.agent_pk),
            observe=answer.raw.append,
        )
    except call_gate.ClosedError as error:
        answer.why = error.why
    except Exception:
        _log.exception("executor crashed when it asked about intent %s", question.intent_id)
        answer.result = Failure(
            category=FailureCategory.EXECUTOR_CRASHED,
            failure_class=FailureClass.UNKNOWN,
            detail="the executor failed unexpectedly",
        )
    answer.took_ms = round((time.monotonic() - begun_s) * 1000)
    return answer


def _record(question: Question, answer: _Answer) -> QueryResult:
    found = locks.lock_intent(intent_id=question.intent_id)
    if found is None:
        raise LookupError("an intent is never deleted")
    flow, intent = found
    journal = Journal(flow=flow, actor=question.actor, at=clock.now())
    circuit.report_query(journal, target=question.step.target, probe=question.trial, result=answer.result)
    result, meant = answer.result, _meaning(answer)
    commitment = None
    if answer.raw:
        shown, times = _shown(answer.raw[-1], IntentPlan.of(intent).redact)
        redacting.note(
            journal, times, source=RedactedIn.RECEIPT, about=str(intent.pk), number=question.number
        )
        body = canonical.encode(shown)
        commitment = ledger.commit_payload(
            tenant=question.tenant, data_class=PayloadClass.RECEIPTS, body=body
        )
    journal.add(
        events.StatusQueryFinished(
            intent_id=str(question.intent_id),
            number=question.number,
            target_key=question.step.key,
            query=question.query,
            found=meant,
            took_ms=answer.took_ms,
            status_code=None if result is None else result.status_code,
            error_category=result.category if isinstance(result, Failure) else None,
            answer_commitment=commitment,
            why=answer.why or None,
        )
    )
    journal.write()
    return meant


def _meaning(answer: _Answer) -> QueryResult:
    """Read an answer as the runtime reads that of a probe."""
    if answer.result is None:
        return QueryResult.NOT_SENT
    if isinstance(answer.result, Receipt):
        return QueryResult.FOUND
    is_absent = answer.result.category is FailureCategory.NOT_HAPPENED
    return QueryResult.NOT_FOUND if is_absent else QueryResult.UNKNOWN


def _shown(raw: RawAnswer, rules: Sequence[Redaction]) -> tuple[dict[str, object], Mapping[str, int]]:
    """The part of an answer that is kept: its status, the headers that matter, and the start of its body.

    With it, how often which redaction rule was applied. A body in which a field cannot be looked up is left
    out where the kind redacts fields.
    """
    headers = [[name, value[:_HEADER_CHARS]] for name, value in raw.headers if name.lower() in _HEADERS]
    text, is_cut = raw.body.decode("utf-8", "replace"), raw.is_cut
    taken = redaction.redact_document(text, rules)
    if taken is None:
        taken, is_cut = redaction.Redacted(value="", times={}), True
    of_headers = redaction.redact(headers[: len(_HEADERS)], rules, source=RedactedIn.RECEIPT)
    kept = str(taken.value).encode()[:SHOWN_BYTES].decode("utf-8", "ignore")
    shown = {
        "status_code": raw.status_code,
        "headers": of_headers.value,
        "body": kept,
        "is_cut": is_cut or kept != taken.value,
    }
    return shown, Counter(taken.times) + Counter(of_headers.times)
