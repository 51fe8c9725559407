"""Rule Engine Output: what a ruleset said of features, or what each bound of the kind said of a proposal."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from audit.contracts import advice
from audit.contracts.fields import (
    FLAG,
    INTEGER,
    OBJECT,
    SCHEMA_VERSION,
    TEXT,
    TEXTS,
    UNIT,
    Contract,
    Field,
    Form,
    one_of,
)
from audit.contracts.flow import ALLOW, DECISIONS, Flow, Judged, Wanted

_ASKED: Mapping[str, str] = {
    "FAIL": DECISIONS["REJECT"],
    "REFER": DECISIONS["ESCALATE"],
    "LIFTED": ALLOW,
}


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """What a ruleset said in a flow; without one, or by the id of a proposal, what the kind's bounds did."""
    output = advice.find_output(flow, wanted)
    return _given(flow.judged(wanted)) if output is None else {**output.document, "made_by": "ruleset"}


def _given(judged: Judged) -> dict[str, Any]:
    """What the bounds of the kind said of a proposal."""
    matches, declared = list(list_matches(judged)), list(judged.names())
    referred = [finding for finding in judged.findings if finding["outcome"] == "REFER"]
    return {
        "rule_output_id": judged.verdict.payload["verdict_digest"],
        "made_by": "gate",
        "schema_version": SCHEMA_VERSION,
        "ruleset": judged.name,
        "ruleset_version": judged.bundle_hash,
        "status": _status(judged, matches),
        "matches": matches,
        "guardrails_triggered": [
            {
                "invariant_id": invariant_of(finding),
                "severity": _severity(judged, finding),
                "detail": finding["message"],
            }
            for finding in judged.findings
        ],
        "conflicts": list(_conflicts(matches)),
        "decided": [],
        "residuals": [invariant_of(finding) for finding in referred] if judged.decision != ALLOW else [],
        "coverage": len(matches) / len(declared) if declared else 1,
        "confidence_rule": 1,
        "trace_ref": reasoning_ref(judged),
        "requested_retransformations": [
            {"feature_gap": finding["message"], "suggested_scope": finding["subject"] or finding["code"]}
            for finding in judged.findings
            if finding["check"] == "context_freshness"
        ],
    }


def invariant_of(finding: Mapping[str, Any]) -> str:
    """The id of the bound that a finding is about; without one, its code."""
    return str(finding["subject"] or finding["code"] or finding["check"])


def reasoning_ref(judged: Judged) -> str:
    """Where the reasoning trace of a decision is."""
    return f"/api/v1/audit/contracts/reasoning_trace/{judged.proposal_id}"


@dataclass(frozen=True, kw_only=True)
class AskedBound:
    """A bound of a kind; `found` is what was found against it, None where it held or was never asked."""

    bound: Mapping[str, Any]
    is_asked: bool
    found: Mapping[str, Any] | None


def list_bounds(judged: Judged) -> Iterator[AskedBound]:
    """All bounds of the kind; a check that was never reached has asked none of its own."""
    findings = judged.findings
    reached = {finding["check"] for finding in judged.answer["findings"]}
    for group, bound in judged.bounds():
        is_asked = group in reached
        against = (each for each in findings if is_asked and _is_of(each, group, bound["id"]))
        yield AskedBound(bound=bound, is_asked=is_asked, found=next(against, None))


def list_matches(judged: Judged) -> Iterator[dict[str, Any]]:
    """The bounds that were asked, with what each asks for."""
    for asked in list_bounds(judged):
        bound, found = asked.bound, asked.found
        if not asked.is_asked:
            continue
        yield {
            "rule_id": bound["id"],
            "rule_version": bound.get("version") or judged.kind["version"],
            "action_proposal": _ASKED[found["outcome"]] if found else ALLOW,
            "certainty": 1,
            "priority": bound.get("priority", 0),
            "mandatory": bound.get("mandatory", True),
            "justification": found["message"] if found else what_held(bound),
            "decides": None,
        }


def what_held(bound: Mapping[str, Any]) -> str:
    """What a bound asks, said of one that is satisfied: its own message tells of the opposite."""
    asked = bound["require"] if "require" in bound else f"{bound['value']} <= {bound['limit']}"
    return f"It held: {asked}"


def _is_of(finding: Mapping[str, Any], group: str, bound: str) -> bool:
    if finding["check"] != group:
        return False
    return bound in (finding["subject"], finding["code"]) or finding["message"].startswith(f"{bound}: ")


def _status(judged: Judged, matches: list[dict[str, Any]]) -> str:
    if not matches:
        return "NO_MATCH"
    is_undecided = judged.decision == DECISIONS["ESCALATE"]
    return "LOW_CONFIDENCE_MATCH" if is_undecided else "HIGH_CONFIDENCE_MATCH"


def _severity(judged: Judged, finding: Mapping[str, Any]) -> str:
    rules = {rule["id"]: rule.get("severity") for rule in judged.kind.get("rules", ())}
    return str(rules.get(finding["code"]) or finding["outcome"])


def _conflicts(matches: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Bounds that ask for different things, where neither is satisfied."""
    against = [match for match in matches if match["action_proposal"] != ALLOW]
    asked = {match["action_proposal"] for match in against}
    if len(asked) > 1:
        yield {
            "rule_ids": [match["rule_id"] for match in against],
            "rationale": f"They ask for {' and '.join(sorted(asked))}.",
            "resolution_hint": "The strictest counts: deny before require_approval.",
            "resolved_by": "strictest",
        }


_OF_KIND = "the rules (object `policy_bundle_hash`): constraints, limits and rules of the kind"
_FINDINGS = "the verdict (object `verdict_digest`) `/findings`"
_OUTPUT = "the rule output (object `output_digest`)"
# Of the gate allow, require_approval or deny; of a ruleset the action with its parameters.
_PROPOSED: Form = {"type": ["string", "object"]}


def _field(path: str, form: Form, given: str) -> Field:
    """A field of both: a ruleset's is as it was stored."""
    place = "/" + path.replace("[]", "/*").replace(".", "/")
    return Field(path, form, f"ruleset: {_OUTPUT} `{place}`. gate: {given}")


CONTRACT = Contract(
    name="rule_engine_output",
    design="IAE",
    title="Rule Engine Output",
    about="What a ruleset said of features, or what the bounds of a policy kind said of a proposal.",
    ids="the DFID (the newest rule output; without one the newest verdict); the id of a rule output or of a "
    "decision package; that of a proposal, intent or escalation (the verdict)",
    view=view,
    fields=(
        _field("rule_output_id", TEXT, "`verdict:given` `verdict_digest`"),
        Field("made_by", one_of("ruleset", "gate"), "computed: whose rules were asked"),
        Field("schema_version", TEXT, "constant"),
        _field("ruleset", TEXT, "`proposal:submitted` `policy_kind`"),
        _field("ruleset_version", TEXT, "`verdict:given` `policy_bundle_hash`"),
        _field(
            "status",
            one_of("HIGH_CONFIDENCE_MATCH", "LOW_CONFIDENCE_MATCH", "NO_MATCH"),
            "computed: NO_MATCH where no bound was asked, LOW_CONFIDENCE_MATCH for ESCALATE, else HIGH",
        ),
        _field("matches[].rule_id", TEXT, f"{_OF_KIND}, `id`, of the checks that were reached"),
        _field("matches[].rule_version", TEXT, f"{_OF_KIND}, `version`, else that of the kind"),
        _field(
            "matches[].action_proposal",
            _PROPOSED,
            f"computed: by the outcome of its finding in {_FINDINGS}; allow without one, or if lifted",
        ),
        _field("matches[].certainty", UNIT, "constant 1: rules are evaluated exactly"),
        _field("matches[].priority", INTEGER, f"{_OF_KIND}, `priority`; 0 for a bound without one"),
        _field("matches[].mandatory", FLAG, f"{_OF_KIND}, `mandatory`; constraints and limits always are"),
        _field(
            "matches[].justification",
            TEXT,
            f"{_FINDINGS} `message`; without a finding what the bound asks, which held",
        ),
        _field("matches[].decides", TEXT, "nothing"),
        _field(
            "guardrails_triggered[].invariant_id", TEXT, f"{_FINDINGS} that did not pass: `subject` or `code`"
        ),
        _field(
            "guardrails_triggered[].severity", TEXT, f"{_OF_KIND}, `severity`; else the finding's `outcome`"
        ),
        _field("guardrails_triggered[].detail", TEXT, f"{_FINDINGS} `message`"),
        _field("conflicts[].rule_ids", TEXTS, "computed: `matches` that ask for different things"),
        _field("conflicts[].rationale", TEXT, "computed: what they ask for"),
        _field("conflicts[].resolution_hint", TEXT, "constant: how the gate resolves it"),
        _field("conflicts[].resolved_by", TEXT, "constant: `strictest`"),
        _field("decided[].aspect", TEXT, "no item: the gate decides about a proposal as a whole"),
        _field("decided[].actions[].action", TEXT, "no item"),
        _field("decided[].actions[].params", OBJECT, "no item"),
        _field("decided[].rule_ids", TEXTS, "no item"),
        _field("decided[].certainty", UNIT, "no item"),
        _field("residuals", TEXTS, f"{_FINDINGS} with REFER, where the verdict was not ACCEPT"),
        _field("coverage", UNIT, "computed: share of the kind's bounds that were asked; 1 where it has none"),
        _field("confidence_rule", UNIT, "constant 1: the same input always gives the same output"),
        _field("trace_ref", TEXT, "computed: the address of the reasoning trace"),
        _field("requested_retransformations[].feature_gap", TEXT, f"{_FINDINGS} of `context_freshness`"),
        _field("requested_retransformations[].suggested_scope", TEXT, "its `subject`, else its `code`"),
    ),
)
