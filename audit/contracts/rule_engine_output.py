"""Rule Engine Output: what each bound of the kind said of a proposal."""

from collections.abc import Iterator, Mapping
from typing import Any

from audit.contracts.fields import (
    FLAG,
    HASH,
    INTEGER,
    SCHEMA_VERSION,
    TEXT,
    TEXTS,
    UNIT,
    Contract,
    Field,
    one_of,
)
from audit.contracts.flow import ALLOW, DECISIONS, Flow, Judged, Wanted

_GROUPS = ("constraints", "limits", "rules")
_ASKED: Mapping[str, str] = {
    "FAIL": DECISIONS["REJECT"],
    "REFER": DECISIONS["ESCALATE"],
    "LIFTED": ALLOW,
}


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The output for a proposal, or for the newest one."""
    judged = flow.judged(wanted)
    matches, declared = list(list_matches(judged)), list(judged.names())
    referred = [finding for finding in judged.findings if finding["outcome"] == "REFER"]
    return {
        "rule_output_id": judged.verdict.payload["verdict_digest"],
        "schema_version": SCHEMA_VERSION,
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


def list_matches(judged: Judged) -> Iterator[dict[str, Any]]:
    """The bounds that were asked: a check that was never reached asked none of its own."""
    reached = {finding["check"] for finding in judged.answer["findings"]}
    for group in _GROUPS:
        for bound in judged.kind.get(group, ()) if group in reached else ():
            found = next((each for each in judged.findings if _is_of(each, group, bound["id"])), None)
            yield {
                "rule_id": bound["id"],
                "rule_version": bound.get("version") or judged.kind["version"],
                "action_proposal": _ASKED[found["outcome"]] if found else ALLOW,
                "certainty": 1,
                "priority": bound.get("priority", 0),
                "mandatory": bound.get("mandatory", True),
                "justification": (found or bound).get("message") or bound.get("require") or bound["value"],
            }


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
        }


_OF_KIND = "the rules (object `policy_bundle_hash`): constraints, limits and rules of the kind"
_FINDINGS = "the verdict (object `verdict_digest`) `/findings`"

CONTRACT = Contract(
    name="rule_engine_output",
    design="IAE",
    title="Rule Engine Output",
    about="What the bounds of a policy kind said of a proposal.",
    ids="the DFID (the newest verdict); the id of a proposal, intent or escalation",
    view=view,
    fields=(
        Field("rule_output_id", HASH, "`verdict:given` `verdict_digest`"),
        Field("schema_version", TEXT, "constant"),
        Field("ruleset_version", HASH, "`verdict:given` `policy_bundle_hash`"),
        Field(
            "status",
            one_of("HIGH_CONFIDENCE_MATCH", "LOW_CONFIDENCE_MATCH", "NO_MATCH"),
            "computed: NO_MATCH where no bound was asked, LOW_CONFIDENCE_MATCH for ESCALATE, else HIGH",
        ),
        Field("matches[].rule_id", TEXT, f"{_OF_KIND}, `id`, of the checks that were reached"),
        Field("matches[].rule_version", TEXT, f"{_OF_KIND}, `version`, else that of the kind"),
        Field(
            "matches[].action_proposal",
            one_of("allow", "require_approval", "deny"),
            f"computed: by the outcome of its finding in {_FINDINGS}; allow without one, or if lifted",
        ),
        Field("matches[].certainty", UNIT, "constant 1: rules are evaluated exactly"),
        Field("matches[].priority", INTEGER, f"{_OF_KIND}, `priority`; 0 for a bound without one"),
        Field("matches[].mandatory", FLAG, f"{_OF_KIND}, `mandatory`; constraints and limits always are"),
        Field(
            "matches[].justification", TEXT, f"{_FINDINGS} `message`; else the bound's own, or what it asks"
        ),
        Field(
            "guardrails_triggered[].invariant_id", TEXT, f"{_FINDINGS} that did not pass: `subject` or `code`"
        ),
        Field(
            "guardrails_triggered[].severity", TEXT, f"{_OF_KIND}, `severity`; else the finding's `outcome`"
        ),
        Field("guardrails_triggered[].detail", TEXT, f"{_FINDINGS} `message`"),
        Field("conflicts[].rule_ids", TEXTS, "computed: `matches` that ask for different things"),
        Field("conflicts[].rationale", TEXT, "computed: what they ask for"),
        Field("conflicts[].resolution_hint", TEXT, "constant: how the gate resolves it"),
        Field("residuals", TEXTS, f"{_FINDINGS} with REFER, where the verdict was not ACCEPT"),
        Field("coverage", UNIT, "computed: share of the kind's bounds that were asked; 1 where it has none"),
        Field("confidence_rule", UNIT, "constant 1: the same input always gives the same output"),
        Field("trace_ref", TEXT, "computed: the address of the reasoning trace"),
        Field("requested_retransformations[].feature_gap", TEXT, f"{_FINDINGS} of `context_freshness`"),
        Field("requested_retransformations[].suggested_scope", TEXT, "its `subject`, else its `code`"),
    ),
)
