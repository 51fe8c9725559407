"""Decision Package: what was recommended, or decided about a proposal, and the bounds of carrying it out."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from audit.contracts import advice
from audit.contracts import flow as flows
from audit.contracts.advice import Package
from audit.contracts.fields import (
    DURATION,
    FLAG,
    HASH,
    NUMBER,
    OBJECT,
    SCHEMA_VERSION,
    TEXT,
    TEXTS,
    TIME,
    UNIT,
    Contract,
    Field,
    Form,
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
_ASKED_AFTER = "Soft guards are asked after the verdict; they flag a proposal and change nothing in it."
MILLION: Final = 1_000_000


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The recommendation of a flow that has one; else, or by the id of a proposal, what the gate decided."""
    package = advice.find_package(flow, wanted)
    return _given(flow.judged(wanted)) if package is None else _recommended(package)


def _recommended(package: Package) -> dict[str, Any]:
    """The stored package, with what came of it."""
    said = package.document
    action = said["selected_action"]
    effects = [{"fact": fact} for fact in action["expected_effects"]] if action else []
    return {
        # Older packages have no consensus: nobody could be consulted.
        "consensus": None,
        **said,
        "made_by": "recommender",
        "selected_action": {**action, "expected_effects": effects} if action else None,
        "references": {
            **said["references"],
            "CET_version": package.flow.compiler_of(said["references"]["context_id"]),
            "recommendation_id": package.id,
            "proposal_ids": package.followed_by,
        },
    }


def _given(judged: Judged) -> dict[str, Any]:
    """The verdict on a proposal."""
    flow, followed = judged.flow, advice.named_by(judged)
    asked, kind, manifest = judged.asked, judged.kind, judged.manifest
    confidence, threshold = asked["confidence"], _threshold(kind, manifest)
    ref = judged.proposal.payload["context_ref"] or None
    compute = judged.facts.get("compute") or {}
    cap = compute.get("cost_cap_micros")
    return {
        "decision_id": judged.proposal_id,
        "made_by": "gate",
        "schema_version": SCHEMA_VERSION,
        "task_id": flow.dfid,
        "timestamp": judged.verdict.at,
        "decision_type": _TYPES[judged.decision],
        "method": None,
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
        "expected_utility": None,
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
        "alternatives": list(followed.document["alternatives"]) if followed else [],
        "dropped": list(followed.document["dropped"]) if followed else [],
        "reasoning_trace_ref": reasoning_ref(judged),
        "references": {
            "context_id": ref,
            "rule_output_id": judged.verdict.payload["verdict_digest"],
            "world_version_id": flow.world_version(ref),
            "CET_version": flow.compiler_of(ref),
            "Ruleset_version": judged.bundle_hash,
            "DER_version": judged.verdict.payload["gate_version"],
            "recommendation_id": judged.decision_id,
            "proposal_ids": [judged.proposal_id],
        },
        "consensus": followed.document.get("consensus") if followed else None,
        "consultations": [*advice.consultations_of(followed), *consultations(judged)],
        "consultation_note": _ASKED_AFTER,
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
    for group, bound in judged.bounds():
        is_limit = group == "limits"
        names = {"value": "value", "limit": "limit"} if is_limit else {"asks": "require"}
        parameters = {name: bound[member] for name, member in names.items()}
        yield {"invariant_id": bound["id"], "parameters": parameters}


def _requirements(judged: Judged) -> Iterator[dict[str, Any]]:
    if judged.decision == "require_approval":
        people = judged.kind.get("approvals", 1)
        yield {"type": "human_approval", "detail": f"{people} of those who may decide"}
    if judged.kind.get("approval_mode"):
        yield {"type": "approval_mode", "detail": judged.kind["approval_mode"]}
    for need in judged.kind.get("required_evidence", ()):
        yield {"type": "evidence", "detail": need if isinstance(need, str) else _words(need)}
    for condition in judged.asked["conditions"]:
        yield {"type": "condition", "detail": condition}


def _words(need: Mapping[str, Any]) -> str:
    """What evidence a kind needs: `fact account.balance`, `step reasoning`, with its longest age."""
    return ", ".join(f"{name} {value}" for name, value in need.items())


_ASKED = "the proposal (object `proposal_digest`)"
_VERDICT = "the verdict (object `verdict_digest`)"
_INPUT = "the verdict's input (object `input_digest`)"
_RULES = "the rules (object `policy_bundle_hash`)"
_FLAGGED = "`review:flagged` of the proposal"

_PACKAGE = "the package (object `package_digest`)"


def _of(recommended: str, given: str) -> str:
    """Where a field comes from: of the recommender's package, and of the gate's."""
    return f"recommender: {_PACKAGE} `{recommended}`. gate: {given}"


def _package(path: str) -> str:
    """The place of a field in the recommender's package."""
    return "/" + path.replace("[]", "/*").replace(".", "/")


def _field(path: str, form: Form, given: str) -> Field:
    return Field(path, form, _of(_package(path), given))


_NOTHING_HERE = "nothing"
_FOLLOWED = "the package that the proposal names, its"

CONTRACT = Contract(
    name="decision_package",
    design="IAE",
    title="Decision Package",
    about="What the recommender said in a flow, or what the gate decided about a proposal, and the bounds of "
    "carrying it out.",
    ids="the DFID (the newest decision package of the recommender; without one the newest verdict); the id "
    "of a decision package or of a rule output; that of a proposal, intent or escalation (the verdict)",
    view=view,
    fields=(
        _field("decision_id", TEXT, "`proposal:submitted` `proposal_id`"),
        Field("made_by", one_of("recommender", "gate"), "computed: whose decision it is"),
        Field("schema_version", TEXT, "constant"),
        Field("task_id", TEXT, "the DFID"),
        _field("timestamp", TIME, "`verdict:given` `at`"),
        _field(
            "decision_type",
            one_of("choose", "plan", "route", "approve", "deny"),
            "computed: approve for ACCEPT, route for ESCALATE, deny for REJECT",
        ),
        _field("method", one_of("adopt", "refine", "consult", "abstain", "deny"), _NOTHING_HERE),
        _field("selected_action.name", TEXT, "`proposal:submitted` `policy_kind`"),
        _field("selected_action.parameters", OBJECT, f"{_ASKED} `/params`"),
        _field(
            "selected_action.preconditions", TEXTS, f"{_RULES} `/kind/constraints`; {_ASKED} `/conditions`"
        ),
        _field(
            "selected_action.expected_effects", {"type": "array", "items": OBJECT}, f"{_VERDICT} `/predicted`"
        ),
        _field("selected_action.dependencies", TEXTS, f"{_RULES} `/kind/depends_on`"),
        _field(
            "selected_action.required_capabilities", TEXTS, f"{_VERDICT} `/steps/*/target`, else `executor`"
        ),
        _field("safety_assertions[].invariant_id", TEXT, f"{_RULES}: constraints, limits and rules, `id`"),
        _field("safety_assertions[].parameters", OBJECT, f"{_RULES}: what each asks"),
        _field("expected_utility", NUMBER, _NOTHING_HERE),
        _field("confidence_score", UNIT, f"{_ASKED} `/confidence`, as the agent stated it"),
        _field(
            "confidence_interpretation.calibration_method",
            TEXT,
            f"{_VERDICT} `/calibrated`: the calibration map that was asked",
        ),
        _field(
            "confidence_interpretation.band",
            one_of("at_or_above_threshold", "below_threshold", "not_compared"),
            f"computed: `confidence_score`, or {_VERDICT} `/calibrated/used` where smaller, against "
            "`abstain_threshold`",
        ),
        _field("confidence_interpretation.notes", TEXT, "constant: whether the agent stated one"),
        _field("risk_tier", one_of("T0", "T1", "T2", "T3"), f"{_RULES} `/kind/risk_tier`"),
        _field(
            "abstain_threshold",
            UNIT,
            f"computed: the higher of the tier's (T0 0.6, T1 0.7, T2 0.8, T3 0.9) and {_RULES} "
            "`/manifest/escalate_below_confidence`",
        ),
        _field("human_review_required", FLAG, "`verdict:given` `verdict` is ESCALATE"),
        _field("escalation_route.contact", TEXT, f"{_INPUT} `/facts/agent/owner`"),
        _field("escalation_route.SLA", DURATION, f"{_RULES} `/kind/sla_s`"),
        _field("alternatives[].id", TEXT, f"{_FOLLOWED} alternatives"),
        _field("alternatives[].action.name", TEXT, f"{_FOLLOWED} alternatives"),
        _field("alternatives[].action.parameters", OBJECT, f"{_FOLLOWED} alternatives"),
        _field("alternatives[].expected_utility", NUMBER, f"{_FOLLOWED} alternatives"),
        _field("alternatives[].confidence", UNIT, f"{_FOLLOWED} alternatives"),
        _field("alternatives[].trade_offs[].objective", TEXT, f"{_FOLLOWED} alternatives"),
        _field("alternatives[].trade_offs[].difference", NUMBER, f"{_FOLLOWED} alternatives"),
        _field("dropped[].id", TEXT, f"{_FOLLOWED} dropped options"),
        _field("dropped[].reason", TEXT, f"{_FOLLOWED} dropped options"),
        _field("reasoning_trace_ref", TEXT, "computed: the address of the reasoning trace"),
        _field(
            "references.context_id", HASH, "`proposal:submitted` `context_ref`; of a person, the evidence"
        ),
        _field("references.rule_output_id", TEXT, "`verdict:given` `verdict_digest`"),
        _field("references.world_version_id", HASH, "computed: SHA-256 of the versions of the facts in it"),
        Field("references.CET_version", TEXT, "`context:compiled` of `context_id`: `compiler_version`"),
        _field("references.Ruleset_version", TEXT, "`verdict:given` `policy_bundle_hash`"),
        _field("references.DER_version", TEXT, "`verdict:given` `gate_version`"),
        Field(
            "references.recommendation_id",
            TEXT,
            f"recommender: `decision:recommended` `decision_id`. gate: {_ASKED} `/decision_id`",
        ),
        Field(
            "references.proposal_ids",
            TEXTS,
            f"recommender: the proposals that name it, {_ASKED} `/decision_id`. gate: the proposal's id",
        ),
        _field("consensus", OBJECT, f"{_FOLLOWED} consensus"),
        _field("consultations[].provider", TEXT, f"{_FOLLOWED} consultations; {_FLAGGED}: `guard_id`"),
        _field(
            "consultations[].consultation_id", TEXT, f"{_FOLLOWED} consultations; {_FLAGGED}: `review_id`"
        ),
        _field(
            "consultations[].consensus_metrics",
            OBJECT,
            f"{_FOLLOWED} consultations; {_FLAGGED}: `confidence`, `codes`",
        ),
        _field("consultation_note", TEXT, "constant: when guards are asked"),
        _field("budgets.time", DURATION, f"{_ASKED}: from `received_at_ms` to `valid_until_ms`"),
        _field("budgets.cost", TEXT, f"{_INPUT} `/facts/compute`: US dollars that are left"),
        _field(
            "policy_requirements[].type", TEXT, "computed: human_approval, approval_mode, evidence, condition"
        ),
        _field(
            "policy_requirements[].detail",
            TEXT,
            f"{_RULES} `/kind/approvals`, `approval_mode`, `required_evidence`; {_ASKED} `/conditions`",
        ),
    ),
)
