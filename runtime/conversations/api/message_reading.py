"""From the body of a request to a message: its envelope, and a payload of the form of its type."""

from django.http import HttpRequest
from pydantic import ValidationError

from audit import canonical
from runtime.contracts.message import ANSWERS, MAX_BYTES, TO_REGISTRY, Envelope, MessageType, Open
from runtime.contracts.message_payloads import PAYLOADS
from runtime.contracts.problem import Problem, ProblemError, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.conversations.services.posting import Received
from runtime.core.api import body_parsing
from runtime.kernel import conversation as rules

_PAYLOAD = "/payload"


def read(request: HttpRequest) -> Received:
    """The message of a request.

    Raises:
        ProblemError: as `body_parsing.read_json`, 413 for more than MAX_BYTES, and 422 INVALID_SCHEMA for an
            envelope or a payload that is not of the form of its type.
    """
    checked = body_parsing.read_json(request)
    if len(checked.canonical) > MAX_BYTES:
        detail = f"A message has at most {MAX_BYTES:,} bytes. Register an artifact, and refer to it."
        raise ProblemError(Problem(code=ProblemCode.BODY_TOO_LARGE, detail=detail))
    try:
        envelope = Envelope.model_validate_json(checked.canonical)
    except ValidationError as error:
        raise _unfit(_violations(error, checked.value)) from error
    found = misplaced(envelope)
    if found:
        raise _unfit(found)
    return Received(body=checked.canonical, envelope=envelope, payload=payload_of(envelope))


def payload_of(envelope: Envelope) -> Open:
    """The payload as the contract of its type; raises ProblemError 422."""
    form = PAYLOADS[envelope.headers.message_type]
    try:
        return form.model_validate_json(canonical.encode(envelope.payload))
    except ValidationError as error:
        raise _unfit(_violations(error, envelope.payload, _PAYLOAD)) from error


def misplaced(envelope: Envelope) -> tuple[Violation, ...]:
    """What no form of a single member can say: who gets which type, and which types answer another."""
    headers = envelope.headers
    kind, to = headers.message_type, headers.to_agent_id
    found = []
    if kind is MessageType.CAPABILITY_RESOLUTION:
        found.append(("/headers/message_type", "is sent by the registry alone"))
    elif kind in TO_REGISTRY and to is not None:
        found.append(("/headers/to_agent_id", "must be null: the registry answers this type"))
    elif kind not in TO_REGISTRY and kind is not MessageType.HEARTBEAT and to is None:
        found.append(("/headers/to_agent_id", "is required for this type"))
    elif to == headers.from_agent_id:
        found.append(("/headers/to_agent_id", "must be another agent"))
    if kind in ANSWERS and headers.correlation_id is None:
        found.append(("/headers/correlation_id", "must name the message that this one answers"))
    asked = headers.protocol_version
    if not rules.is_ordered(asked.min_supported, asked.max_supported):
        found.append(("/headers/protocol_version", "must not end before it begins"))
    return tuple(Violation(pointer=pointer, message=message) for pointer, message in found)


def _violations(error: ValidationError, value: object, place: str = "") -> tuple[Violation, ...]:
    found = body_parsing.violations(error.errors(include_url=False, include_input=False), value)
    return tuple(Violation(pointer=place + each.pointer, message=each.message) for each in found)


def _unfit(found: tuple[Violation, ...]) -> ProblemError:
    detail = "The message is not of the form of its type. See `violations`."
    return ProblemError(Problem(code=ProblemCode.INVALID_SCHEMA, detail=detail, violations=found))
