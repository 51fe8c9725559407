"""Consulting other agents about the options of a flow: whom, within which budgets, and the questions to them.

A question is an ordinary message in a conversation of its own, sent in the name of the agent whose flow it
is about. Its answer is taken by `consultation_answers`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final
from uuid import UUID

from audit import actors, canonical
from runtime.advice.models import Consultation
from runtime.advice.queries import consultations
from runtime.advice.services import consultations as advice
from runtime.contracts.advice import Consult, ConsultationsAnswer, ConsultRequest
from runtime.contracts.consultation import MICROS, NONE_OF_THEM, ConsultationBudget
from runtime.contracts.message import MAX_BYTES, Envelope, MessageType
from runtime.contracts.message_payloads import ConsultationRequest
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.conversations.models import Message
from runtime.conversations.queries import capability_list, consultation_list, mailboxes, standing
from runtime.conversations.queries.capability_list import Named
from runtime.conversations.services import posting
from runtime.conversations.services.posting import Received
from runtime.core import clock, ids, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.flows.services import flows
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import conversation as rules
from runtime.kernel.capability_matching import Wanted
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.registry.services import agents
from runtime.resources.queries import compute_left
from runtime.stops.services import call_gate

# Of a question: each of its headers is bounded, and together they are shorter than this.
_ROOM_FOR_HEADERS: Final = 1024
_ENDED = " and consults nobody. Open a new flow."
_LONGEST_REASON: Final = 2000


@dataclass(frozen=True, kw_only=True)
class _Round:
    """One question, and to whom it goes: locked mailboxes with room, and what each call may cost."""

    sender: Agent
    payload: dict[str, Any]
    seconds: int
    named: Sequence[Named]


@transactions.retried
def consult(
    *, agent: Agent, dfid: UUID, asked: ConsultRequest, repeatable: IdempotentRequest | None = None
) -> ConsultationsAnswer | Problem:
    """Ask providers about options in a flow of the agent that has not ended.

    With `repeatable`, a repeat of the call gets the same answer, and another body under the same key 422. 403
    without a budget for it in the manifest, 409 NOT_CONSULTED where no provider is left that may be asked.
    """
    flow = flows.lock_for_call(
        agent=agent, dfid=dfid, call=repeatable, makes="consultation", once_ended=_ENDED
    )
    if isinstance(flow, bytes):
        return ConsultationsAnswer.model_validate_json(flow)
    if isinstance(flow, Problem):
        return flow
    journal = Journal(flow=flow, actor=actors.agent(agent.agent_id), at=clock.now())
    options = [one.model_dump(mode="json") for one in asked.options]
    if len({one["id"] for one in options}) < len(options):
        detail = "Give each option an id of its own."
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail, dfid=str(dfid))
    planned = plan(journal, agent, asked, options)
    if isinstance(planned, Problem):
        return planned
    answer = consultation_list.shown(planned.send())
    if repeatable is not None:
        body = canonical.encode(answer.model_dump(mode="json"))
        journal.keep_answer(agent_pk=agent.pk, call=repeatable, body=body)
    journal.write()
    return answer


def plan(
    journal: Journal, agent: Agent, asked: Consult, options: list[dict[str, Any]]
) -> advice.Plan | Problem:
    """Who would be asked, of those that the registry names now; the caller has locked the flow.

    Not asked is the agent itself, who was asked in this flow before, who says that it takes longer or costs
    more than is left, and who has no room in its mailbox.
    """
    sender = agents.lock_by_pk(pk=agent.pk)
    call_gate.hold_open(tenant=sender.tenant)
    budget = _budget_of(sender)
    if isinstance(budget, Problem):
        return budget
    earlier = consultations.list_rows(journal.flow)
    count = min(asked.providers, budget.per_flow - len(earlier))
    left = budget.cost_units * MICROS - sum(row.cost_micros for row in earlier)
    seconds = _seconds(journal, asked, budget)
    if count < 1 or seconds < 1:
        detail = "The flow has used its budget for consultations, or has no time left."
        return Problem(code=ProblemCode.BUDGET_EXCEEDED, detail=detail, dfid=str(journal.flow.pk))
    payload = _payload(asked, options)
    if len(canonical.encode(payload)) > MAX_BYTES - _ROOM_FOR_HEADERS:
        detail = "The options are longer than a message may be."
        return Problem(code=ProblemCode.BODY_TOO_LARGE, detail=detail, dfid=str(journal.flow.pk))
    ceiling = left if asked.cost_units is None else min(left, asked.cost_units * MICROS)
    wanted = Wanted(capability_name=asked.capability_name, cost_ceiling=ceiling / MICROS)
    before = {row.provider_id for row in earlier}
    found = [
        each
        for each in capability_list.resolve(agent=sender, wanted=wanted, at=journal.at)
        if each.row.provider_id not in before and _is_in_time(each, seconds)
    ]
    chosen = _with_room(_affordable(found, left), count, journal)
    if not chosen:
        detail = (
            f"Nobody offers {asked.capability_name} within the budgets who may be asked and was not before."
        )
        return Problem(code=ProblemCode.NOT_CONSULTED, detail=detail, dfid=str(journal.flow.pk))
    round_ = _Round(sender=sender, payload=payload, seconds=seconds, named=chosen)
    return advice.Plan(
        providers=tuple(each.row.provider.agent_id for each in chosen),
        send=lambda: _send(journal, round_),
    )


def _budget_of(sender: Agent) -> ConsultationBudget | Problem:
    """What the active manifest lets a flow spend; 403 where it says nothing, 403 or 503 for a held agent."""
    refused = standing.refuse_work(sender)
    if refused is not None:
        return refused
    manifest = granted_kinds.manifest_of(sender)
    if manifest is None or manifest.consultations is None:
        detail = "The active manifest has no `consultations`, so nobody is consulted."
        return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
    if manifest.message_key is not None:
        detail = "The active manifest has a `message_key`: the runtime cannot sign questions in its name."
        return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
    return manifest.consultations


def _seconds(journal: Journal, asked: Consult, budget: ConsultationBudget) -> int:
    """How long a provider may take: the least of what is asked, the manifest's bound, and the flow's time."""
    left = compute_left.left_in(journal.flow, at=journal.at).get("wall_clock_left_s")
    bounds = (asked.time_s, budget.time_s, left)
    return min(bound for bound in bounds if bound is not None)


def _payload(asked: Consult, options: list[dict[str, Any]]) -> dict[str, Any]:
    choices = [*(one["id"] for one in options), NONE_OF_THEM]
    return {
        "question": asked.question,
        "constraints": {"options": options},
        "context_refs": [],
        "expected_output_schema": {
            "type": "object",
            "properties": {
                "choice": {"enum": choices},
                "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                "reason": {"type": "string", "maxLength": _LONGEST_REASON},
            },
            "required": ["choice"],
            "additionalProperties": False,
        },
    }


def _is_in_time(named: Named, seconds: int) -> bool:
    claimed = named.offered.p95_ms
    return claimed is None or claimed <= seconds * 1000


def _cost_of(named: Named) -> int:
    """What one call costs as the provider says, in millionths of a cost unit, rounded up."""
    claimed = Decimal(str(named.offered.per_call or 0)) * MICROS
    return int(claimed.to_integral_value(rounding=ROUND_CEILING))


def _affordable(found: Iterable[Named], left: int) -> list[Named]:
    """As many as can all be paid for, the cheapest first."""
    kept = []
    for each in found:
        if _cost_of(each) <= left:
            left -= _cost_of(each)
            kept.append(each)
    return kept


def _with_room(found: Iterable[Named], count: int, journal: Journal) -> list[Named]:
    """The first `count` whose mailboxes have room; these are locked, in the order of all who lock several."""
    roomy = [
        each
        for each in found
        if mailboxes.count_waiting(each.row.provider, at=journal.at) < posting.MOST_WAITING
    ]
    first = sorted(roomy[:count], key=lambda each: each.row.provider_id)
    return [each for each in first if posting.lock_mailbox(each.row.provider, at=journal.at) is not None]


def _send(journal: Journal, round_: _Round) -> list[Consultation]:
    sent_rows = []
    for each in round_.named:
        row = Consultation(
            tenant=journal.flow.tenant,
            flow=journal.flow,
            provider=each.row.provider,
            capability=each.row.capability,
            cost_micros=_cost_of(each),
            asked_at=journal.at,
        )
        headers = {
            "message_id": ids.new_ulid(),
            "message_type": MessageType.CONSULTATION_REQUEST.value,
            "conversation_id": f"consultation-{row.pk}",
            "from_agent_id": round_.sender.agent_id,
            "to_agent_id": each.row.provider.agent_id,
            "dfid": str(journal.flow.pk),
            "ttl": round_.seconds,
            "protocol_version": {"min_supported": str(rules.FIRST), "max_supported": str(rules.FIRST)},
            # What the agent states of its options stays with it.
            "privacy": {"classification": "internal", "redactions_applied": ["utilities", "confidence"]},
            "budgets": {"time_ms": round_.seconds * 1000, "cost_units": row.cost_micros / MICROS},
        }
        sent = posting.deliver(
            sender=round_.sender,
            recipient=each.row.provider,
            received=_received(headers, round_.payload),
            key_id="",
            flow_id=journal.flow.pk,
        )
        if isinstance(sent, Problem):
            # Its mailbox was locked with room in it, and its conversation is new.
            raise ValueError(f"a question that was planned could not be sent: {sent.detail}")
        message = Message.objects.get(tenant=row.tenant, message_id=headers["message_id"])
        row.request, row.deadline = message, message.expires_at
        advice.begin(
            journal,
            row=row,
            message_id=message.message_id,
            conversation_id=message.conversation_id,
            commitment=message.commitment,
        )
        sent_rows.append(row)
    return sent_rows


def _received(headers: Mapping[str, Any], payload: Mapping[str, Any]) -> Received:
    body = canonical.encode({"headers": dict(headers), "payload": dict(payload)})
    return Received(
        body=body,
        envelope=Envelope.model_validate_json(body),
        payload=ConsultationRequest.model_validate_json(canonical.encode(dict(payload))),
    )
