"""`POST /flows/{dfid}/answers`: the agent answers a person's question about its proposal."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from escalations.services import answering
from runtime.api import auth, documents, envelopes
from runtime.api.replies import reply
from runtime.contracts import wire

router = Router(tags=["Flows"], auth=auth.SessionToken())


@router.post(
    "/flows/{uuid:dfid}/answers",
    response=wire.AnswerView,
    openapi_extra=documents.describe(body=wire.AnswerRequest),
)
def answer_question(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Answer the question of `INFORMATION_REQUESTED`. The same answer again gets the stored one."""
    body, _ = envelopes.read(request, wire.AnswerRequest)
    return reply(answering.answer(agent=auth.session_of(request).agent, dfid=dfid, asked=body))
