"""`GET /events`: what concerns the agent itself. Under ASGI `event_stream` does the waiting."""

from http import HTTPStatus
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from runtime.api import auth, documents, envelopes
from runtime.api.feedback import MAX_SEQ
from runtime.api.replies import reply
from runtime.contracts import wire
from runtime.services import agent_events

router = Router(tags=["Events"], auth=auth.SessionToken())


@router.get("/events", response=wire.AgentEventsAnswer, openapi_extra=documents.describe())
def read_events(
    request: HttpRequest,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ)] = 0,
    wait: Annotated[int, Query(ge=0, le=wire.MAX_WAIT_S)] = 0,
) -> HttpResponse:
    """Facts it subscribes to, its budget, status, stops, timers and children, past `after`, in order.

    With `wait` the answer may be held back so many seconds for the first event.
    """
    page = agent_events.read(agent=auth.session_of(request).agent, after=after)
    return reply(wire.AgentEventsAnswer(events=page.events, next=page.next, gap=page.gap))


@router.post(
    "/timers", response={201: wire.TimerAnswer}, openapi_extra=documents.describe(body=wire.TimerRequest)
)
def set_timer(request: HttpRequest) -> HttpResponse:
    """Be woken by a `TIMER` event after so many seconds."""
    body, _ = envelopes.read(request, wire.TimerRequest)
    return reply(
        agent_events.set_timer(agent=auth.session_of(request).agent, asked=body), status=HTTPStatus.CREATED
    )
