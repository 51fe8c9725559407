"""`GET /flows/{dfid}/feedback`: an agent's notifications. Under ASGI `feedback_stream` does the waiting."""

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from runtime.contracts import api_schemas
from runtime.contracts.problem import ProblemError
from runtime.core.api import openapi
from runtime.core.api.responses import reply
from runtime.flows.queries import feedback
from runtime.flows.services import flows, tampered_feedback
from runtime.registry.api import auth

router = Router(tags=["Feedback"], auth=auth.SessionToken())
MAX_SEQ = 2**31 - 1


@router.get(
    "/flows/{uuid:dfid}/feedback", response=api_schemas.FeedbackAnswer, openapi_extra=openapi.describe()
)
def read_feedback(
    request: HttpRequest,
    dfid: UUID,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ)] = 0,
    wait: Annotated[int, Query(ge=0, le=api_schemas.MAX_WAIT_S)] = 0,
) -> HttpResponse:
    """Events past `after`; with `wait` the answer may be held back so many seconds for the first one."""
    flow = feedback.get_flow(agent=auth.session_of(request).agent, dfid=dfid)
    if flow is None:
        raise ProblemError(flows.not_found())
    page = feedback.page(flow=flow, after=after)
    if page.tampered:
        raise ProblemError(tampered_feedback.refuse(dfid=dfid, found=page.tampered))
    return reply(api_schemas.FeedbackAnswer(events=page.events, next=page.next))
