"""`POST /flows/{dfid}/steps` and `usage`: what an agent reports about its reasoning, and what that used."""

from http import HTTPStatus
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.contexts.services import steps, usage
from runtime.contracts import api_schemas
from runtime.core.api import body_parsing, headers, openapi
from runtime.core.api.responses import reply
from runtime.registry.api import auth
from runtime.workflows.services import instructions

router = Router(tags=["Flows"], auth=auth.SessionToken())


@router.post(
    "/flows/{uuid:dfid}/steps",
    response={201: api_schemas.StepAnswer | api_schemas.StepTakenAnswer, 200: api_schemas.StepRefusedAnswer},
    openapi_extra=openapi.describe(body=api_schemas.StepRequest, headers=[openapi.IDEMPOTENCY_KEY]),
)
def report_step(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Add a claim about the agent's own reasoning to the flow; it is shown and recorded, never judged.

    With an `instruction` (`InstructionRequest`) it is a step of the flow's workflow, taken or refused.
    """
    checked = body_parsing.read_json(request)
    if isinstance(checked.value, dict) and "instruction" in checked.value:
        step = body_parsing.check(checked, api_schemas.InstructionRequest)
        answer = instructions.report(
            agent=auth.session_of(request).agent,
            dfid=dfid,
            asked=step,
            repeatable=headers.repeatable(request, checked),
        )
        is_refused = isinstance(answer, api_schemas.StepRefusedAnswer)
        return reply(answer, status=HTTPStatus.OK if is_refused else HTTPStatus.CREATED)
    body = body_parsing.check(checked, api_schemas.StepRequest)
    return reply(
        steps.report(agent=auth.session_of(request).agent, dfid=dfid, asked=body),
        status=HTTPStatus.CREATED,
    )


@router.post(
    "/flows/{uuid:dfid}/steps/check",
    response=api_schemas.CheckAnswer,
    openapi_extra=openapi.describe(body=api_schemas.InstructionCheck),
)
def check_step(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Ask the flow's workflow for a step before it is taken; what is allowed may be reported within 60 s."""
    body, _ = body_parsing.read(request, api_schemas.InstructionCheck)
    return reply(instructions.check(agent=auth.session_of(request).agent, dfid=dfid, asked=body))


@router.post(
    "/flows/{uuid:dfid}/usage",
    response=api_schemas.UsageAnswer,
    openapi_extra=openapi.describe(body=api_schemas.UsageRequest, headers=[openapi.IDEMPOTENCY_KEY]),
)
def report_usage(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Report tokens, cost and tool calls since the last report; past a cap the flow is aborted (429)."""
    body, checked = body_parsing.read(request, api_schemas.UsageRequest)
    return reply(
        usage.report(
            agent=auth.session_of(request).agent,
            dfid=dfid,
            asked=body,
            repeatable=headers.repeatable(request, checked),
        )
    )
