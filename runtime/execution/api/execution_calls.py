"""`GET /executions/{id}`: the life of an intent, by the agent whose flow it is in, or by an auditor."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.contracts import state_schemas
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.api import openapi
from runtime.core.api.responses import reply
from runtime.execution.queries import executions
from runtime.flows.models import Intent
from runtime.registry.api import auth
from runtime.registry.models import Key

router = Router(tags=["State"], auth=auth.StateReader())


@router.get(
    "/executions/{uuid:execution_id}",
    response=state_schemas.ExecutionView,
    openapi_extra=openapi.describe(),
)
def read_execution(request: HttpRequest, execution_id: UUID) -> HttpResponse:
    """Where an execution stands, its attempts, and what came of it; its id is the verdict's `intent_id`."""
    reader = auth.state_reader_of(request)
    if isinstance(reader, Key):
        intent = (
            executions.get_execution(tenant=reader.tenant, intent_id=execution_id, agent_pk=None)
            if reader.auditor
            else None
        )
    else:
        intent = executions.get_execution(
            tenant=reader.agent.tenant, intent_id=execution_id, agent_pk=reader.agent.pk
        )
    if intent is None:
        detail = "No execution of yours has this id. It is the intent_id of an accepting verdict."
        raise ProblemError(Problem(code=ProblemCode.NOT_FOUND, detail=detail))
    return reply(_view(intent))


def _view(intent: Intent) -> state_schemas.ExecutionView:
    outcome = executions.get_outcome(intent)
    before, after = executions.world_around(intent)
    return state_schemas.ExecutionView(
        execution_id=str(intent.pk),
        task_id=str(intent.flow_id),
        proposal_id=str(intent.proposal_id),
        action_name=intent.proposal.policy_kind,
        state=intent.state,
        step=intent.position + 1,
        steps=intent.steps,
        direction=intent.direction,
        created_at=intent.created_at,
        valid_until=intent.valid_until,
        finished_at=intent.finished_at,
        attempts=tuple(
            state_schemas.AttemptView(
                number=row.number,
                step=row.step,
                direction=row.direction,
                purpose=row.purpose,
                state=row.state,
                error_category=row.error_category or None,
                status_code=row.status_code,
                started_at=row.started_at,
                finished_at=row.finished_at,
            )
            for row in executions.list_attempts(intent)
        ),
        status=None if outcome is None else outcome.status,
        recorded_at=None if outcome is None else outcome.recorded_at,
        world_version_id_before=before,
        world_version_id_after=after,
    )
