"""Decision Package: what was decided about a proposal, and under which bounds it may be carried out."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from audit.contracts import flow as flows
from audit.contracts.fields import (
    DURATION,
    FLAG,
    HASH,
    OBJECT,
    SCHEMA_VERSION,
    TEXT,
    TEXTS,
    TIME,
    UNIT,
    Contract,
    Field,
    one_of,
)
from audit.contracts.flow import Flow, Judged, Wanted
from audit.contracts.rule_engine_output import reasoning_ref
from audit.events import Kind

# As the gate has them: the confidence below which a tier asks for a person.
TIER_THRESHOLDS: Final[Mapping[str, float]] = {"T0": 0.6, "T1": 0.7, "T2": 0.8, "T3": 0.9}
_TYPES: Mapping[str, str] = {"allow": "approve", "require_approval": "route", "deny": "deny"}
_STATED = "The agent's own statement, compared with a threshold."
_NOT_STATED = "None was stated."
MILLION: Final = 1_000_000


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The package of a proposal, or of the newest one."""
    judged = flow.judged(wanted)
    asked, kind, manifest = judged.asked, judged.kind, judged.manifest
    confidence, threshold = asked["confidence"], _threshold(kind, manifest)
    ref = judged.proposal.payload["context_ref"] or None
    compute = judged.facts.get("compute") or {}
    cap = compute.get("cost_cap_micros")
    return {
        "decision_id": judged.proposal_id,
        "schema_version": SCHEMA_VERSION,
        "task_id": flow.dfid,
        "timestamp": judged.verdict.at,
        "decision_type": _TYPES[judged.decision],
        "selected_action": {
            "name": judged.name,
            "parameters": asked["params"],
            "preconditions": [
                *(each["require"] for each in kind.get("constraints", ())),
                *asked["conditions"],
            ],
            "expected_effects": judged.answer["predicted"],
            "dependencies": [each["fact"] for each in kind.get("depends_on", ())],
            "required_capabilities": [each["target"] or each["executor"] for each in judged.answer["steps"]],
        },
        "safety_assertions": list(_assertions(judged)),
        "confidence_score": confidence,
        "confidence_interpretation": {
            "calibration_method": flows.calibration_of(judged),
            "band": _band(_compared(judged), threshold),
            "notes": _NOT_STATED if confidence is None else _STATED,
        },
        "risk_tier": kind.get("risk_tier"),
        "abstain_threshold": threshold,
        "human_review_required": judged.decision == "require_approval",
        "escalation_route": {
            "contact": judged.facts["agent"]["owner"],
            "SLA": flows.duration(kind["sla_s"] * 1000) if kind.get("sla_s") else None,
        },
        "alternatives": [],
        "reasoning_trace_ref": reasoning_ref(judged),
        "references": {
            "context_id": ref,
            "rule_output_id": judged.verdict.payload["verdict_digest"],
            "world_version_id": flow.world_version(ref),
            "CET_version": None,
            "Ruleset_version": judged.bundle_hash,
            "DER_version": judged.verdict.payload["gate_version"],
        },
        "consultations": list(consultations(judged)),
        "budgets": {
            "time": flows.duration(asked["valid_until_ms"] - asked["received_at_ms"]),
            "cost": None if cap is None else flows.dollars(cap - compute["cost_used_micros"]),
        },
        "policy_requirements": list(_requirements(judged)),
    }


def consultations(judged: Judged) -> Iterator[dict[str, Any]]:
    """The soft guards that flagged a proposal; they are asked after the verdict and change nothing in it."""
    for entry in judged.flow.of(Kind.REVIEW_FLAGGED):
        if entry.payload["proposal_id"] == judged.proposal_id:
            metrics = {"confidence": entry.payload["confidence"], "codes": list(entry.payload["codes"])}
            yield {
                "provider": entry.payload["guard_id"],
                "consultation_id": entry.payload["review_id"],
                "consensus_metrics": metrics,
            }


def _threshold(kind: Mapping[str, Any], manifest: Mapping[str, Any]) -> float | None:
    tier = TIER_THRESHOLDS.get(str(kind.get("risk_tier")))
    return None if tier is None else max(tier, manifest.get("escalate_below_confidence") or 0)


def _compared(judged: Judged) -> float | None:
    """The confidence that the gate compared: the smaller of the stated one and that of a calibration map."""
    used = judged.answer.get("calibrated")
    stated: float | None = judged.asked["confidence"]
    if used is None or used["used"] == used["stated"]:
        return stated
    return float(used["used"]) / MILLION


def _band(confidence: float | None, threshold: float | None) -> str:
    if confidence is None or threshold is None:
        return "not_compared"
    return "below_threshold" if confidence < threshold else "at_or_above_threshold"


def _assertions(judged: Judged) -> Iterator[dict[str, Any]]:
    for group, asked in (("constraints", "require"), ("limits", "limit"), ("rules", "require")):
        for bound in judged.kind.get(group, ()):
            parameters = {"asks": bound[asked]}
            if group == "limits":
                parameters = {"value": bound["value"], "limit": bound["limit"]}
            yield {"invariant_id": bound["id"], "parameters": parameters}


def _requirements(judged: Judged) -> Iterator[dict[str, Any]]:
    if judged.decision == "require_approval":
        people = judged.kind.get("approvals", 1)
        yield {"type": "human_approval", "detail": f"{people} of those who may decide"}
    if judged.kind.get("approval_mode"):
        yield {"type": "approval_mode", "detail": judged.kind["approval_mode"]}
    for name in judged.kind.get("required_evidence", ()):
        yield {"type": "evidence", "detail": name}
    for condition in judged.asked["conditions"]:
        yield {"type": "condition", "detail": condition}


_ASKED = "the proposal (object `proposal_digest`)"
_VERDICT = "the verdict (object `verdict_digest`)"
_INPUT = "the verdict's input (object `input_digest`)"
_RULES = "the rules (object `policy_bundle_hash`)"
_FLAGGED = "`review:flagged` of the proposal"

CONTRACT = Contract(
    name="decision_package",
    design="IAE",
    title="Decision Package",
    about="What the gate decided about a proposal, and the bounds of carrying it out.",
    ids="the DFID (the newest verdict); the id of a proposal, intent or escalation",
    view=view,
    fields=(
        Field("decision_id", TEXT, "`proposal:submitted` `proposal_id`"),
        Field("schema_version", TEXT, "constant"),
        Field("task_id", TEXT, "the DFID"),
        Field("timestamp", TIME, "`verdict:given` `at`"),
        Field(
            "decision_type",
            one_of("choose", "plan", "route", "approve", "deny"),
            "computed: approve for ACCEPT, route for ESCALATE, deny for REJECT",
        ),
        Field("selected_action.name", TEXT, "`proposal:submitted` `policy_kind`"),
        Field("selected_action.parameters", OBJECT, f"{_ASKED} `/params`"),
        Field(
            "selected_action.preconditions", TEXTS, f"{_RULES} `/kind/constraints`; {_ASKED} `/conditions`"
        ),
        Field(
            "selected_action.expected_effects", {"type": "array", "items": OBJECT}, f"{_VERDICT} `/predicted`"
        ),
        Field("selected_action.dependencies", TEXTS, f"{_RULES} `/kind/depends_on`"),
        Field(
            "selected_action.required_capabilities", TEXTS, f"{_VERDICT} `/steps/*/target`, else `executor`"
        ),
        Field("safety_assertions[].invariant_id", TEXT, f"{_RULES}: constraints, limits and rules, `id`"),
        Field("safety_assertions[].parameters", OBJECT, f"{_RULES}: what each asks"),
        Field("confidence_score", UNIT, f"{_ASKED} `/confidence`, as the agent stated it"),
        Field(
            "confidence_interpretation.calibration_method",
            TEXT,
            f"{_VERDICT} `/calibrated`: the calibration map that was asked",
        ),
        Field(
            "confidence_interpretation.band",
            one_of("at_or_above_threshold", "below_threshold", "not_compared"),
            f"computed: `confidence_score`, or {_VERDICT} `/calibrated/used` where smaller, against "
            "`abstain_threshold`",
        ),
        Field("confidence_interpretation.notes", TEXT, "constant: whether the agent stated one"),
        Field("risk_tier", one_of("T0", "T1", "T2", "T3"), f"{_RULES} `/kind/risk_tier`"),
        Field(
            "abstain_threshold",
            UNIT,
            f"computed: the higher of the tier's (T0 0.6, T1 0.7, T2 0.8, T3 0.9) and {_RULES} "
            "`/manifest/escalate_below_confidence`",
        ),
        Field("human_review_required", FLAG, "`verdict:given` `verdict` is ESCALATE"),
        Field("escalation_route.contact", TEXT, f"{_INPUT} `/facts/agent/owner`"),
        Field("escalation_route.SLA", DURATION, f"{_RULES} `/kind/sla_s`"),
        Field(
            "alternatives",
            {"type": "array", "maxItems": 0},
            "constant: none, a proposal names one action",
        ),
        Field("reasoning_trace_ref", TEXT, "computed: the address of the reasoning trace"),
        Field("references.context_id", HASH, "`proposal:submitted` `context_ref`; of a person, the evidence"),
        Field("references.rule_output_id", HASH, "`verdict:given` `verdict_digest`"),
        Field("references.world_version_id", HASH, "computed: SHA-256 of the versions of the facts in it"),
        Field("references.CET_version", TEXT, "nothing"),
        Field("references.Ruleset_version", HASH, "`verdict:given` `policy_bundle_hash`"),
        Field("references.DER_version", TEXT, "`verdict:given` `gate_version`"),
        Field("consultations[].provider", TEXT, f"{_FLAGGED}: `guard_id`"),
        Field("consultations[].consultation_id", TEXT, f"{_FLAGGED}: `review_id`"),
        Field("consultations[].consensus_metrics", OBJECT, f"{_FLAGGED}: `confidence`, `codes`"),
        Field("budgets.time", DURATION, f"{_ASKED}: from `received_at_ms` to `valid_until_ms`"),
        Field("budgets.cost", TEXT, f"{_INPUT} `/facts/compute`: US dollars that are left"),
        Field(
            "policy_requirements[].type", TEXT, "computed: human_approval, approval_mode, evidence, condition"
        ),
        Field(
            "policy_requirements[].detail",
            TEXT,
            f"{_RULES} `/kind/approvals`, `approval_mode`, `required_evidence`; {_ASKED} `/conditions`",
        ),
    ),
)
