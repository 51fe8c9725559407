"""Steps of a flow that follows a workflow: may one be taken, and the report that it was.

All of it is decided under the flow's lock, so a rate holds however many ask at once.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from audit import actors, canonical, events
from runtime.contracts import api_schemas, timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.reasons import Reason
from runtime.contracts.states import OPEN_TO_PROPOSALS
from runtime.core import clock, idempotency, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Flow
from runtime.flows.services import flows
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import budget_rules
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.workflows import budgets, steps
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.registry.services import agents
from runtime.resources.queries import compute_left
from runtime.resources.services import escalation_tokens
from runtime.workflows.models import StepCheck
from runtime.workflows.queries import positions as standings
from runtime.workflows.queries.positions import Standing
from runtime.workflows.services import interrupts, positions
from runtime.workflows.services.interrupts import Interrupt
from runtime.workflows.services.positions import Report

CHECK_LASTS: Final = timedelta(seconds=60)
MAX_STEPS: Final = 200
StepAnswer = api_schemas.StepTakenAnswer | api_schemas.StepRefusedAnswer
_CHECK_ID: Final = "check_id"


@transactions.retried
def check(
    *, agent: Agent, dfid: UUID, asked: api_schemas.InstructionCheck
) -> api_schemas.CheckAnswer | Problem:
    """Ask for a step before it is taken. What is allowed has a `check_id`, and spends a permit."""
    found = _locate(agent, dfid)
    if isinstance(found, Problem):
        return found
    journal, standing, locked = found
    objections = _ask(journal, standing, locked, asked.instruction, asked.input)
    if objections:
        escalation_id = _refuse(
            journal, standing, locked, asked.instruction, asked.input, "check", objections
        )
        journal.write()
        return api_schemas.CheckAnswer(
            allowed=False, findings=_findings(objections), escalation_id=escalation_id
        )
    step = steps.Asked(
        instruction=asked.instruction, now_ms=timestamps.to_ms(journal.at), input=asked.input, left={}
    )
    positions.store(journal, standing, steps.permit(standing.document, standing.fold, step))
    allowed = StepCheck.objects.create(
        flow=journal.flow,
        instruction=asked.instruction,
        input_digest=steps.input_digest(asked.input),
        asked_at=journal.at,
        expires_at=journal.at + CHECK_LASTS,
    )
    return api_schemas.CheckAnswer(allowed=True, findings=(), check_id=str(allowed.pk))


@transactions.retried
def report(
    *,
    agent: Agent,
    dfid: UUID,
    asked: api_schemas.InstructionRequest,
    repeatable: IdempotentRequest | None = None,
) -> StepAnswer | Problem:
    """Take a step, or refuse it with findings; a refused one is recorded and moves nothing."""
    found = _locate(agent, dfid)
    if isinstance(found, Problem):
        return found
    journal, standing, locked = found
    if repeatable is not None:
        stored = idempotency.find_response(agent_pk=agent.pk, call=repeatable, makes="step", dfid=dfid)
        if stored is not None:
            if isinstance(stored, Problem):
                return stored
            is_taken = "seq" in canonical.decode(stored)
            if is_taken:
                return api_schemas.StepTakenAnswer.model_validate_json(stored)
            return api_schemas.StepRefusedAnswer.model_validate_json(stored)
    permit = None if asked.check_id is None else _use(journal, asked)
    objections = [*_ask(journal, standing, locked, asked.instruction, asked.input)]
    if permit is not None:
        objections = [one for one in objections if one.code is not Reason.RATE_LIMITED]
    elif asked.check_id is not None:
        said = "The check allowed another step, was used before, or is older than 60 s."
        objections.append(steps.Objection(_CHECK_ID, said))
    answer: StepAnswer
    if objections:
        escalation_id = _refuse(journal, standing, locked, asked.instruction, asked.input, "step", objections)
        answer = api_schemas.StepRefusedAnswer(findings=_findings(objections), escalation_id=escalation_id)
    else:
        answer = _take(journal, standing, locked, asked, has_permit=permit is not None)
    if repeatable is not None:
        body = canonical.encode(api_schemas.plain(answer))
        journal.keep_answer(agent_pk=agent.pk, call=repeatable, body=body)
    journal.write()
    return answer


def _take(
    journal: Journal,
    standing: Standing,
    agent: Agent,
    asked: api_schemas.InstructionRequest,
    *,
    has_permit: bool,
) -> api_schemas.StepTakenAnswer:
    """Take the step; a router may call a person after it. The caller writes the journal."""
    step = Report(instruction=asked.instruction, input=asked.input, output=asked.output)
    fold = positions.take(journal, standing, step, has_permit=has_permit)
    seq = journal.flow.head_seq + len(journal.entries)
    escalation_id = None
    if steps.calls_person(fold):
        interrupt = Interrupt(standing=standing, fold=fold, reason=Reason.WORKFLOW_INTERRUPTED)
        escalation_id = interrupts.call_person(journal=journal, agent=agent, interrupt=interrupt)
    return api_schemas.StepTakenAnswer(seq=seq, next=standings.next_of(fold), escalation_id=escalation_id)


def _locate(agent: Agent, dfid: UUID) -> tuple[Journal, Standing, Agent] | Problem:
    flow = flows.lock_open(
        agent=agent, dfid=dfid, once_ended=" and no longer accepts steps. Open a new flow."
    )
    if isinstance(flow, Problem):
        return flow
    if flow.steps_reported >= MAX_STEPS:
        said = f"A flow accepts at most {MAX_STEPS} steps, those that were refused among them."
        return Problem(code=ProblemCode.TOO_MANY_STEPS, detail=said, dfid=str(flow.dfid))
    # An admin may have activated another manifest since the session began.
    locked = agents.lock_by_pk(pk=agent.pk)
    standing = standings.find(flow, locked)
    if standing is None or isinstance(standing, Mismatch):
        said = (
            "The agent's active manifest names no workflow that can be followed. Report steps of free form, "
            "or have an admin activate a manifest with a workflow."
        )
        return Problem(code=ProblemCode.NO_WORKFLOW, detail=said, dfid=str(flow.dfid))
    Flow.objects.filter(pk=flow.pk).update(steps_reported=flow.steps_reported + 1)
    return Journal(flow=flow, actor=actors.agent(agent.agent_id), at=clock.now()), standing, locked


def _ask(
    journal: Journal, standing: Standing, agent: Agent, instruction: str, given: Mapping[str, Any]
) -> tuple[steps.Objection, ...]:
    if interrupts.is_awaiting(journal.flow):
        return (steps.AWAITING,)
    manifest, now_ms = granted_kinds.manifest_of(agent), timestamps.to_ms(journal.at)
    per_hour = 0 if manifest is None else manifest.escalations_per_hour
    millitokens = escalation_tokens.held_millitokens(agent=agent, per_hour=per_hour, at=journal.at)
    left = budgets.remainders(
        compute_left.get_compute(journal.flow),
        opened_at_ms=timestamps.to_ms(journal.flow.opened_at),
        escalation_tokens=budget_rules.whole_tokens(millitokens),
        per_hour=per_hour,
        now_ms=now_ms,
    )
    asked = steps.Asked(instruction=instruction, now_ms=now_ms, input=given, left=left)
    return steps.check(standing.document, standing.fold, asked)


def _use(journal: Journal, asked: api_schemas.InstructionRequest) -> StepCheck | None:
    """The check, used now; None where it is not for this step, was used, or has expired."""
    check_id = api_schemas.uuid_of(asked.check_id or "")
    if check_id is None:
        return None
    rows = StepCheck.objects.filter(
        pk=check_id,
        flow=journal.flow,
        instruction=asked.instruction,
        input_digest=steps.input_digest(asked.input),
        used_at__isnull=True,
        expires_at__gte=journal.at,
    )
    if rows.update(used_at=journal.at) != 1:
        return None
    return StepCheck.objects.get(pk=check_id)


def _refuse(
    journal: Journal,
    standing: Standing,
    agent: Agent,
    instruction: str,
    given: Mapping[str, Any],
    asked: str,
    objections: Sequence[steps.Objection],
) -> str | None:
    """Record what was refused; the escalation, where a person may allow it or nothing else could be taken."""
    journal.add(
        events.StepRefused(
            instruction=instruction,
            asked=asked,
            policies=tuple(one.subject for one in objections),
            codes=tuple(one.code for one in objections),
        )
    )
    if journal.flow.state not in OPEN_TO_PROPOSALS:
        return None
    # A check that cannot be used is no policy of the workflow.
    of_policies = [one for one in objections if one.subject != _CHECK_ID]
    if steps.may_be_allowed(instruction, objections):
        if standing.row is None:
            # What the person decides is of this version of the workflow, whatever the agent follows by then.
            positions.store(journal, standing, standing.fold)
        interrupt = Interrupt(
            standing=standing,
            fold=standing.fold,
            reason=Reason.WORKFLOW_INTERRUPTED,
            objections=of_policies,
            refused=Report(instruction=instruction, input=given, output={}),
        )
    elif steps.is_deadlocked(standing.fold, instruction, of_policies):
        interrupt = Interrupt(
            standing=standing, fold=standing.fold, reason=Reason.POLICY_DEADLOCK, objections=of_policies
        )
    else:
        return None
    return interrupts.call_person(journal=journal, agent=agent, interrupt=interrupt)


def _findings(objections: Sequence[steps.Objection]) -> tuple[api_schemas.StepFinding, ...]:
    return tuple(
        api_schemas.StepFinding(
            check=CheckName.WORKFLOW,
            code=one.code,
            policy=one.subject,
            message=one.message,
            retry_after_s=-(-one.retry_after_ms // 1000) or None,
        )
        for one in objections
    )
