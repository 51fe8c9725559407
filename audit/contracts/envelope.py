"""What the control plane contracts (DARE) have in common: correlation, the agent, and the hashes in force."""

from collections.abc import Mapping
from typing import Any

from audit.contracts import flow as flows
from audit.contracts.fields import FLAG, HASH, SCHEMA_VERSION, SPAN, TEXT, TIME, TRACE, Field
from audit.contracts.flow import Flow, Judged

RULES = "the rules (object `policy_bundle_hash`)"
INPUT = "the verdict's input (object `input_digest`)"
TRACE_SOURCE = "`flow:opened` `traceparent`; else computed: the digits of the DFID"
ENVIRONMENT_SOURCE = "`flow:opened` `environment`: of the key, else the agent's claim"

CORRELATION = (
    Field("schema_version", TEXT, "constant"),
    Field("run_id", TEXT, "the DFID"),
    Field("trace_id", TRACE, TRACE_SOURCE),
    Field("tenant_id", TEXT, "the tenant of the entries"),
    Field("environment", TEXT, ENVIRONMENT_SOURCE),
)
AGENT = (
    Field("agent.agent_instance_id", TEXT, "computed: the agent of `flow:opened`, and the DFID"),
    Field("agent.agent_name", TEXT, "`flow:opened` `agent_id`"),
    Field("agent.agent_version", TEXT, f"{RULES} `/manifest/version`"),
)
BUNDLES = (
    Field("bundles.policy_bundle_hash", HASH, "`verdict:given` `policy_bundle_hash`"),
    Field("bundles.prompt_bundle_hash", TEXT, f"{RULES} `/manifest/prompt_bundle_hash`"),
    Field("bundles.tool_schema_hash", HASH, f"computed: SHA-256 of {RULES} `/kind`"),
)
SPANNED = Field("span_id", SPAN, "`flow:opened` `traceparent`")


def event(name: str, at: str) -> tuple[Field, ...]:
    """The fields that say what sort of record it is, and of when."""
    return (Field("event_type", TEXT, f"constant: `{name}`"), Field("time", TIME, at))


def correlation(flow: Flow) -> dict[str, Any]:
    """What every record of a flow carries."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": flow.dfid,
        "trace_id": flow.trace_id,
        "tenant_id": flow.kept.tenant,
        "environment": flow.environment,
    }


def agent(flow: Flow, judged: Judged | None) -> dict[str, Any]:
    """The agent at work, with the version of the manifest that it was judged by."""
    return {
        "agent_instance_id": flow.instance,
        "agent_name": flow.agent_id,
        "agent_version": judged.manifest.get("version") if judged else None,
    }


def bundles(judged: Judged | None) -> dict[str, Any]:
    """What was in force."""
    kind: Mapping[str, Any] = judged.kind if judged else {}
    return {
        "policy_bundle_hash": judged.bundle_hash if judged else None,
        "prompt_bundle_hash": judged.manifest.get("prompt_bundle_hash") if judged else None,
        "tool_schema_hash": flows.digest_of(kind) if kind else None,
    }


def tool(judged: Judged) -> dict[str, Any]:
    """What is to be done, by its policy kind."""
    return {"name": judged.name, "category": category(judged), "risk_tier": judged.kind.get("risk_tier")}


def category(judged: Judged) -> str | None:
    """The kind's category; without one, whether it writes, and can be undone."""
    kind = judged.kind
    if not kind:
        return None
    if kind.get("category"):
        return str(kind["category"])
    if not kind["steps"]:
        return "no_call"
    return "reversible_write" if kind["reversible"] else "irreversible_write"


CATEGORY = f"{RULES} `/kind/category`; else computed of `/kind/steps` and `/kind/reversible`"
IDENTITY = (
    Field("identity.subject", TEXT, "computed: the agent of `flow:opened`, as the ledger names it"),
    Field("identity.attested", FLAG, f"{INPUT} `/facts/session_valid`"),
)
