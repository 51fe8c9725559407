"""Proposals: the only way to ask for a side effect; in a flow, in one call, or many in a batch."""

import json
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from audit import canonical
from runtime.contracts import api_schemas
from runtime.contracts.envelope import ProposalBatch, ProposalCall, ProposalEnvelope
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import ports
from runtime.core.api import body_parsing, headers, openapi
from runtime.core.api.responses import raw
from runtime.core.idempotency import IdempotentRequest
from runtime.kernel import ijson
from runtime.proposals.services import intake, one_call
from runtime.registry.api import auth

router = Router(tags=["Proposals"], auth=auth.SessionToken())
_HEADERS: Final = (openapi.IDEMPOTENCY_KEY, {**openapi.TRACEPARENT, "required": False})


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


@router.post(
    "/proposals",
    response=api_schemas.VerdictAnswer,
    openapi_extra=openapi.describe(body=ProposalCall, headers=_HEADERS, required=True),
)
def submit_in_one_call(request: HttpRequest) -> HttpResponse:
    """Open a flow, compile its context and judge a proposal, in one transaction; the answer names its `dfid`.

    After a REJECT that leaves the flow ACTIVE, send `dfid` with the next try. Tries at the same (kind and
    subjects) that were rejected lately count in a new flow as well.
    """
    key = headers.required_idempotency_key(request)
    asked, checked = body_parsing.read(request, ProposalCall)
    call = IdempotentRequest(key=key, path=request.path, body=checked.canonical)
    return raw(_decided(request, asked, call))


@router.post(
    "/proposals/batch",
    response=api_schemas.BatchAnswer,
    openapi_extra=openapi.describe(body=ProposalBatch, headers=_HEADERS, required=True),
)
def submit_batch(request: HttpRequest) -> HttpResponse:
    """Judge up to 100 independent proposals, each as `POST /proposals` does and in a transaction of its own.

    `answers` has for each, in order, its status and its `body` or `problem`; none is undone with another.
    After a lost answer send the same batch with its key: what is decided is answered as it was.
    """
    key = headers.required_idempotency_key(request)
    batch, checked = body_parsing.read(request, ProposalBatch)
    whole = IdempotentRequest(key=key, path=request.path, body=checked.canonical)
    count = len(batch.proposals)
    refused = one_call.claim_batch(session=auth.session_of(request), call=whole, count=count)
    if refused is not None:
        raise ProblemError(refused)
    answers = [
        _item(request, value, key=key, number=number)
        for number, value in enumerate(checked.value["proposals"])
    ]
    return raw(canonical.encode({"answers": answers}))


def _item(request: HttpRequest, value: Any, *, key: str, number: int) -> dict[str, Any]:
    """The answer to one of a batch. Its key is the batch's, its path has its place."""
    body = canonical.encode(value)
    call = IdempotentRequest(key=key, path=f"{request.path}/{number}", body=body)
    try:
        asked = body_parsing.check(ijson.Checked(value=value, canonical=body), ProposalCall)
        return {"status": HTTPStatus.OK.value, "body": canonical.decode(_decided(request, asked, call))}
    except Exception as error:
        # Whatever it is, it is answered, logged and recorded as if the proposal had come alone.
        response = ports.answer_exception(request, error)
        return {"status": response.status_code, "problem": json.loads(response.content)}


def _decided(request: HttpRequest, asked: ProposalCall, call: IdempotentRequest) -> bytes:
    """The decided answer; raises ProblemError for what costs no attempt."""
    session = auth.session_of(request)
    if asked.agent_id is not None and asked.agent_id != session.agent.agent_id:
        raise ProblemError(_disagrees("agent_id", "credential", None))
    answer = one_call.submit(
        session=session, asked=asked, call=call, traceparent=headers.traceparent(request)
    )
    if isinstance(answer, Problem):
        raise ProblemError(answer)
    return answer.body


def _disagrees(field: str, other: str, dfid: UUID | None) -> Problem:
    detail = f"The body's {field} does not match the {other}. Omit it or send the right one."
    return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail, dfid=None if dfid is None else str(dfid))
