"""`POST /flows/{dfid}/answers`: the agent answers a person's question about its proposal."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from escalations.services import questions
from runtime.contracts import api_schemas
from runtime.core.api import body_parsing, openapi
from runtime.core.api.responses import reply
from runtime.registry.api import auth

router = Router(tags=["Flows"], auth=auth.SessionToken())


@router.post(
    "/flows/{uuid:dfid}/answers",
    response=api_schemas.AnswerView,
    openapi_extra=openapi.describe(body=api_schemas.AnswerRequest),
)
def answer_question(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Answer the question of `INFORMATION_REQUESTED`. The same answer again gets the stored one."""
    body, _ = body_parsing.read(request, api_schemas.AnswerRequest)
    return reply(questions.answer(agent=auth.session_of(request).agent, dfid=dfid, asked=body))
