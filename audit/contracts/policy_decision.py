"""PolicyDecisionRecord: the verdict on a proposal."""

from typing import Any

from audit.contracts import envelope
from audit.contracts.fields import FLAG, HASH, TEXT, TEXTS, Contract, Field, one_of
from audit.contracts.flow import Flow, Wanted
from audit.contracts.tool_request import OBLIGATIONS, obligations_of


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The record of a proposal, or of the newest one."""
    judged = flow.judged(wanted)
    in_force = envelope.bundles(judged)
    what, required = envelope.tool(judged), obligations_of(judged)
    return {
        **envelope.correlation(flow),
        "event_type": "dare.policy.decision",
        "time": judged.verdict.at,
        "decision_id": judged.proposal_id,
        "subject": {
            "agent_instance_id": flow.instance,
            "subject_id": judged.proposal.payload["author"],
            "attested": bool(judged.facts["session_valid"]),
        },
        "action": {
            "type": "tool.invoke",
            "tool_name": what["name"],
            "tool_category": what["category"],
            "risk_tier": what["risk_tier"],
        },
        "inputs": {
            "request_hash": judged.request_hash,
            "context_hash": judged.proposal.payload["context_ref"] or None,
        },
        "bundles": {name: in_force[name] for name in ("policy_bundle_hash", "tool_schema_hash")},
        "result": {
            "decision": judged.decision,
            "reason_codes": [
                *(reason["code"] for reason in judged.verdict.payload["reasons"]),
                *judged.verdict.payload.get("allowed_by", ()),
            ],
            "obligations": [{"type": name, "required": name in required} for name in OBLIGATIONS],
        },
    }


_PROPOSED = "`proposal:submitted`"
_GIVEN = "`verdict:given`"

CONTRACT = Contract(
    name="policy_decision",
    design="DARE",
    title="PolicyDecisionRecord",
    about="The verdict on a proposal.",
    ids="the DFID (the newest verdict); the id of a proposal, intent or escalation",
    view=view,
    fields=(
        *envelope.CORRELATION,
        *envelope.event("dare.policy.decision", f"{_GIVEN} `at`"),
        Field("decision_id", TEXT, f"{_PROPOSED} `proposal_id`"),
        Field("subject.agent_instance_id", TEXT, "computed: the agent of `flow:opened`, and the DFID"),
        Field("subject.subject_id", TEXT, f"{_PROPOSED} `author`: an agent, or the person who decided"),
        Field("subject.attested", FLAG, f"{envelope.INPUT} `/facts/session_valid`"),
        Field("action.type", TEXT, "constant: `tool.invoke`"),
        Field("action.tool_name", TEXT, f"{_PROPOSED} `policy_kind`"),
        Field("action.tool_category", TEXT, envelope.CATEGORY),
        Field("action.risk_tier", one_of("T0", "T1", "T2", "T3"), f"{envelope.RULES} `/kind/risk_tier`"),
        Field("inputs.request_hash", HASH, f"{_PROPOSED} `proposal_digest`"),
        Field("inputs.context_hash", HASH, f"{_PROPOSED} `context_ref`; of a person, the evidence"),
        *(field for field in envelope.BUNDLES if "prompt" not in field.path),
        Field(
            "result.decision",
            one_of("allow", "require_approval", "deny"),
            f"{_GIVEN} `verdict`: allow for ACCEPT, require_approval for ESCALATE, deny for REJECT",
        ),
        Field("result.reason_codes", TEXTS, f"{_GIVEN} `/reasons/*/code`; of ACCEPT its `/allowed_by`"),
        Field("result.obligations[].type", TEXT, f"constant: {', '.join(OBLIGATIONS)}"),
        Field("result.obligations[].required", FLAG, f"computed: whether {_GIVEN} `/obligations` has it"),
    ),
)
