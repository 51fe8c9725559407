"""`GET /events`: what concerns the agent itself. Under ASGI `event_stream` does the waiting."""

from http import HTTPStatus
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from runtime.contexts.services import agent_events
from runtime.contracts import api_schemas
from runtime.core.api import body_parsing, openapi
from runtime.core.api.responses import reply
from runtime.flows.api.feedback_calls import MAX_SEQ
from runtime.registry.api import auth

router = Router(tags=["Events"], auth=auth.SessionToken())


@router.get("/events", response=api_schemas.AgentEventsAnswer, openapi_extra=openapi.describe())
def read_events(
    request: HttpRequest,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ)] = 0,
    wait: Annotated[int, Query(ge=0, le=api_schemas.MAX_WAIT_S)] = 0,
) -> HttpResponse:
    """Facts it subscribes to, its budget, status, stops, timers and children, past `after`, in order.

    With `wait` the answer may be held back so many seconds for the first event.
    """
    page = agent_events.read(agent=auth.session_of(request).agent, after=after)
    return reply(api_schemas.AgentEventsAnswer(events=page.events, next=page.next, gap=page.gap))


@router.post(
    "/timers",
    response={201: api_schemas.TimerAnswer},
    openapi_extra=openapi.describe(body=api_schemas.TimerRequest),
)
def set_timer(request: HttpRequest) -> HttpResponse:
    """Be woken by a `TIMER` event after so many seconds."""
    body, _ = body_parsing.read(request, api_schemas.TimerRequest)
    return reply(
        agent_events.set_timer(agent=auth.session_of(request).agent, asked=body), status=HTTPStatus.CREATED
    )
