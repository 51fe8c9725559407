"""ToolRequestEnvelope: what an agent asked to be done, or one call that was made for it."""

from collections.abc import Mapping
from typing import Any

from audit.contracts import envelope
from audit.contracts import flow as flows
from audit.contracts.fields import (
    DECIMAL,
    FLAG,
    HASH,
    INTEGER,
    TEXT,
    TEXTS,
    UNIT,
    Contract,
    Field,
    one_of,
)
from audit.contracts.flow import Entry, Flow, Judged, NotThereError, Wanted
from audit.contracts.hitl_decision import approval_id, list_in_effect
from audit.events import Kind

OBLIGATIONS = ("audit_log", "sign_action", "hitl_approval", "redact", "limit")
_PROBE = "PROBE"
_COMPENSATE = "COMPENSATE"


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The newest call; where none was made, the newest proposal. By a proposal's id that proposal."""
    judged, attempt = _find(flow, wanted)
    call = _call_of(flow, attempt) if attempt else None
    payload = _payload_of(call, attempt) if call and attempt else judged.asked["params"]
    approval = _approval_of(judged)
    manifest = judged.manifest
    return {
        **envelope.correlation(flow),
        "span_id": flow.span_id,
        "event_type": "dare.tool.request",
        "time": attempt.at if attempt else judged.proposal.at,
        "agent": envelope.agent(flow, judged),
        "identity": {
            "subject": flow.agent,
            "attested": bool(judged.facts["session_valid"]),
            "claims": {
                "image_digest": None,
                "config_hash": flows.digest_of(manifest) if manifest else None,
                "toolset_hash": flows.digest_of(manifest["policy_kinds"]) if manifest else None,
            },
        },
        "tool": {
            **envelope.tool(judged),
            "idempotency_key": attempt.payload["target_key"] if attempt else None,
        },
        "inputs": {
            "content_type": "application/json",
            "payload": payload,
            "payload_hash": flows.digest_of(payload),
        },
        "bundles": envelope.bundles(judged),
        "hashes": {"request_hash": judged.request_hash},
        "context": {
            "orm_risk_score": None,
            "budgets": {
                "tokens_remaining": judged.left("tokens"),
                "tool_calls_remaining": judged.left("tool_calls"),
                "cost_usd_remaining": _dollars_left(judged),
            },
            "source_labels": list(dict.fromkeys([*judged.facts.get("labels", ()), *flow.source_labels()])),
        },
        "approval": {
            "required": needs_approval(judged),
            "approval_id": approval_id(approval) if approval else None,
        },
    }


def _find(flow: Flow, wanted: Wanted) -> tuple[Judged, Entry | None]:
    if wanted.id and not wanted.part and any(each.proposal_id == wanted.id for each in flow.judgements):
        return flow.judged(wanted), None
    found = flow.attempts(wanted)
    if found:
        return flow.judged_for(found[-1].payload["intent_id"]), found[-1]
    if wanted.part:
        raise NotThereError("This intent has no attempt of this number.")
    return flow.judged(wanted), None


def _call_of(flow: Flow, attempt: Entry) -> Mapping[str, Any]:
    """The call of an attempt, as it was rendered. Raises NotThereError where it cannot be shown."""
    said = attempt.payload
    created = next(e for e in flow.of(Kind.INTENT_CREATED) if e.payload["intent_id"] == said["intent_id"])
    requests = flow.document(created.payload["request_digest"], "request")
    for step in requests["steps"]:
        if step["step"] == said["step"]:
            undoing = said.get("direction") == _COMPENSATE
            return dict(step.get("compensation") if undoing else step)
    raise NotThereError("The request of this attempt has no such step.")


def _payload_of(call: Mapping[str, Any], attempt: Entry) -> Any:
    """What was sent: the body; of a question by the key, its path."""
    return {"probe": call["probe"]} if attempt.payload.get("purpose") == _PROBE else call["body"]


def needs_approval(judged: Judged) -> bool:
    """Whether a person had to decide: on an escalated proposal, or on one that a person made."""
    return judged.decision == "require_approval" or bool(judged.asked["by_person"])


def obligations_of(judged: Judged) -> list[str]:
    """What the verdict obliged the runtime to; of older ones, what it did for every verdict of its sort."""
    said = judged.verdict.payload.get("obligations")
    if said:
        return list(said)
    asked = {"sign_action": bool(judged.asked["by_person"]), "hitl_approval": needs_approval(judged)}
    return ["audit_log", *(name for name, required in asked.items() if required)]


def _approval_of(judged: Judged) -> Entry | None:
    """The decision on this proposal, or the one that made it."""
    opened = {e.payload["escalation_id"] for e in judged.escalations()}
    for entry in reversed(list(list_in_effect(judged.flow))):
        said = entry.payload
        is_about_it = said.get("proposal_id") == judged.proposal_id or said["escalation_id"] in opened
        if entry.kind == Kind.ESCALATION_DECIDED and is_about_it:
            return entry
    return None


def _dollars_left(judged: Judged) -> str | None:
    compute = judged.facts.get("compute") or {}
    cap = compute.get("cost_cap_micros")
    return None if cap is None else flows.dollars(cap - compute["cost_used_micros"])


_ASKED = "the proposal (object `proposal_digest`)"
_CALLED = "`attempt:started`"
_COMPUTE = f"{envelope.INPUT} `/facts/compute`: what is left at the verdict"

CONTRACT = Contract(
    name="tool_request",
    design="DARE",
    title="ToolRequestEnvelope",
    about="What an agent asked to be done, or one call that was made for it.",
    ids="the DFID (the newest call; without one the newest proposal); the id of a proposal; that of an "
    "intent (its newest call), with `:N` its Nth attempt",
    view=view,
    is_numbered=True,
    fields=(
        *envelope.CORRELATION,
        envelope.SPANNED,
        *envelope.event("dare.tool.request", f"{_CALLED} `at`; of a proposal that of its entry"),
        *envelope.AGENT,
        *envelope.IDENTITY,
        Field("identity.claims.image_digest", HASH, "nothing"),
        Field("identity.claims.config_hash", HASH, f"computed: SHA-256 of {envelope.RULES} `/manifest`"),
        Field(
            "identity.claims.toolset_hash",
            HASH,
            f"computed: SHA-256 of {envelope.RULES} `/manifest/policy_kinds`",
        ),
        Field("tool.name", TEXT, "`proposal:submitted` `policy_kind`"),
        Field("tool.category", TEXT, envelope.CATEGORY),
        Field("tool.risk_tier", one_of("T0", "T1", "T2", "T3"), f"{envelope.RULES} `/kind/risk_tier`"),
        Field("tool.idempotency_key", TEXT, f"{_CALLED} `target_key`"),
        Field("inputs.content_type", TEXT, "constant: `application/json`"),
        Field(
            "inputs.payload",
            {"not": {"type": "null"}},
            f"{_ASKED} `/params`; of a call the request (object `request_digest`): its body",
        ),
        Field("inputs.payload_hash", HASH, "computed: SHA-256 of the canonical JSON of the payload"),
        *envelope.BUNDLES,
        Field("hashes.request_hash", HASH, "`proposal:submitted` `proposal_digest`"),
        Field("context.orm_risk_score", UNIT, "nothing"),
        Field("context.budgets.tokens_remaining", INTEGER, _COMPUTE),
        Field("context.budgets.tool_calls_remaining", INTEGER, _COMPUTE),
        Field("context.budgets.cost_usd_remaining", DECIMAL, _COMPUTE),
        Field(
            "context.source_labels",
            TEXTS,
            f"{envelope.INPUT} `/facts/labels`, and `step:reported` `source_labels`: the agent's own words",
        ),
        Field("approval.required", FLAG, f"`verdict:given` `verdict` is ESCALATE, or {_ASKED} `/by_person`"),
        Field("approval.approval_id", TEXT, "computed: the id of its `escalation:decided`"),
    ),
)
