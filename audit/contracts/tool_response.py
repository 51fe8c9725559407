"""ToolResponseEnvelope: how one call ended."""

from typing import Any

from audit.contracts import envelope
from audit.contracts import flow as flows
from audit.contracts.fields import HASH, INTEGER, TEXT, TEXTS, VALUE, Contract, Field, one_of
from audit.contracts.flow import Entry, Flow, NotThereError, Wanted
from audit.contracts.replay_trace import step_id
from audit.contracts.tool_request import obligations_of

_STATUS = {"SUCCEEDED": "success", "FAILED": "failure"}


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The answer to the newest call that has one, or to the one that is asked for."""
    attempt, ended = _find(flow, wanted)
    judged = flow.judged_for(attempt.payload["intent_id"])
    commitment = ended.payload.get("receipt_commitment")
    held = flow.behind(commitment) if commitment else None
    return {
        **envelope.correlation(flow),
        "span_id": flow.span_id,
        "event_type": "dare.tool.response",
        "time": ended.at,
        "tool": {
            "name": judged.name,
            "status": _STATUS.get(ended.payload["result"], "unknown"),
            "duration_ms": flows.milliseconds(attempt.at, ended.at),
        },
        "outputs": {
            "content_type": "application/json",
            "payload_redacted": held[0] if held else None,
            "snapshot_uri": flow.snapshot_uri(commitment),
        },
        "hashes": {"response_hash": commitment},
        "policy": {
            "decision_id": judged.proposal_id,
            "decision": judged.decision,
            "obligations": obligations_of(judged),
            "policy_bundle_hash": judged.bundle_hash,
        },
        "evidence": {"ledger_event_id": flow.event_id(ended), "replay_trace_step_id": step_id(flow, attempt)},
    }


def _find(flow: Flow, wanted: Wanted) -> tuple[Entry, Entry]:
    for attempt in reversed(flow.attempts(wanted)):
        ended = flow.answer_to(attempt)
        if ended is not None:
            return attempt, ended
    raise NotThereError("No call has ended yet.")


_ENDED = "`attempt:finished`, `attempt:reported_late`"

CONTRACT = Contract(
    name="tool_response",
    design="DARE",
    title="ToolResponseEnvelope",
    about="How one call ended.",
    ids="the DFID (the newest call that ended); the id of an intent or its proposal, with `:N` its Nth call",
    view=view,
    is_numbered=True,
    fields=(
        *envelope.CORRELATION,
        envelope.SPANNED,
        *envelope.event("dare.tool.response", f"{_ENDED} `at`"),
        Field("tool.name", TEXT, "`proposal:submitted` `policy_kind`"),
        Field("tool.status", one_of("success", "failure", "unknown"), f"{_ENDED} `result`"),
        Field("tool.duration_ms", INTEGER, "computed: from `attempt:started` to that entry"),
        Field("outputs.content_type", TEXT, "constant: `application/json`"),
        Field("outputs.payload_redacted", VALUE, "the payload behind `receipt_commitment`"),
        Field("outputs.snapshot_uri", TEXT, "computed: where the evidence pack holds it"),
        Field("hashes.response_hash", HASH, f"{_ENDED} `receipt_commitment`: SHA-256 with a salt"),
        Field("policy.decision_id", TEXT, "`intent:created` `proposal_id`"),
        Field("policy.decision", one_of("allow", "require_approval", "deny"), "`verdict:given` `verdict`"),
        Field("policy.obligations", TEXTS, "`verdict:given` `obligations`"),
        Field("policy.policy_bundle_hash", HASH, "`verdict:given` `policy_bundle_hash`"),
        Field("evidence.ledger_event_id", TEXT, f"computed: the id of {_ENDED}"),
        Field("evidence.replay_trace_step_id", TEXT, "computed: the step of `replay_trace`"),
    ),
)
