"""The fields of the contracts that may be null, and why: every other one always has a value."""

from collections.abc import Mapping
from typing import Final

_NO_ENVIRONMENT = "an agent states its environment at the handshake; the entries of a flow do not repeat it"
_NO_TRACE = "the agent sent no traceparent"
_NO_RULES = "the proposal named a kind that was not in force, or the agent had no manifest"
_NOT_JUDGED = "nothing has been proposed on this context, so no rules were read"
_NO_PROPOSAL = "nothing has been proposed in this flow"
_NO_CONTEXT = "the proposal names no context"
_NOT_SHOWN = "the proposal names no context, or its bytes are not kept any more"
_NO_CALIBRATION = "no calibration map was active, or the manifest asks for none"
_NO_UTILITIES = "the runtime weighs no options; the agent proposes one action"
_NO_RISK_SCORE = "this version works out no risk score; the impact of a verdict is a class"
_NO_CAP = "the manifest sets no cap"
_NO_PROMPT = "the manifest names no prompt bundle"
_NO_MODEL = "the agent reports nothing about its model"
_NO_RECEIPT = "the target gave no receipt"
_NO_GRADE = "the runtime grades no deviation and suggests nothing"
_NO_MESSAGES = "this version has no messages between agents"

_OF_MESSAGES = (
    "schema_version",
    "run_id",
    "trace_id",
    "tenant_id",
    "event_type",
    "time",
    "protocol",
    "sender",
    "recipient",
    "payload",
    "hashes",
    "signature",
)
_OF_FLOWS = (
    "tool_request",
    "tool_response",
    "policy_decision",
    "ledger_event",
    "replay_trace",
    "agent_message",
    "hitl_decision",
)

# By contract and path: list items without brackets, but for their sort.
ABSENT: Final[Mapping[tuple[str, str], str]] = {
    ("structured_context", "health.freshness"): _NOT_JUDGED,
    ("structured_context", "actor_profile.role"): _NOT_JUDGED,
    ("structured_context", "risk_tier"): f"{_NOT_JUDGED}; or {_NO_RULES}",
    ("structured_context", "jurisdiction"): "no policy kind names a jurisdiction",
    ("structured_context", "problem_frame.constraints"): _NOT_JUDGED,
    ("structured_context", "problem_frame.preferences"): "the runtime asks no agent for preferences",
    ("structured_context", "problem_frame.utility_proxies"): _NO_UTILITIES,
    ("structured_context", "features.unit"): "the kind names no unit for this fact",
    ("structured_context", "features.source"): "who wrote a fact is recorded with evidence only",
    ("structured_context", "features.last_updated"): "when a fact was written is recorded with evidence only",
    ("structured_context", "environment.resources"): _NOT_JUDGED,
    ("structured_context", "environment.cost_windows"): f"{_NOT_JUDGED}; or {_NO_CAP}",
    ("structured_context", "safety_profile.red_lines"): _NOT_JUDGED,
    ("structured_context", "safety_profile.rate_limits"): _NOT_JUDGED,
    ("structured_context", "safety_profile.exposure_budgets"): _NOT_JUDGED,
    ("decision_package", "confidence_score"): "the agent stated none, or a person proposed",
    ("decision_package", "confidence_interpretation.calibration_method"): _NO_CALIBRATION,
    ("decision_package", "risk_tier"): _NO_RULES,
    ("decision_package", "abstain_threshold"): _NO_RULES,
    ("decision_package", "escalation_route.SLA"): "the kind sets no time for a decision",
    ("decision_package", "references.context_id"): _NO_CONTEXT,
    ("decision_package", "references.world_version_id"): _NOT_SHOWN,
    ("decision_package", "references.CET_version"): "entries do not name the version that compiled a context",
    ("decision_package", "budgets.cost"): _NO_CAP,
    ("execution_outcome_package", "observed_effects.receipt"): "the words of the receipt were erased",
    ("execution_outcome_package", "deviations"): "only their number and digest are kept with the entries",
    ("execution_outcome_package", "deviations.severity"): _NO_GRADE,
    ("execution_outcome_package", "deviations.remediation"): _NO_GRADE,
    ("execution_outcome_package", "error_diagnostics"): "nothing failed",
    ("execution_outcome_package", "telemetry.cost"): "the agent reported no cost",
    ("execution_outcome_package", "world_version_id_before"): _NOT_SHOWN,
    ("execution_outcome_package", "world_version_id_after"): _NOT_SHOWN,
    ("execution_outcome_package", "reengagement_advice"): "no route of the kind asked the agent to go on",
    ("reasoning_trace", "structure.context_nodes.version"): _NOT_SHOWN,
    ("reasoning_trace", "structure.consultation_nodes.prompts"): "what a guard was sent is not recorded",
    ("reasoning_trace", "structure.confidence_nodes.calibration"): _NO_CALIBRATION,
    ("reasoning_trace", "structure.synthesis_nodes.weights"): _NO_UTILITIES,
    ("reasoning_trace", "structure.synthesis_nodes.utilities"): _NO_UTILITIES,
    ("reasoning_trace", "structure.synthesis_nodes.steps.text"): (
        "the text of a chain of thought is never recorded, only the digest that the agent gives"
    ),
    **{(name, "environment"): _NO_ENVIRONMENT for name in _OF_FLOWS},
    ("tool_request", "span_id"): _NO_TRACE,
    ("tool_request", "agent.agent_version"): _NO_RULES,
    ("tool_request", "identity.claims.image_digest"): "agents state no image, and nobody could check it",
    ("tool_request", "identity.claims.config_hash"): _NO_RULES,
    ("tool_request", "identity.claims.toolset_hash"): _NO_RULES,
    ("tool_request", "tool.category"): _NO_RULES,
    ("tool_request", "tool.risk_tier"): _NO_RULES,
    ("tool_request", "tool.idempotency_key"): "nothing was called for this proposal, so there is no key",
    ("tool_request", "bundles.prompt_bundle_hash"): _NO_PROMPT,
    ("tool_request", "bundles.tool_schema_hash"): _NO_RULES,
    ("tool_request", "context.orm_risk_score"): _NO_RISK_SCORE,
    ("tool_request", "context.budgets.tokens_remaining"): _NO_CAP,
    ("tool_request", "context.budgets.tool_calls_remaining"): _NO_CAP,
    ("tool_request", "context.budgets.cost_usd_remaining"): _NO_CAP,
    ("tool_request", "approval.approval_id"): "no approval is needed, or nobody has decided yet",
    ("tool_response", "span_id"): _NO_TRACE,
    ("tool_response", "outputs.payload_redacted"): f"{_NO_RECEIPT}, or it was erased",
    ("tool_response", "outputs.snapshot_uri"): _NO_RECEIPT,
    ("tool_response", "hashes.response_hash"): _NO_RECEIPT,
    ("policy_decision", "action.tool_category"): _NO_RULES,
    ("policy_decision", "action.risk_tier"): _NO_RULES,
    ("policy_decision", "inputs.context_hash"): _NO_CONTEXT,
    ("policy_decision", "bundles.tool_schema_hash"): _NO_RULES,
    ("ledger_event", "run_id"): "the stream is that of no flow",
    ("ledger_event", "references.trace_id"): "the stream is that of no flow",
    ("ledger_event", "references.policy_decision_id"): "the entry is about no proposal",
    ("ledger_event", "references.tool_request_hash"): "the entry is about no proposal",
    ("ledger_event", "references.tool_response_hash"): "the entry is about no answer of a target",
    (
        "ledger_event",
        "immutability.retention_class",
    ): "entries stay; retention erases words beside them, by policy kind",
    ("replay_trace", "agent.agent_version"): f"{_NO_PROPOSAL}; or {_NO_RULES}",
    ("replay_trace", "model.model_id"): f"{_NO_PROPOSAL}; or the manifest names no model profile",
    ("replay_trace", "model.model_version"): _NO_MODEL,
    ("replay_trace", "model.temperature"): _NO_MODEL,
    ("replay_trace", "model.seed"): _NO_MODEL,
    ("replay_trace", "model.decoding"): _NO_MODEL,
    ("replay_trace", "bundles.policy_bundle_hash"): _NO_PROPOSAL,
    ("replay_trace", "bundles.prompt_bundle_hash"): f"{_NO_PROPOSAL}; or {_NO_PROMPT}",
    ("replay_trace", "bundles.tool_schema_hash"): f"{_NO_PROPOSAL}; or {_NO_RULES}",
    ("replay_trace", "steps[memory_read].output_hash"): "it was denied, or there was no active value",
    ("replay_trace", "steps[tool_call].response_hash"): f"{_NO_RECEIPT}, or the call has not ended",
    ("replay_trace", "steps[tool_call].response_snapshot_uri"): f"{_NO_RECEIPT}, or the call has not ended",
    **{("agent_message", path): _NO_MESSAGES for path in _OF_MESSAGES},
    ("hitl_decision", "request.amount_usd"): "amounts are in the units of the kind, which are no currency",
    ("hitl_decision", "request.destination_ref"): "a kind marks no parameter as a destination",
    ("hitl_decision", "context.orm_risk_score"): _NO_RISK_SCORE,
}
