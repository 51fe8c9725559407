"""LedgerEvent: one entry of the ledger, with its hashes and the signature over the tree that holds it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from audit.contracts import envelope
from audit.contracts.fields import HASH, SCHEMA_VERSION, TEXT, TRACE, Contract, Field, one_of
from audit.contracts.flow import Flow, NotThereError, Wanted

RETENTION_CLASS: Final = "permanent"


@dataclass(frozen=True, kw_only=True, slots=True)
class SealedEvent:
    """An entry with its place in the ledger, and who signed the newest tree that holds it.

    Hashes are 64 hexadecimal digits; `signature` is base64.
    """

    tenant: str
    stream: str
    seq: int
    at: str
    payload: Mapping[str, Any]
    prev_hash: str
    hash: str
    key_id: str
    signature: str


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """Say that an entry is found by its stream and number."""
    raise NotThereError("Ask for an entry by its stream and number: STREAM:SEQ.")


def view_of(event: SealedEvent, flow: Flow | None) -> dict[str, Any]:
    """One entry; `flow` is the one whose stream it stands in, None in other streams."""
    said = event.payload
    judged = None
    if flow is not None:
        about = str(said.get("proposal_id") or said.get("intent_id") or said.get("escalation_id") or "")
        judged = flow.judged(Wanted(about)) if about else None
    return {
        "schema_version": SCHEMA_VERSION,
        "event_type": "dare.ledger.event",
        "time": event.at,
        "ledger_event_id": f"{event.stream}:{event.seq}",
        "run_id": flow.dfid if flow else said.get("dfid"),
        "tenant_id": event.tenant,
        "environment": flow.environment if flow else said.get("environment") or None,
        "references": {
            "trace_id": flow.trace_id if flow else None,
            "policy_decision_id": judged.proposal_id if judged else None,
            "tool_request_hash": judged.request_hash if judged else None,
            "tool_response_hash": said.get("receipt_commitment"),
        },
        "hash_chain": {"prev_event_hash": event.prev_hash, "event_hash": event.hash},
        "signatures": {"signing_key_id": event.key_id, "signature": event.signature},
        "immutability": {
            "sink_uri": f"/api/v1/audit/proofs/inclusion?stream={event.stream}&seq={event.seq}",
            "retention_class": RETENTION_CLASS,
        },
    }


_ABOUT = "of the proposal, intent or escalation that the payload names"

CONTRACT = Contract(
    name="ledger_event",
    design="DARE",
    title="LedgerEvent",
    about="One entry of the ledger. It needs a checkpoint that covers the entry: until then, within seconds, "
    "the answer is 409.",
    ids="`STREAM:SEQ`; the last colon separates the number",
    view=view,
    fields=(
        *(field for field in envelope.CORRELATION if field.path not in ("trace_id", "environment")),
        Field(
            "environment",
            TEXT,
            f"{envelope.ENVIRONMENT_SOURCE}; else the payload's `environment`",
        ),
        *envelope.event("dare.ledger.event", "the entry's `at`"),
        Field("ledger_event_id", TEXT, "the entry's stream and number"),
        Field("references.trace_id", TRACE, envelope.TRACE_SOURCE),
        Field("references.policy_decision_id", TEXT, f"the `proposal_id` {_ABOUT}"),
        Field("references.tool_request_hash", HASH, f"the `proposal_digest` {_ABOUT}"),
        Field("references.tool_response_hash", HASH, "the payload's `receipt_commitment`"),
        Field("hash_chain.prev_event_hash", HASH, "the entry's `prev_hash`"),
        Field("hash_chain.event_hash", HASH, "the entry's `hash`"),
        Field("signatures.signing_key_id", TEXT, "the key that signed the newest checkpoint"),
        Field("signatures.signature", TEXT, "the signature of the newest checkpoint, which covers the entry"),
        Field("immutability.sink_uri", TEXT, "computed: the address of the proof that it is in the tree"),
        Field(
            "immutability.retention_class",
            one_of(RETENTION_CLASS),
            "constant: entries are never deleted; retention erases words beside them, by policy kind",
        ),
    ),
)
