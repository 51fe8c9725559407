"""AgentMessageEnvelope: one message between agents, made of its entry and of what that commits to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from audit import actors
from audit.contracts import envelope
from audit.contracts import flow as flows
from audit.contracts.fields import HASH, OBJECT, SCHEMA_VERSION, TEXT, TEXTS, TIME, TRACE, Contract, Field
from audit.contracts.flow import Flow, NotThereError, Wanted

NONE_ABOUT: Final = "No message between agents is about this flow."
_SENT: Final = "`message:sent`"
_SAID: Final = "the message (object `message_commitment`)"


@dataclass(frozen=True, kw_only=True, slots=True)
class SentMessage:
    """A message: the time and payload of its entry, and its envelope; None where that was erased."""

    tenant: str
    at: str
    entry: Mapping[str, Any]
    envelope: Mapping[str, Any] | None


def view(flow: Flow, wanted: Wanted) -> NoReturn:
    """Say that there is none: a message is made of another stream than a flow's (`view_of`)."""
    raise NotThereError(NONE_ABOUT)


def view_of(sent: SentMessage) -> dict[str, Any]:
    """The message as the contract shows it."""
    said, held = sent.entry, sent.envelope
    conversation = str(said["conversation_id"])
    signatures = held["headers"].get("signatures") if held and said["key_id"] else None
    return {
        "schema_version": SCHEMA_VERSION,
        "event_type": "agent_message",
        "time": sent.at,
        "run_id": said["dfid"] or conversation,
        "trace_id": conversation.replace("-", ""),
        "tenant_id": sent.tenant,
        "environment": None,
        "protocol": {
            "version": said["high"],
            "capabilities": None,
            "nonce": said["message_id"],
            "expires_at": said["expires_at"],
        },
        "sender": {
            "agent_instance_id": _instance(said["from_agent_id"], conversation),
            "subject_id": _subject(said["from_agent_id"]),
        },
        "recipient": {"subject_id": _subject(said["to_agent_id"])},
        "payload": {
            "type": said["message_type"],
            "task_id": said["dfid"],
            "inputs": held["payload"] if held else None,
        },
        "hashes": {"payload_hash": flows.digest_of(held["payload"]) if held else None},
        "signature": {
            "key_id": said["key_id"] or None,
            "sig": signatures[0]["signature"] if signatures else None,
        },
    }


def _subject(agent_id: str | None) -> str | None:
    return None if agent_id is None else actors.agent(agent_id)


def _instance(agent_id: str | None, conversation: str) -> str | None:
    return None if agent_id is None else f"{actors.agent(agent_id)}#{conversation}"


CONTRACT = Contract(
    name="agent_message",
    design="DARE",
    title="AgentMessageEnvelope",
    about="A message between two agents, or between one and the registry of capabilities.",
    ids="a message id, or a DFID for the newest message about that flow",
    view=view,
    fields=(
        Field("schema_version", TEXT, "constant"),
        Field("run_id", TEXT, f"{_SENT} `dfid`; else `conversation_id`"),
        Field("trace_id", TRACE, f"computed: the digits of {_SENT} `conversation_id`"),
        Field("tenant_id", TEXT, "the tenant of the entry"),
        Field("environment", TEXT, "nothing"),
        *envelope.event("agent_message", f"{_SENT}: its time"),
        Field("protocol.version", TEXT, f"{_SENT} `high`"),
        Field("protocol.capabilities", TEXTS, "nothing"),
        Field("protocol.nonce", TEXT, f"{_SENT} `message_id`"),
        Field("protocol.expires_at", TIME, f"{_SENT} `expires_at`"),
        Field("sender.agent_instance_id", TEXT, f"computed: {_SENT} `from_agent_id` and `conversation_id`"),
        Field("sender.subject_id", TEXT, f"{_SENT} `from_agent_id`, as the ledger names it"),
        Field("recipient.subject_id", TEXT, f"{_SENT} `to_agent_id`, as the ledger names it"),
        Field("payload.type", TEXT, f"{_SENT} `message_type`"),
        Field("payload.task_id", TEXT, f"{_SENT} `dfid`"),
        Field("payload.inputs", OBJECT, f"{_SAID} `/payload`"),
        Field("hashes.payload_hash", HASH, f"computed: SHA-256 of {_SAID} `/payload`"),
        Field("signature.key_id", TEXT, f"{_SENT} `key_id`"),
        Field("signature.sig", TEXT, f"{_SAID} `/headers/signatures/0/signature`"),
    ),
)
