"""The fields of the contracts that may be null, and why: every other one always has a value."""

from collections.abc import Mapping
from typing import Final

_NO_ENVIRONMENT = (
    "the agent stated no environment at its handshake, or the flow was opened by the runtime or by an "
    "earlier version"
)
_NO_TRACE = "the agent sent no traceparent"
_NO_RULES = "the proposal named a kind that was not in force, or the agent had no manifest"
_NOT_JUDGED = "nothing has been proposed on this context, so no rules were read"
_NO_PROPOSAL = "nothing has been proposed in this flow"
_VERSION_GONE = (
    "no evidence holds this version of the fact, and it was deleted by retention, or its row is not what its "
    "entry recorded"
)
_NO_CONTEXT = "the proposal names no context"
_NOT_SHOWN = "the proposal names no context, or its bytes are not kept any more"
_NO_CALIBRATION = "no calibration map was active, or the manifest asks for none"
_NO_OPTIONS = "no options were weighed: the proposal follows no decision package, or its words are erased"
_OF_GATE = "of the gate, which weighs no options"
_OF_RECOMMENDER = "of the recommender, where the package stands on no rule output"
_NO_RISK_SCORE = "this version works out no risk score; the impact of a verdict is a class"
_NO_CAP = "the manifest sets no cap"
_NO_PROMPT = "the manifest names no prompt bundle"
_NO_MODEL = "the agent reported nothing of it with its usage"
_NO_RECEIPT = "the target gave no receipt"
_NO_GRADE = "the policy kind says of this effect neither how grave a deviation is nor what to do about it"
_REGISTRY = "the registry of capabilities sent it"
_NO_SIGNATURE = "the manifest of its sender asked for no signature"
_ERASED_MESSAGE = "the words of the message were erased"

_OF_FLOWS = (
    "tool_request",
    "tool_response",
    "policy_decision",
    "ledger_event",
    "replay_trace",
    "hitl_decision",
)

# By contract and path: list items without brackets, but for their sort.
ABSENT: Final[Mapping[tuple[str, str], str]] = {
    ("structured_context", "health.freshness"): _NOT_JUDGED,
    ("structured_context", "actor_profile.role"): _NOT_JUDGED,
    ("structured_context", "risk_tier"): f"{_NOT_JUDGED}; or {_NO_RULES}",
    ("structured_context", "jurisdiction"): f"the kind names none; or {_NOT_JUDGED}; or {_NO_RULES}",
    ("structured_context", "problem_frame.constraints"): _NOT_JUDGED,
    ("structured_context", "problem_frame.preferences"): "the runtime asks no agent for preferences",
    ("structured_context", "problem_frame.utility_proxies"): "the agent named no objectives on this context",
    ("structured_context", "features.unit"): "the kind names no unit for this fact",
    ("structured_context", "features.source"): _VERSION_GONE,
    ("structured_context", "features.last_updated"): _VERSION_GONE,
    ("structured_context", "environment.resources"): _NOT_JUDGED,
    ("structured_context", "environment.cost_windows"): f"{_NOT_JUDGED}; or {_NO_CAP}",
    ("structured_context", "safety_profile.red_lines"): _NOT_JUDGED,
    ("structured_context", "safety_profile.rate_limits"): _NOT_JUDGED,
    ("structured_context", "safety_profile.exposure_budgets"): _NOT_JUDGED,
    ("rule_engine_output", "matches.decides"): "of the gate, whose rules decide about the whole proposal",
    ("decision_package", "method"): _OF_GATE,
    ("decision_package", "consensus"): (
        "of the gate, where the proposal follows no decision package; or made by an earlier version"
    ),
    ("decision_package", "selected_action"): "of the recommender, where nothing can be recommended",
    ("decision_package", "expected_utility"): f"{_OF_GATE}; of the recommender without options",
    ("decision_package", "alternatives.expected_utility"): "of what rules decided, which has no utility",
    ("decision_package", "alternatives.confidence"): "the agent stated none",
    ("decision_package", "references.rule_output_id"): _OF_RECOMMENDER,
    ("decision_package", "references.Ruleset_version"): _OF_RECOMMENDER,
    ("decision_package", "references.recommendation_id"): "the proposal names no decision package",
    ("decision_package", "budgets.time"): "of the recommender, where nothing bounds the time of the flow",
    ("decision_package", "confidence_score"): "the agent stated none, or a person proposed",
    ("decision_package", "confidence_interpretation.calibration_method"): _NO_CALIBRATION,
    ("decision_package", "risk_tier"): _NO_RULES,
    ("decision_package", "abstain_threshold"): _NO_RULES,
    ("decision_package", "escalation_route.SLA"): "the kind sets no time for a decision",
    ("decision_package", "references.context_id"): _NO_CONTEXT,
    ("decision_package", "references.world_version_id"): _NOT_SHOWN,
    ("decision_package", "references.CET_version"): (
        "it stands on no context, or on evidence, or an earlier version compiled the context"
    ),
    ("decision_package", "budgets.cost"): _NO_CAP,
    ("execution_outcome_package", "observed_effects.receipt"): "the words of the receipt were erased",
    ("execution_outcome_package", "deviations"): (
        "the words of the receipt, or of what deviated, were erased: their number and digest stay"
    ),
    ("execution_outcome_package", "deviations.severity"): _NO_GRADE,
    ("execution_outcome_package", "deviations.remediation"): _NO_GRADE,
    ("execution_outcome_package", "error_diagnostics"): "nothing failed",
    ("execution_outcome_package", "telemetry.cost"): "the agent reported no cost",
    ("execution_outcome_package", "world_version_id_before"): _NOT_SHOWN,
    ("execution_outcome_package", "world_version_id_after"): _NOT_SHOWN,
    ("execution_outcome_package", "reengagement_advice"): "no route of the kind asked the agent to go on",
    ("reasoning_trace", "decision_id"): "rules were asked, and nothing has been recommended or proposed",
    ("reasoning_trace", "structure.synthesis_nodes.recommendation_id"): (
        "the proposal names no decision package; or only rules were asked"
    ),
    ("reasoning_trace", "structure.context_nodes.version"): _NOT_SHOWN,
    ("reasoning_trace", "structure.consultation_nodes.prompts"): (
        "what a guard was sent is not recorded; what a provider was asked is in its conversation"
    ),
    ("reasoning_trace", "structure.confidence_nodes.calibration"): _NO_CALIBRATION,
    ("reasoning_trace", "structure.synthesis_nodes.weights"): _NO_OPTIONS,
    ("reasoning_trace", "structure.synthesis_nodes.utilities"): _NO_OPTIONS,
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
    (
        "agent_message",
        "environment",
    ): "nobody states an environment for a conversation",
    ("agent_message", "protocol.capabilities"): "a message names no capabilities of its sender",
    ("agent_message", "sender.agent_instance_id"): _REGISTRY,
    ("agent_message", "sender.subject_id"): _REGISTRY,
    ("agent_message", "recipient.subject_id"): "it went to the registry of capabilities",
    ("agent_message", "payload.task_id"): "it is about no flow",
    ("agent_message", "payload.inputs"): _ERASED_MESSAGE,
    ("agent_message", "hashes.payload_hash"): _ERASED_MESSAGE,
    ("agent_message", "signature.key_id"): _NO_SIGNATURE,
    ("agent_message", "signature.sig"): f"{_NO_SIGNATURE}, or {_ERASED_MESSAGE}",
    ("hitl_decision", "request.amount_usd"): "amounts are in the units of the kind, which are no currency",
    ("hitl_decision", "request.destination_ref"): "a kind marks no parameter as a destination",
    ("hitl_decision", "context.orm_risk_score"): _NO_RISK_SCORE,
}
