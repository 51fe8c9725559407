"""`GET /decisions/{id}/context`: what a decision was made from, for its agent and for auditors."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.contracts import state_schemas
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.api import openapi
from runtime.core.api.responses import reply
from runtime.proposals.queries import decision_inputs
from runtime.proposals.queries.decision_inputs import DecisionInputs, NotShown
from runtime.registry.api import auth
from runtime.registry.models import Key
from runtime.state.queries import sight

router = Router(tags=["State"], auth=auth.StateReader())


@router.get(
    "/decisions/{uuid:decision_id}/context",
    response=state_schemas.DecisionContextView,
    openapi_extra=openapi.describe(),
)
def read_decision_context(request: HttpRequest, decision_id: UUID) -> HttpResponse:
    """The exact inputs of a verdict, by its `proposal_id`, or of a recommendation, by its `decision_id`.

    They are compared with the ledger first: 409 where one differs, 410 once the words of the flow are erased.
    """
    reader = auth.state_reader_of(request)
    if not isinstance(reader, Key):
        agent = reader.agent
        found = decision_inputs.find(tenant=agent.tenant, decision_id=decision_id, agent_pk=agent.pk)
        if isinstance(found, NotShown):
            raise ProblemError(_refused(found))
        shown, left_out = decision_inputs.seen_by_agent(found, sight.of_agent(agent))
        return reply(_view(found, shown=shown, rules=None, left_out=left_out))
    found = (
        decision_inputs.find(tenant=reader.tenant, decision_id=decision_id, agent_pk=None)
        if reader.auditor
        else NotShown.NOT_THERE
    )
    if isinstance(found, NotShown):
        raise ProblemError(_refused(found))
    return reply(_view(found, shown=found.input, rules=found.rules, left_out=[]))


def _view(
    found: DecisionInputs,
    *,
    shown: dict[str, object],
    rules: dict[str, object] | None,
    left_out: list[str],
) -> state_schemas.DecisionContextView:
    facts = found.input.get("facts", {})
    return state_schemas.DecisionContextView.model_validate(
        {
            "decision_id": found.decision_id,
            "task_id": str(found.flow.dfid),
            "agent_id": found.flow.agent.agent_id,
            "decided_by": found.decided_by.value,
            "action_name": found.action,
            "decision": found.answer,
            "decided_at": found.decided_at,
            "world_version_id": facts.get("world_version_id") if isinstance(facts, dict) else None,
            "digests": dict(found.digests),
            "input": shown,
            "rules": rules,
            "left_out": tuple(left_out),
        }
    )


def _refused(why: NotShown) -> Problem:
    match why:
        case NotShown.NOT_THERE:
            code = ProblemCode.NOT_FOUND
            detail = "No decision has this id. Send the proposal_id of a verdict, or a decision_id."
        case NotShown.ERASED:
            code, detail = ProblemCode.FLOW_ERASED, "The words of this decision's flow were erased."
        case NotShown.TAMPERED:
            code = ProblemCode.TAMPERED
            detail = "What is stored does not match the ledger, so it is not shown. Run verify_ledger."
    return Problem(code=code, detail=detail)
