"""Flows and their contexts."""

from http import HTTPStatus
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.api import auth, documents, envelopes, headers
from runtime.api.replies import reply
from runtime.contracts import wire
from runtime.contracts.problem import ProblemError
from runtime.queries import children, clock, feedback, usage
from runtime.services import contexts, flows, stored_answers

router = Router(tags=["Flows"], auth=auth.SessionToken())


@router.post(
    "/flows",
    response={201: wire.FlowState},
    openapi_extra=documents.describe(
        body=wire.FlowRequest, headers=[documents.IDEMPOTENCY_KEY, documents.TRACEPARENT]
    ),
)
def open_flow(request: HttpRequest) -> HttpResponse:
    """Open a decision flow; everything that follows carries its DFID. With `parent_dfid` it is a child.

    A child belongs to the agent that opens it. It needs an open parent whose agent may delegate to it, or is
    the same one, and it ends with its parent at the latest.
    """
    key = headers.idempotency_key(request)
    body, checked = envelopes.read(request, wire.FlowRequest)
    repeatable = (
        stored_answers.Repeatable(key=key, path=request.path, body=checked.canonical)
        if key is not None
        else None
    )
    opened = flows.open_flow(
        agent=auth.session_of(request).agent,
        trigger=checked.value["trigger"],
        traceparent=headers.traceparent(request),
        parent_dfid=None if body.parent_dfid is None else UUID(body.parent_dfid),
        repeatable=repeatable,
    )
    return reply(opened, status=HTTPStatus.CREATED)


@router.get("/flows/{uuid:dfid}", response=wire.FlowView, openapi_extra=documents.describe())
def get_flow(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """The state of one of the agent's own flows."""
    agent = auth.session_of(request).agent
    flow = feedback.get_flow(agent=agent, dfid=dfid)
    if flow is None:
        raise ProblemError(flows.not_found())
    return reply(
        wire.FlowView(
            dfid=str(flow.dfid),
            state=flow.state,
            reason=flow.reason or None,
            attempts_left=flow.attempts_allowed - flow.attempts_used,
            parent_dfid=str(flow.parent_id) if flow.parent_id else None,
            children=children.ids_of(flow),
            budget=wire.FlowBudget(
                escalation_tokens=feedback.escalation_tokens(agent), **usage.left_in(flow, at=clock.now())
            ),
        )
    )


@router.post(
    "/flows/{uuid:dfid}/context",
    response={201: wire.ContextAnswer},
    openapi_extra=documents.describe(body=wire.EmptyRequest, body_required=False),
)
def compile_context(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Freeze the facts that the agent may see now; a proposal cites it by `context_ref`."""
    if request.META.get("CONTENT_LENGTH") not in {None, "", "0"}:
        envelopes.read(request, wire.EmptyRequest)
    answer = contexts.compile_context(agent=auth.session_of(request).agent, dfid=dfid)
    return reply(answer, status=HTTPStatus.CREATED)


@router.post(
    "/flows/{uuid:dfid}/cancel",
    response=wire.FlowState,
    openapi_extra=documents.describe(body=wire.ReasonRequest),
)
def cancel_flow(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Withdraw a flow; refused once its intent is being carried out."""
    body, _ = envelopes.read(request, wire.ReasonRequest)
    return reply(flows.cancel(agent=auth.session_of(request).agent, dfid=dfid, reason=body.reason))


@router.post(
    "/flows/{uuid:dfid}/close",
    response=wire.FlowState,
    openapi_extra=documents.describe(body=wire.ReasonRequest),
)
def close_flow(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """End a flow that only read, or has nothing left to propose."""
    body, _ = envelopes.read(request, wire.ReasonRequest)
    return reply(flows.close(agent=auth.session_of(request).agent, dfid=dfid, reason=body.reason))
