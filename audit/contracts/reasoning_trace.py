"""Reasoning Trace: what led to a decision, as a graph of nodes, and who signed what."""

from collections.abc import Iterator, Mapping
from typing import Any

from audit.contracts import decision_package, rule_engine_output
from audit.contracts import flow as flows
from audit.contracts.fields import (
    FLAG,
    HASH,
    SCHEMA_VERSION,
    TEXT,
    TEXTS,
    TIME,
    TRACE,
    UNIT,
    Contract,
    Field,
)
from audit.contracts.flow import Flow, Judged, Wanted
from audit.events import Kind

_SIGNED = (
    Kind.ESCALATION_DECIDED,
    Kind.ESCALATION_FIRST_DECIDED,
    Kind.EFFECT_STATED,
    Kind.INFORMATION_REQUESTED,
)


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The trace of a decision, or of the newest one."""
    judged = flow.judged(wanted)
    structure = _structure(flow, judged)
    return {
        "trace_id": flow.trace_id,
        "decision_id": judged.proposal_id,
        "schema_version": SCHEMA_VERSION,
        "structure": structure,
        "signatures": list(_signatures(flow)),
        "redaction_info": list(_redactions(flow)),
        "content_address": flows.digest_of(structure),
    }


def _structure(flow: Flow, judged: Judged) -> dict[str, Any]:
    """Every edge leads to the synthesis, which the verdict is."""
    nodes: dict[str, list[dict[str, Any]]] = {
        "context_nodes": list(_contexts(flow, judged)),
        "rule_nodes": list(_rules(judged)),
        "consultation_nodes": list(_consultations(judged)),
        "confidence_nodes": list(_confidence(judged)),
    }
    synthesis = {
        "node_id": f"synthesis:{judged.proposal_id}",
        "weights": None,
        "constraints": list(judged.names()),
        "utilities": None,
        "steps": [
            {
                "step_type": e.payload["step_type"],
                "digest": e.payload["digest"],
                "reported_at": e.at,
                "text": None,
            }
            for e in flow.of(Kind.STEP_REPORTED)
            if e.seq < judged.verdict.seq
        ],
    }
    return {
        **nodes,
        "synthesis_nodes": [synthesis],
        "edges": [
            {"source": node["node_id"], "target": synthesis["node_id"]}
            for sort in nodes.values()
            for node in sort
        ],
    }


def _contexts(flow: Flow, judged: Judged) -> Iterator[dict[str, Any]]:
    ref = judged.proposal.payload["context_ref"]
    if ref:
        yield {"node_id": f"context:{ref}", "context_id": ref, "version": flow.world_version(ref)}


def _rules(judged: Judged) -> Iterator[dict[str, Any]]:
    matches: Mapping[str, Any] = {
        match["rule_id"]: match for match in rule_engine_output.list_matches(judged)
    }
    for rule_id in judged.names():
        match = matches.get(rule_id)
        yield {
            "node_id": f"rule:{rule_id}",
            "rule_id": rule_id,
            "rule_version": match["rule_version"] if match else judged.kind["version"],
            "fired": match is not None,
            "reason": match["justification"] if match else "An earlier check had rejected the proposal.",
        }


def _consultations(judged: Judged) -> Iterator[dict[str, Any]]:
    for consulted in decision_package.consultations(judged):
        yield {
            "node_id": f"consultation:{consulted['consultation_id']}",
            "provider": consulted["provider"],
            "prompts": None,
            "redactions": ["findings"],
            "consensus": consulted["consensus_metrics"]["confidence"],
        }


def _confidence(judged: Judged) -> Iterator[dict[str, Any]]:
    confidence = judged.asked["confidence"]
    if confidence is not None:
        yield {
            "node_id": f"confidence:{judged.proposal_id}",
            "confidence": confidence,
            "calibration": flows.calibration_of(judged),
        }


def _signatures(flow: Flow) -> Iterator[dict[str, Any]]:
    for entry in flow.of(*_SIGNED):
        # Who decided first, and when, says nothing before the words may be seen.
        is_hidden = str(entry.payload["statement_digest"]) not in flow.kept.objects
        if not (entry.kind == Kind.ESCALATION_FIRST_DECIDED and is_hidden):
            yield {
                "signer": entry.actor,
                "signature": entry.payload["signature"],
                "timestamp": entry.at,
                "key_id": entry.payload["key_id"],
            }


def _redactions(flow: Flow) -> Iterator[dict[str, str]]:
    for entry in flow.kept.entries:
        if entry.kind == Kind.REDACTION_APPLIED:
            yield from (
                {"policy": f"redact:{rule}", "field": f"{entry.seq}/{entry.payload['source']}"}
                for rule in entry.payload["rules"]
            )
        for name, value in entry.payload.items():
            held = flow.kept.payloads.get(value) if isinstance(value, str) else None
            if held is not None and held.body is None:
                yield {"policy": "erased", "field": f"{entry.seq}/{name}"}
            elif isinstance(value, str) and value in flow.kept.absent:
                yield {"policy": flow.kept.absent[value], "field": f"{entry.seq}/{name}"}


_RULES = "the rules (object `policy_bundle_hash`)"
_STEP = "`step:reported` before the verdict"
_SIGNS = "`escalation:decided`, `escalation:first_decided`, `effect:stated`, `information:requested`"

CONTRACT = Contract(
    name="reasoning_trace",
    design="IAE",
    title="Reasoning Trace",
    about="What led to a decision, and who signed what in its flow.",
    ids="the DFID (the newest verdict); the id of a proposal, intent or escalation",
    view=view,
    fields=(
        Field("trace_id", TRACE, "`flow:opened` `traceparent`; else computed: the digits of the DFID"),
        Field("decision_id", TEXT, "`proposal:submitted` `proposal_id`"),
        Field("schema_version", TEXT, "constant"),
        Field("structure.context_nodes[].node_id", TEXT, "computed: `context:` and its id"),
        Field("structure.context_nodes[].context_id", HASH, "`proposal:submitted` `context_ref`"),
        Field("structure.context_nodes[].version", HASH, "computed: SHA-256 of the versions of its facts"),
        Field("structure.rule_nodes[].node_id", TEXT, "computed: `rule:` and its id"),
        Field("structure.rule_nodes[].rule_id", TEXT, f"{_RULES}: constraints, limits and rules, `id`"),
        Field("structure.rule_nodes[].rule_version", TEXT, f"{_RULES}: `version`, else that of the kind"),
        Field("structure.rule_nodes[].fired", FLAG, "computed: whether its check was reached"),
        Field("structure.rule_nodes[].reason", TEXT, "the verdict (object `verdict_digest`) `/findings`"),
        Field("structure.consultation_nodes[].node_id", TEXT, "computed: `consultation:` and its id"),
        Field("structure.consultation_nodes[].provider", TEXT, "`review:flagged` `guard_id`"),
        Field("structure.consultation_nodes[].prompts", TEXTS, "nothing"),
        Field("structure.consultation_nodes[].redactions", TEXTS, "constant: its findings quote the agent"),
        Field("structure.consultation_nodes[].consensus", TEXT, "`review:flagged` `confidence`"),
        Field("structure.confidence_nodes[].node_id", TEXT, "computed: `confidence:` and the proposal's id"),
        Field("structure.confidence_nodes[].confidence", UNIT, "the proposal (object `proposal_digest`)"),
        Field(
            "structure.confidence_nodes[].calibration",
            TEXT,
            "the verdict (object `verdict_digest`) `/calibrated`: the calibration map that was asked",
        ),
        Field("structure.synthesis_nodes[].node_id", TEXT, "computed: `synthesis:` and the proposal's id"),
        Field("structure.synthesis_nodes[].weights", TEXTS, "nothing"),
        Field("structure.synthesis_nodes[].constraints", TEXTS, f"{_RULES}: ids of all bounds"),
        Field("structure.synthesis_nodes[].utilities", TEXTS, "nothing"),
        Field("structure.synthesis_nodes[].steps[].step_type", TEXT, f"{_STEP}: `step_type`"),
        Field("structure.synthesis_nodes[].steps[].digest", TEXT, f"{_STEP}: `digest`, as the agent gave it"),
        Field("structure.synthesis_nodes[].steps[].reported_at", TIME, f"{_STEP}: `at`"),
        Field("structure.synthesis_nodes[].steps[].text", TEXT, "nothing"),
        Field("structure.edges[].source", TEXT, "computed: every other node"),
        Field("structure.edges[].target", TEXT, "computed: the synthesis"),
        Field("signatures[].signer", TEXT, f"{_SIGNS}: `actor`"),
        Field("signatures[].signature", TEXT, f"{_SIGNS}: `signature` (Ed25519, hexadecimal)"),
        Field("signatures[].timestamp", TIME, f"{_SIGNS}: `at`"),
        Field("signatures[].key_id", TEXT, f"{_SIGNS}: `key_id`"),
        Field(
            "redaction_info[].policy",
            TEXT,
            "computed: erased, why the bytes cannot be shown, or `redact:` and the rule that was applied",
        ),
        Field(
            "redaction_info[].field",
            TEXT,
            "computed: number of the entry and name of the field, or what was redacted",
        ),
        Field("content_address", HASH, "computed: SHA-256 of the canonical JSON of `structure`"),
    ),
)
