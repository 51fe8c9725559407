"""`GET /flows/{dfid}/feedback`: an agent's notifications. Under ASGI `feedback_stream` does the waiting."""

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from runtime.api import auth, documents
from runtime.api.replies import reply
from runtime.contracts import wire
from runtime.contracts.problem import ProblemError
from runtime.queries import feedback
from runtime.services import flows

router = Router(tags=["Feedback"], auth=auth.SessionToken())
MAX_SEQ = 2**31 - 1


@router.get("/flows/{uuid:dfid}/feedback", response=wire.FeedbackAnswer, openapi_extra=documents.describe())
def read_feedback(
    request: HttpRequest,
    dfid: UUID,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ)] = 0,
    wait: Annotated[int, Query(ge=0, le=wire.MAX_WAIT_S)] = 0,
) -> HttpResponse:
    """Events past `after`; with `wait` the answer may be held back so many seconds for the first one."""
    flow = feedback.get_flow(agent=auth.session_of(request).agent, dfid=dfid)
    if flow is None:
        raise ProblemError(flows.not_found())
    page = feedback.page(flow=flow, after=after)
    return reply(wire.FeedbackAnswer(events=page.events, next=page.next))
