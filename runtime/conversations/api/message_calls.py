"""`/messages`: sending to another agent, reading the mailbox, acknowledging.

Under ASGI `message_stream` does the waiting.
"""

from http import HTTPStatus
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query, Router

from runtime.contracts import api_schemas, message_answers
from runtime.contracts.message import ULID_PATTERN, Envelope
from runtime.conversations.api import message_reading
from runtime.conversations.services import delivering, sending
from runtime.core.api import body_parsing, openapi
from runtime.core.api.responses import reply
from runtime.flows.api.feedback_calls import MAX_SEQ
from runtime.registry.api import auth

router = Router(tags=["Messages"], auth=auth.SessionToken())


@router.post(
    "/messages",
    response={201: message_answers.MessageAnswer},
    openapi_extra=openapi.describe(body=Envelope),
)
def send_message(request: HttpRequest) -> HttpResponse:
    """Send a message in the envelope of IAE 3.4.1; the same message again gets the same answer.

    A refusal has one of the codes of IAE 3.4.4, such as UNAUTHORIZED, INVALID_SCHEMA or RATE_LIMITED.
    """
    received = message_reading.read(request)
    answer = sending.send(session=auth.session_of(request), received=received)
    return reply(answer, status=HTTPStatus.CREATED)


@router.get("/messages", response=message_answers.MessagesAnswer, openapi_extra=openapi.describe())
def read_messages(
    request: HttpRequest,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ)] = 0,
    wait_s: Annotated[int, Query(ge=0, le=api_schemas.MAX_WAIT_S)] = 0,
) -> HttpResponse:
    """The messages past `after` that nobody has acknowledged, in order; from 0, all of them again.

    With `wait_s` the answer may be held back so many seconds for the first message.
    """
    return reply(delivering.read(session=auth.session_of(request), after=after))


@router.post(
    "/messages/{message_id}/ack",
    response=message_answers.AcknowledgeAnswer,
    openapi_extra=openapi.describe(body=api_schemas.EmptyRequest, body_required=False),
)
def acknowledge_message(
    request: HttpRequest, message_id: Annotated[str, Path(pattern=ULID_PATTERN)]
) -> HttpResponse:
    """Acknowledge a message, so that it is not delivered again; `taken_here` says whether by this session."""
    body_parsing.check_if_sent(request, api_schemas.EmptyRequest)
    return reply(delivering.acknowledge(session=auth.session_of(request), message_id=message_id))
