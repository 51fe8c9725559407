"""Structured Context: what the agent was shown, and the bounds that the verdict on it was given under."""

from collections.abc import Iterator, Mapping
from typing import Any

from audit.contracts import advice
from audit.contracts import flow as flows
from audit.contracts.fields import (
    DURATION,
    HASH,
    HASHES,
    INTEGER,
    OBJECT,
    SCHEMA_VERSION,
    TEXT,
    TEXTS,
    TIME,
    UNIT,
    VALUE,
    Contract,
    Field,
    one_of,
)
from audit.contracts.flow import Entry, Flow, Judged, NotThereError, Wanted
from audit.events import Kind

_JSON_TYPES = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The newest context, or the one that a proposal was made on."""
    entry = _entry(flow, wanted)
    ref = entry.payload["context_ref"]
    shown = flow.document(ref, "context")
    judged = flow.judged_on(ref)
    kind, manifest = (judged.kind, judged.manifest) if judged else ({}, {})
    claims = [*shown["memory"], *shown["artifacts"]]
    left_out = sum(item["left_out"] for item in shown["trimmed"])
    features = list(_features(flow, shown, kind))
    return {
        "context_id": ref,
        "schema_version": SCHEMA_VERSION,
        "task_id": flow.dfid,
        "created_at": entry.at,
        "ttl": entry.payload["expires_at"],
        "provenance": list(_provenance(entry, shown)),
        "trust_level": "medium" if claims else "high",
        "health": {
            "completeness": _share(len(features) + len(claims), left_out),
            "freshness": _age(entry, judged),
            "anomalies": list(_anomalies(shown, judged)),
        },
        "actor_profile": {
            "agent_id": flow.agent_id,
            "role": judged.facts["agent"]["role"] if judged else None,
            "tenant": flow.kept.tenant,
        },
        "entitlements": [schema["kind"] for schema in shown["schemas"]],
        "risk_tier": kind.get("risk_tier"),
        "jurisdiction": list(kind["jurisdiction"]) if kind.get("jurisdiction") else None,
        "problem_frame": {
            "objectives": [shown["mission"]] if shown["mission"] else [],
            "constraints": list(judged.names()) if judged else None,
            "preferences": None,
            "utility_proxies": advice.list_objectives(flow, ref),
        },
        "features": features,
        "environment": {
            "resources": judged.facts.get("resources") or [] if judged else None,
            "budgets": shown["budget"],
            "cost_windows": manifest.get("compute"),
            "SLAs": [{"name": "escalation", "seconds": kind["sla_s"]}] if kind.get("sla_s") else [],
        },
        "safety_profile": {
            "red_lines": [line if isinstance(line, str) else line["id"] for line in kind.get("red_lines", ())]
            if judged
            else None,
            "rate_limits": {
                name: manifest[name]
                for name in ("proposals_per_minute", "escalations_per_hour")
                if manifest.get(name) is not None
            }
            if judged
            else None,
            "exposure_budgets": manifest.get("limits", {}) if judged else None,
        },
        "world_refs": {"world_version_id": flow.world_version(ref)},
        "prior_decisions": [each.proposal_id for each in flow.judgements if each.verdict.seq < entry.seq],
        "context_links": [
            each.payload["context_ref"] for each in flow.of(Kind.CONTEXT_COMPILED) if each.seq < entry.seq
        ],
    }


def _entry(flow: Flow, wanted: Wanted) -> Entry:
    """The entry of the newest context; for a proposal, of the one that it names or that came before it."""
    compiled = flow.of(Kind.CONTEXT_COMPILED)
    if wanted.id:
        asked = flow.judged(wanted).proposal
        compiled = [each for each in compiled if each.seq < asked.seq]
        named = [each for each in compiled if each.payload["context_ref"] == asked.payload["context_ref"]]
        compiled = named or compiled
    if not compiled:
        raise NotThereError("No context was compiled in this flow.")
    return compiled[-1]


def _provenance(entry: Entry, shown: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for path, version in sorted(shown["versions"].items()):
        yield {"source": path, "method": f"fact version {version}", "timestamp": entry.at}
    for item in shown["memory"]:
        yield {"source": item["source"], "method": "memory", "timestamp": item["written_at"]}
    for item in shown["artifacts"]:
        yield {"source": item["location"], "method": "artifact", "timestamp": entry.at}


def _features(flow: Flow, shown: Mapping[str, Any], kind: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One feature a fact; who wrote it and when is what evidence of that version says, else its entry."""
    units = {one["fact"]: one.get("unit") for one in kind.get("depends_on", ())}
    written = {**flow.writes, **dict(_written(flow))}
    for path, version in sorted(shown["versions"].items()):
        space, _, name = path.partition(".")
        value = shown["facts"][space][name]
        source, at = written.get((path, version), (None, None))
        yield {
            "name": path,
            "type": _JSON_TYPES.get(type(value), "null"),
            "value": value,
            "unit": units.get(path),
            "tags": [f"version:{version}"],
            "source": source,
            "last_updated": at,
        }


def _written(flow: Flow) -> Iterator[tuple[tuple[str, int], tuple[str, str]]]:
    for entry in flow.of(Kind.ESCALATION_OPENED, Kind.ESCALATION_REVISED):
        evidence = flow.find(entry.payload["evidence_hash"]) or {}
        for fact in evidence.get("facts", ()):
            yield (fact["path"], fact["version"]), (fact["writer"], fact["written_at"])


def _share(shown: int, left_out: int) -> float:
    return shown / (shown + left_out) if left_out else 1


def _age(entry: Entry, judged: Judged | None) -> str | None:
    return None if judged is None else flows.duration(flows.milliseconds(entry.at, judged.verdict.at))


def _anomalies(shown: Mapping[str, Any], judged: Judged | None) -> Iterator[str]:
    for item in shown["trimmed"]:
        yield f"{item['left_out']} items of {item['layer']} were left out"
    for finding in judged.findings if judged else ():
        if finding["check"] == "context_freshness":
            yield f"{finding['code']}: {finding['message']}"


_COMPILED = "`context:compiled`"
_OF_CONTEXT = "the context (object `context_ref`)"
_OF_RULES = "the rules (object `policy_bundle_hash` of the newest verdict on this context)"

CONTRACT = Contract(
    name="structured_context",
    design="IAE",
    title="Structured Context",
    about="What an agent was shown before it proposed.",
    ids="the DFID (the newest context); the id of a proposal, intent or escalation (the context of that)",
    view=view,
    fields=(
        Field("context_id", HASH, f"{_COMPILED} `context_ref`"),
        Field("schema_version", TEXT, "constant"),
        Field("task_id", TEXT, "the DFID"),
        Field("created_at", TIME, f"{_COMPILED} `at`"),
        Field("ttl", TIME, f"{_COMPILED} `expires_at`"),
        Field("provenance[].source", TEXT, f"{_OF_CONTEXT} `versions`, `memory`, `artifacts`"),
        Field("provenance[].method", TEXT, "computed: `fact version N`, `memory` or `artifact`"),
        Field("provenance[].timestamp", TIME, f"{_COMPILED} `at`; of memory its `written_at`"),
        Field(
            "trust_level",
            one_of("low", "medium", "high"),
            "computed: `high` with facts only, `medium` with memory or artifacts, which are claims",
        ),
        Field("health.completeness", UNIT, f"computed: share of items that {_OF_CONTEXT} has not `trimmed`"),
        Field(
            "health.freshness", DURATION, f"computed: from {_COMPILED} to the newest `verdict:given` on it"
        ),
        Field(
            "health.anomalies",
            TEXTS,
            f"{_OF_CONTEXT} `trimmed`; findings of the check `context_freshness` of that verdict",
        ),
        Field("actor_profile.agent_id", TEXT, "`flow:opened` `agent_id`"),
        Field("actor_profile.role", TEXT, "the verdict's input (object `input_digest`) `/facts/agent/role`"),
        Field("actor_profile.tenant", TEXT, "the tenant of the entries"),
        Field("entitlements", TEXTS, f"{_OF_CONTEXT} `/schemas/*/kind`"),
        Field("risk_tier", one_of("T0", "T1", "T2", "T3"), f"{_OF_RULES} `/kind/risk_tier`"),
        Field("jurisdiction", TEXTS, f"{_OF_RULES} `/kind/jurisdiction`"),
        Field("problem_frame.objectives", TEXTS, f"{_OF_CONTEXT} `/mission`"),
        Field(
            "problem_frame.constraints", TEXTS, f"{_OF_RULES}: ids of the kind's constraints, limits, rules"
        ),
        Field("problem_frame.preferences", TEXTS, "nothing"),
        Field(
            "problem_frame.utility_proxies",
            TEXTS,
            "what decision packages on it were made from (object `input_digest` of `decision:recommended`) "
            "`/objectives/*/id`: the agent's claim",
        ),
        Field("features[].name", TEXT, f"{_OF_CONTEXT} `/versions`: the path of a fact"),
        Field("features[].type", TEXT, "computed: the JSON type of the value"),
        Field("features[].value", VALUE, f"{_OF_CONTEXT} `/facts`; a fact may itself be null"),
        Field("features[].unit", TEXT, f"{_OF_RULES} `/kind/depends_on/*/unit`"),
        Field("features[].tags", TEXTS, f"{_OF_CONTEXT} `/versions`"),
        Field(
            "features[].source",
            TEXT,
            "evidence (object `evidence_hash`) with that version, else its `fact:written`: `writer`",
        ),
        Field(
            "features[].last_updated",
            TIME,
            "evidence with that version: `written_at`; else its `fact:written`: `at`",
        ),
        Field("environment.resources", {"type": "array", "items": OBJECT}, "the verdict's input `resources`"),
        Field("environment.budgets.attempts_left", INTEGER, f"{_OF_CONTEXT} `/budget`"),
        Field("environment.budgets.escalation_tokens", INTEGER, f"{_OF_CONTEXT} `/budget`"),
        Field("environment.cost_windows", OBJECT, f"{_OF_RULES} `/manifest/compute`"),
        Field("environment.SLAs[].name", TEXT, "constant: `escalation`"),
        Field("environment.SLAs[].seconds", INTEGER, f"{_OF_RULES} `/kind/sla_s`"),
        Field("safety_profile.red_lines", TEXTS, f"{_OF_RULES} `/kind/red_lines`: the words, or the `id`"),
        Field(
            "safety_profile.rate_limits",
            OBJECT,
            f"{_OF_RULES} `/manifest/proposals_per_minute`, `escalations_per_hour`",
        ),
        Field("safety_profile.exposure_budgets", OBJECT, f"{_OF_RULES} `/manifest/limits`"),
        Field("world_refs.world_version_id", HASH, f"computed: SHA-256 of {_OF_CONTEXT} `/versions`"),
        Field("prior_decisions", TEXTS, "`verdict:given` before it: `proposal_id`"),
        Field("context_links", HASHES, f"{_COMPILED} before it: `context_ref`"),
    ),
)
