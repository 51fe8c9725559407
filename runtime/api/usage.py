"""`POST /flows/{dfid}/usage`: what an agent's reasoning has used (DIR paper, 9.3)."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.api import auth, documents, envelopes, headers
from runtime.api.replies import reply
from runtime.contracts import wire
from runtime.services import stored_answers, usage

router = Router(tags=["Flows"], auth=auth.SessionToken())


@router.post(
    "/flows/{uuid:dfid}/usage",
    response=wire.UsageAnswer,
    openapi_extra=documents.describe(body=wire.UsageRequest, headers=[documents.IDEMPOTENCY_KEY]),
)
def report_usage(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Report tokens, cost and tool calls since the last report; past a cap the flow is aborted (429)."""
    key = headers.idempotency_key(request)
    body, checked = envelopes.read(request, wire.UsageRequest)
    repeatable = (
        stored_answers.Repeatable(key=key, path=request.path, body=checked.canonical)
        if key is not None
        else None
    )
    return reply(
        usage.report(agent=auth.session_of(request).agent, dfid=dfid, asked=body, repeatable=repeatable)
    )
