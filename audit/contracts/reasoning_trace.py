"""Reasoning Trace: what led to a decision, as a graph of nodes, and who signed what."""

from collections.abc import Iterator, Mapping
from typing import Any

from audit.contracts import advice, decision_package, rule_engine_output
from audit.contracts import flow as flows
from audit.contracts.advice import Output, Package
from audit.contracts.fields import (
    FLAG,
    HASH,
    NUMBER,
    OBJECT,
    SCHEMA_VERSION,
    TEXT,
    TEXTS,
    TIME,
    TRACE,
    UNIT,
    Contract,
    Field,
)
from audit.contracts.flow import Entry, Flow, Judged, Wanted
from audit.events import Kind

_SIGNED = (
    Kind.ESCALATION_DECIDED,
    Kind.ESCALATION_FIRST_DECIDED,
    Kind.EFFECT_STATED,
    Kind.INFORMATION_REQUESTED,
)
_NOT_ASKED = "Not asked: an earlier check had rejected the proposal."


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The trace of a verdict, or of advice by its id; of a flow the newest verdict, else advice."""
    decision_id, structure = _traced(flow, wanted)
    return {
        "trace_id": flow.trace_id,
        "decision_id": decision_id,
        "schema_version": SCHEMA_VERSION,
        "structure": structure,
        "signatures": list(_signatures(flow)),
        "redaction_info": list(_redactions(flow)),
        "content_address": flows.digest_of(structure),
    }


def _traced(flow: Flow, wanted: Wanted) -> tuple[str | None, dict[str, Any]]:
    """The id of what was decided, None where rules alone were asked; and what led to it."""
    if not wanted.id and flow.judgements:
        judged = flow.judgements[-1]
        return judged.proposal_id, _of_verdict(flow, judged)
    outputs = advice.list_outputs(flow)
    asked_rules = next((each for each in outputs if each.id == wanted.id), None)
    package = None if asked_rules else advice.find_package(flow, wanted)
    if package is not None:
        return package.id, _of_package(flow, package)
    if asked_rules is None and not wanted.id and outputs:
        asked_rules = outputs[-1]
    if asked_rules is not None:
        return None, _of_output(flow, asked_rules)
    judged = flow.judged(wanted)
    return judged.proposal_id, _of_verdict(flow, judged)


def _of_verdict(flow: Flow, judged: Judged) -> dict[str, Any]:
    followed = advice.named_by(judged)
    built_on = followed.output if followed else None
    return _structure(
        flow,
        until=judged.verdict,
        name=judged.proposal_id,
        nodes={
            "context_nodes": list(_contexts(flow, judged.proposal.payload["context_ref"])),
            "rule_nodes": [*_rules(judged), *(advice.rule_nodes(built_on) if built_on else ())],
            "consultation_nodes": [
                *(advice.consultation_nodes(followed) if followed else ()),
                *_consultations(judged),
            ],
            "confidence_nodes": list(_confidence(judged)),
        },
        constraints=list(judged.names()),
        package=followed,
    )


def _of_package(flow: Flow, package: Package) -> dict[str, Any]:
    said, built_on = package.document, package.output
    confidence = {
        "node_id": f"confidence:{package.id}",
        "confidence": said["confidence_score"],
        "calibration": said["confidence_interpretation"]["calibration_method"],
    }
    return _structure(
        flow,
        until=package.entry,
        name=package.id,
        nodes={
            "context_nodes": list(_contexts(flow, said["references"]["context_id"])),
            "rule_nodes": list(advice.rule_nodes(built_on)) if built_on else [],
            "consultation_nodes": list(advice.consultation_nodes(package)),
            "confidence_nodes": [confidence],
        },
        constraints=[each["invariant_id"] for each in said["safety_assertions"]],
        package=package,
    )


def _of_output(flow: Flow, output: Output) -> dict[str, Any]:
    nodes: dict[str, list[dict[str, Any]]] = {
        "context_nodes": [],
        "rule_nodes": list(advice.rule_nodes(output)),
        "consultation_nodes": [],
        "confidence_nodes": [],
    }
    return _structure(flow, until=output.entry, name=output.id, nodes=nodes, constraints=[], package=None)


def _structure(
    flow: Flow,
    *,
    until: Entry,
    name: str,
    nodes: Mapping[str, list[dict[str, Any]]],
    constraints: list[str],
    package: Package | None,
) -> dict[str, Any]:
    """Every edge leads to the synthesis, which the decision is; `until` is its entry."""
    synthesis = {
        "node_id": f"synthesis:{name}",
        "recommendation_id": package.id if package else None,
        "weights": advice.weights_of(package),
        "constraints": constraints,
        "utilities": advice.utilities_of(package),
        "steps": [
            {
                "step_type": e.payload["step_type"],
                "digest": e.payload["digest"],
                "reported_at": e.at,
                "text": None,
            }
            for e in flow.of(Kind.STEP_REPORTED)
            if e.seq < until.seq
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


def _contexts(flow: Flow, ref: str | None) -> Iterator[dict[str, Any]]:
    if ref:
        yield {"node_id": f"context:{ref}", "context_id": ref, "version": flow.world_version(ref)}


def _rules(judged: Judged) -> Iterator[dict[str, Any]]:
    """The bounds of the kind. Those that have a finding have fired; of the others it says what held."""
    for asked in rule_engine_output.list_bounds(judged):
        bound, found = asked.bound, asked.found
        held = rule_engine_output.what_held(bound) if asked.is_asked else _NOT_ASKED
        yield {
            "node_id": f"rule:{bound['id']}",
            "rule_id": bound["id"],
            "rule_version": bound.get("version") or judged.kind["version"],
            "fired": found is not None,
            "reason": found["message"] if found else held,
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
_PACKAGE = "the decision package (object `package_digest`)"
_MADE_FROM = "what the decision package was made from (object `input_digest` of `decision:recommended`)"
_OUTPUT = "the rule output (object `output_digest`)"
_STEP = "`step:reported` before the verdict or the advice"
_SIGNS = "`escalation:decided`, `escalation:first_decided`, `effect:stated`, `information:requested`"

CONTRACT = Contract(
    name="reasoning_trace",
    design="IAE",
    title="Reasoning Trace",
    about="What led to a decision, and who signed what in its flow.",
    ids="the DFID (the newest verdict; without one the newest decision package or rule output); the id of a "
    "decision package or rule output; that of a proposal, intent or escalation (the verdict)",
    view=view,
    fields=(
        Field("trace_id", TRACE, "`flow:opened` `traceparent`; else computed: the digits of the DFID"),
        Field(
            "decision_id",
            TEXT,
            "`proposal:submitted` `proposal_id`; of a decision package `decision:recommended` `decision_id`",
        ),
        Field("schema_version", TEXT, "constant"),
        Field("structure.context_nodes[].node_id", TEXT, "computed: `context:` and its id"),
        Field(
            "structure.context_nodes[].context_id",
            HASH,
            f"`proposal:submitted` `context_ref`; {_PACKAGE} `/references/context_id`",
        ),
        Field("structure.context_nodes[].version", HASH, "computed: SHA-256 of the versions of its facts"),
        Field(
            "structure.rule_nodes[].node_id",
            TEXT,
            "computed: `rule:` and its id; of a ruleset with the id of the rule output before it",
        ),
        Field(
            "structure.rule_nodes[].rule_id",
            TEXT,
            f"{_RULES}: constraints, limits and rules, `id`; {_OUTPUT}: matches and triggered guardrails",
        ),
        Field(
            "structure.rule_nodes[].rule_version",
            TEXT,
            f"{_RULES}: `version`, else that of the kind; {_OUTPUT}: that of the rule, else of the ruleset",
        ),
        Field(
            "structure.rule_nodes[].fired",
            FLAG,
            "computed: whether the verdict has a finding of it; true for what the rule output lists",
        ),
        Field(
            "structure.rule_nodes[].reason",
            TEXT,
            "the verdict (object `verdict_digest`) `/findings`, `message`; without a finding what the bound "
            f"asks, which held; {_OUTPUT}: the justification, or what a guardrail says",
        ),
        Field("structure.consultation_nodes[].node_id", TEXT, "computed: `consultation:` and its id"),
        Field(
            "structure.consultation_nodes[].provider",
            TEXT,
            f"{_PACKAGE} `/consultations/*/provider`; `review:flagged` `guard_id`",
        ),
        Field("structure.consultation_nodes[].prompts", TEXTS, "nothing"),
        Field(
            "structure.consultation_nodes[].redactions",
            TEXTS,
            "constant: what a question leaves out; of a guard, its findings quote the agent",
        ),
        Field(
            "structure.consultation_nodes[].consensus",
            TEXT,
            f"{_PACKAGE} `/consultations/*/consensus_metrics/choice`, else `state`; "
            "`review:flagged` `confidence`",
        ),
        Field("structure.confidence_nodes[].node_id", TEXT, "computed: `confidence:` and the proposal's id"),
        Field(
            "structure.confidence_nodes[].confidence",
            UNIT,
            f"the proposal (object `proposal_digest`); {_PACKAGE} `/confidence_score`",
        ),
        Field(
            "structure.confidence_nodes[].calibration",
            TEXT,
            "the verdict (object `verdict_digest`) `/calibrated`: the calibration map that was asked",
        ),
        Field("structure.synthesis_nodes[].node_id", TEXT, "computed: `synthesis:` and the proposal's id"),
        Field(
            "structure.synthesis_nodes[].recommendation_id",
            TEXT,
            "the proposal (object `proposal_digest`) `/decision_id`; of a decision package its own",
        ),
        Field(
            "structure.synthesis_nodes[].weights[].objective",
            TEXT,
            f"{_MADE_FROM} `/objectives/*/id`: the agent's claim",
        ),
        Field(
            "structure.synthesis_nodes[].weights[].weight",
            NUMBER,
            f"{_MADE_FROM} `/objectives/*/weight`: the agent's claim",
        ),
        Field(
            "structure.synthesis_nodes[].constraints",
            TEXTS,
            f"{_RULES}: ids of all bounds; {_PACKAGE} `/safety_assertions`",
        ),
        Field(
            "structure.synthesis_nodes[].utilities[].option",
            TEXT,
            f"{_MADE_FROM} `/options/*/id`: the agent's claim",
        ),
        Field(
            "structure.synthesis_nodes[].utilities[].utilities",
            OBJECT,
            f"{_MADE_FROM} `/options/*/utilities`: the agent's claim",
        ),
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
