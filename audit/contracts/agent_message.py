"""AgentMessageEnvelope: a message between agents. This version has none, so no flow has one to show."""

from typing import Any, NoReturn

from audit.contracts import envelope
from audit.contracts.fields import HASH, OBJECT, TEXT, TEXTS, TIME, Contract, Field
from audit.contracts.flow import Flow, NotThereError, Wanted

_NOTHING = "nothing: there are no messages"


def view(flow: Flow, wanted: Wanted) -> NoReturn:
    """Say that there is none."""
    raise NotThereError("Agents send each other no messages in this version, so no flow has one.")


def _fields() -> dict[str, Any]:
    return {
        "event_type": TEXT,
        "time": TIME,
        "protocol.version": TEXT,
        "protocol.capabilities": TEXTS,
        "protocol.nonce": TEXT,
        "protocol.expires_at": TIME,
        "sender.agent_instance_id": TEXT,
        "sender.subject_id": TEXT,
        "recipient.subject_id": TEXT,
        "payload.type": TEXT,
        "payload.task_id": TEXT,
        "payload.inputs": OBJECT,
        "hashes.payload_hash": HASH,
        "signature.key_id": TEXT,
        "signature.sig": TEXT,
    }


CONTRACT = Contract(
    name="agent_message",
    design="DARE",
    title="AgentMessageEnvelope",
    about="A message between agents. This version has none: every flow is answered with 404.",
    ids="none",
    view=view,
    fields=(
        *envelope.CORRELATION,
        *(Field(path, form, _NOTHING) for path, form in _fields().items()),
    ),
)
