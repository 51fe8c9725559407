"""`POST /flows/{dfid}/proposals`: the only way to ask for a side effect."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.contracts import api_schemas
from runtime.contracts.envelope import ProposalEnvelope
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.api import body_parsing, headers, openapi
from runtime.core.api.responses import raw
from runtime.proposals.services import intake
from runtime.registry.api import auth

router = Router(tags=["Proposals"], auth=auth.SessionToken())


@router.post(
    "/flows/{uuid:dfid}/proposals",
    response=api_schemas.VerdictAnswer,
    openapi_extra=openapi.describe(body=ProposalEnvelope, headers=[openapi.IDEMPOTENCY_KEY], required=True),
)
def submit_proposal(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Submit a claim; the deterministic gate answers ACCEPT, REJECT or ESCALATE.

    A REJECT is a decision, so it is a 200 and costs an attempt; an HTTP error costs none.
    """
    key = headers.required_idempotency_key(request)
    envelope, checked = body_parsing.read(request, ProposalEnvelope)
    session = auth.session_of(request)
    # The credential and the path define who and where; a body that contradicts them is refused.
    if envelope.agent_id is not None and envelope.agent_id != session.agent.agent_id:
        raise ProblemError(_disagrees("agent_id", "credential", dfid))
    if envelope.dfid is not None and envelope.dfid.lower() != str(dfid):
        raise ProblemError(_disagrees("dfid", "path", dfid))
    answer = intake.submit(
        session=session,
        dfid=dfid,
        envelope=envelope,
        body=checked.canonical,
        idempotency_key=key,
        path=request.path,
    )
    if isinstance(answer, Problem):
        raise ProblemError(answer)
    return raw(answer.body)


def _disagrees(field: str, other: str, dfid: UUID) -> Problem:
    detail = f"The body's {field} does not match the {other}. Omit it or send the right one."
    return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail, dfid=str(dfid))
