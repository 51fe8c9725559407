"""Flows and their contexts."""

from http import HTTPStatus
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.contexts.services import contexts
from runtime.contracts import api_schemas
from runtime.contracts.problem import ProblemError
from runtime.core import clock
from runtime.core.api import body_parsing, headers, openapi
from runtime.core.api.responses import reply
from runtime.flows.queries import children, feedback
from runtime.flows.services import flows
from runtime.registry.api import auth
from runtime.registry.queries import autonomy_levels
from runtime.resources.queries import compute_left
from runtime.workflows.queries import positions

router = Router(tags=["Flows"], auth=auth.SessionToken())


@router.post(
    "/flows",
    response={201: api_schemas.FlowState},
    openapi_extra=openapi.describe(
        body=api_schemas.FlowRequest, headers=[openapi.IDEMPOTENCY_KEY, openapi.TRACEPARENT]
    ),
)
def open_flow(request: HttpRequest) -> HttpResponse:
    """Open a decision flow; everything that follows carries its DFID. With `parent_dfid` it is a child.

    A child belongs to the agent that opens it. It needs an open parent whose agent may delegate to it, or is
    the same one, and it ends with its parent at the latest.
    """
    body, checked = body_parsing.read(request, api_schemas.FlowRequest)
    session = auth.session_of(request)
    opened = flows.open_flow(
        agent=session.agent,
        trigger=checked.value["trigger"],
        traceparent=headers.traceparent(request),
        parent_dfid=None if body.parent_dfid is None else UUID(body.parent_dfid),
        claims=flows.FlowClaims.of(session, delegated_user_id=body.delegated_user_id),
        repeatable=headers.repeatable(request, checked),
    )
    return reply(opened, status=HTTPStatus.CREATED)


@router.get("/flows/{uuid:dfid}", response=api_schemas.FlowView, openapi_extra=openapi.describe())
def get_flow(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """The state of one of the agent's own flows."""
    agent = auth.session_of(request).agent
    flow = feedback.get_flow(agent=agent, dfid=dfid)
    if flow is None:
        raise ProblemError(flows.not_found())
    return reply(
        api_schemas.FlowView(
            dfid=str(flow.dfid),
            state=flow.state,
            reason=flow.reason or None,
            attempts_left=flow.attempts_allowed - flow.attempts_used,
            parent_dfid=str(flow.parent_id) if flow.parent_id else None,
            children=children.ids_of(flow),
            autonomy=autonomy_levels.get_recorded(agent).level,
            workflow=positions.view(flow, agent),
            budget=api_schemas.FlowBudget(
                escalation_tokens=feedback.escalation_tokens(agent, at=clock.now()),
                **compute_left.left_in(flow, at=clock.now()),
            ),
        )
    )


@router.post(
    "/flows/{uuid:dfid}/context",
    response={201: api_schemas.ContextAnswer},
    openapi_extra=openapi.describe(body=api_schemas.EmptyRequest, body_required=False),
)
def compile_context(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Freeze the facts that the agent may see now; a proposal cites it by `context_ref`."""
    body_parsing.check_if_sent(request, api_schemas.EmptyRequest)
    answer = contexts.compile_context(agent=auth.session_of(request).agent, dfid=dfid)
    return reply(answer, status=HTTPStatus.CREATED)


@router.post(
    "/flows/{uuid:dfid}/cancel",
    response=api_schemas.FlowState,
    openapi_extra=openapi.describe(body=api_schemas.ReasonRequest),
)
def cancel_flow(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Withdraw a flow; refused once its intent is being carried out."""
    body, _ = body_parsing.read(request, api_schemas.ReasonRequest)
    return reply(flows.cancel(agent=auth.session_of(request).agent, dfid=dfid, reason=body.reason))


@router.post(
    "/flows/{uuid:dfid}/close",
    response=api_schemas.FlowState,
    openapi_extra=openapi.describe(body=api_schemas.ReasonRequest),
)
def close_flow(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """End a flow that only read, or has nothing left to propose."""
    body, _ = body_parsing.read(request, api_schemas.ReasonRequest)
    return reply(flows.close(agent=auth.session_of(request).agent, dfid=dfid, reason=body.reason))
