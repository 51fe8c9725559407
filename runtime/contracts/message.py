"""The envelope of a message between agents (IAE 3.4.1), its types, and the codes of refusals (IAE 3.4.4).

Members that a later minor version adds are kept and passed on: here alone a document may hold more than it
names, since what it holds is between two agents.
"""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic import StringConstraints as Text

from runtime.contracts.states import Choice

# A message waits for so long at the most.
MAX_TTL_S = 604_800
# The envelope with its payload, as canonical JSON.
MAX_BYTES = 65_536
MAX_SIGNATURES = 4
MAX_ITEMS = 20

ULID_PATTERN = r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
Ulid = Annotated[str, Text(pattern=ULID_PATTERN)]
Reference = Annotated[str, Text(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
AgentName = Annotated[str, Text(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
# 1, 1.2 or 1.2.3
Version = Annotated[str, Text(pattern=r"^(0|[1-9][0-9]{0,4})(\.(0|[1-9][0-9]{0,4})){0,2}$")]
Short = Annotated[str, Text(min_length=1, max_length=200)]
Prose = Annotated[str, Text(min_length=1, max_length=8000)]
Amount = Annotated[int | float, Field(ge=0, le=1_000_000_000_000, allow_inf_nan=False)]


class MessageType(Choice):
    """What a message is for (IAE 3.4.2). Values are those of the wire."""

    CAPABILITY_ADVERTISE = "CapabilityAdvertise"
    CAPABILITY_QUERY = "CapabilityQuery"
    CAPABILITY_RESOLUTION = "CapabilityResolution"
    CONSULTATION_REQUEST = "ConsultationRequest"
    CONSULTATION_RESPONSE = "ConsultationResponse"
    HEARTBEAT = "Heartbeat"
    BUDGET_UPDATE = "BudgetUpdate"
    ERROR = "Error"
    VERSION_NEGOTIATION = "VersionNegotiation"
    CANCEL = "Cancel"


# The paper gives two types two words each; either is taken.
_OTHER_WORDS = {
    "Health": MessageType.HEARTBEAT.value,
    "Health/Heartbeat": MessageType.HEARTBEAT.value,
    "NACK": MessageType.ERROR.value,
    "Error/NACK": MessageType.ERROR.value,
}
# Answered by the registry, so addressed to nobody.
TO_REGISTRY = frozenset({MessageType.CAPABILITY_ADVERTISE, MessageType.CAPABILITY_QUERY})
# Answers, which name the message that they answer.
ANSWERS = frozenset({MessageType.CONSULTATION_RESPONSE, MessageType.ERROR})


class MessageState(Choice):
    """WAITING in the mailbox; TAKEN once acknowledged; DEAD when it can no longer be delivered."""

    WAITING = "WAITING"
    TAKEN = "TAKEN"
    DEAD = "DEAD"


class DeadReason(Choice):
    """Why a message became a dead letter."""

    EXPIRED = "EXPIRED"
    CONVERSATION_STOPPED = "CONVERSATION_STOPPED"
    ERASED = "ERASED"
    TAMPERED = "TAMPERED"


class ConversationState(Choice):
    """OPEN takes messages; STOPPED takes none any more."""

    OPEN = "OPEN"
    STOPPED = "STOPPED"


class ErrorCode(Choice):
    """The standard codes of refusals (IAE 3.4.4)."""

    CAPABILITY_NOT_FOUND = "CAPABILITY_NOT_FOUND"
    UNAUTHORIZED = "UNAUTHORIZED"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    INVALID_SCHEMA = "INVALID_SCHEMA"
    VERSION_UNSUPPORTED = "VERSION_UNSUPPORTED"
    RATE_LIMITED = "RATE_LIMITED"
    TEMPORARILY_UNAVAILABLE = "TEMPORARILY_UNAVAILABLE"
    INTERNAL_ERROR = "INTERNAL_ERROR"


class Open(BaseModel):
    """Base of what agents send each other: frozen, strict, with room for members of later versions."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")


class VersionRange(Open):
    """The protocol versions that the sender understands, both ends included."""

    min_supported: Version
    max_supported: Version


class Auth(BaseModel):
    """How the sender says it was authenticated; the session proves it. Credentials have no place here."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    scheme: Short
    token_ref: Short | None = None


class Privacy(Open):
    """How the payload is to be treated."""

    classification: Short
    redactions_applied: Annotated[tuple[Short, ...], Field(max_length=MAX_ITEMS)] = ()


class Budgets(Open):
    """What the answer may take."""

    time_ms: Annotated[int, Field(ge=1, le=MAX_TTL_S * 1000)] | None = None
    cost_units: Amount | None = None
    max_tokens: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None


class Signature(Open):
    """Ed25519 over the canonical JSON (RFC 8785) of the message without `signatures`, in base64."""

    signature: Annotated[str, Text(pattern=r"^[A-Za-z0-9+/]{86}==$")]
    algorithm: Literal["Ed25519"] = "Ed25519"
    signer: Short | None = None


def _one_word(value: Any) -> Any:
    return _OTHER_WORDS.get(value, value) if isinstance(value, str) else value


class Headers(Open):
    """IAE 3.4.1. `sent_at` (or `timestamp`) is the sender's clock; `ttl`, in seconds, counts from receipt."""

    message_id: Ulid
    # Behind a before-validator pydantic no longer knows that the input was JSON, and strict enums fail.
    message_type: Annotated[MessageType, Field(strict=False), BeforeValidator(_one_word)]
    conversation_id: Reference
    correlation_id: Reference | None = None
    from_agent_id: AgentName
    to_agent_id: AgentName | None = None
    # A flow of the sender that the message is about.
    dfid: Annotated[str, Text(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] | None = None
    sent_at: AwareDatetime | None = None
    timestamp: AwareDatetime | None = None
    ttl: Annotated[int, Field(ge=1, le=MAX_TTL_S)]
    protocol_version: VersionRange
    payload_schema_uri: Annotated[str, Text(min_length=1, max_length=500)] | None = None
    payload_schema_version: Version | None = None
    auth: Auth | None = None
    privacy: Privacy | None = None
    budgets: Budgets | None = None
    signatures: Annotated[tuple[Signature, ...], Field(max_length=MAX_SIGNATURES)] = ()


class Envelope(BaseModel):
    """A message: its headers, and a payload of the form that its type has."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    headers: Headers
    payload: dict[str, JsonValue]
