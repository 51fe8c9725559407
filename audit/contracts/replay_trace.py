"""ReplayTrace: the steps of a flow at its boundary, each with the hashes of what went in and out."""

from collections.abc import Iterator
from typing import Any

from audit.contracts import envelope
from audit.contracts.fields import (
    HASH,
    HASHES,
    INTEGER,
    NUMBER,
    TEXT,
    TEXTS,
    Contract,
    Field,
    one_of,
)
from audit.contracts.flow import Entry, Flow, Wanted
from audit.events import Kind

_STEPS = (
    Kind.CONTEXT_COMPILED,
    Kind.MEMORY_READ,
    Kind.STEP_REPORTED,
    Kind.RULES_EVALUATED,
    Kind.DECISION_RECOMMENDED,
    Kind.ATTEMPT_STARTED,
    Kind.OUTCOME_RECORDED,
)
_CLAIMS = ("model_version", "temperature", "seed", "decoding")


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The trace of the whole flow, whichever of its things was asked for."""
    judged = flow.judgements[-1] if flow.judgements else None
    return {
        **envelope.correlation(flow),
        "agent": envelope.agent(flow, judged),
        "model": {
            "model_id": judged.manifest.get("model_profile") if judged else None,
            **_claimed(flow),
        },
        "bundles": envelope.bundles(judged),
        "steps": list(_steps(flow)),
    }


def _claimed(flow: Flow) -> dict[str, Any]:
    """What the agent said of its model, each member as it said it last; `claims` names what it said."""
    said: dict[str, Any] = {}
    for entry in flow.of(Kind.USAGE_REPORTED):
        said |= entry.payload.get("model") or {}
    return {
        **{name: said.get(name) for name in _CLAIMS},
        "claims": [name for name in _CLAIMS if name in said],
    }


def step_id(flow: Flow, entry: Entry) -> str:
    """The id of a step: the flow and its place among the steps."""
    return f"{flow.dfid}:{[each.seq for each in flow.of(*_STEPS)].index(entry.seq) + 1}"


def _steps(flow: Flow) -> Iterator[dict[str, Any]]:
    for index, entry in enumerate(flow.of(*_STEPS), start=1):
        yield {"step_index": index, **_step(flow, entry)}


def _step(flow: Flow, entry: Entry) -> dict[str, Any]:
    said = entry.payload
    match entry.kind:
        case Kind.CONTEXT_COMPILED:
            shown = flow.find(said["context_ref"]) or {"versions": {}}
            return {
                "step_type": "retrieve_context",
                "retrieved_context_hashes": [said["context_ref"]],
                "provenance_refs": [
                    f"{path}@{version}" for path, version in sorted(shown["versions"].items())
                ],
            }
        case Kind.MEMORY_READ:
            item = f"memory:{said['scope']}/{said['key']}"
            return {
                "step_type": "memory_read",
                "policy_decision": said["decision"],
                "policy_rule": said["rule"],
                "output_hash": said["digest"],
                "provenance_refs": [f"{item}@{said['version']}" if said["version"] else item],
                "ledger_event_id": flow.event_id(entry),
            }
        case Kind.STEP_REPORTED:
            return {"step_type": "reported_step", "output_hash": said["digest"]}
        case Kind.RULES_EVALUATED:
            ruleset = f"ruleset:{said['ruleset']}@{said['version']}"
            return {
                "step_type": "rule_evaluation",
                "rule_output_id": said["rule_output_id"],
                "input_hash": said["input_digest"],
                "output_hash": said["output_digest"],
                "provenance_refs": [f"{ruleset}#sha256:{said['ruleset_digest']}"],
                "ledger_event_id": flow.event_id(entry),
            }
        case Kind.DECISION_RECOMMENDED:
            built_on = said.get("rule_output_id")
            return {
                "step_type": "recommendation",
                "decision_id": said["decision_id"],
                "method": said["method"],
                "input_hash": said["input_digest"],
                "output_hash": said["package_digest"],
                "provenance_refs": [f"rule_output:{built_on}"] if built_on else [],
                "ledger_event_id": flow.event_id(entry),
            }
        case Kind.OUTCOME_RECORDED:
            return {"step_type": "final_output", "output_hash": said.get("outcome_digest")}
    judged, ended = flow.judged_for(said["intent_id"]), flow.answer_to(entry)
    commitment = ended.payload.get("receipt_commitment") if ended else None
    return {
        "step_type": "tool_call",
        "tool_name": judged.name,
        "request_hash": judged.request_hash,
        "response_hash": commitment,
        "response_snapshot_uri": flow.snapshot_uri(commitment),
        "policy_decision_id": judged.proposal_id,
        "ledger_event_id": flow.event_id(ended or entry),
    }


_USED = "the newest `usage:reported` whose `model` says so, its"
_CALL = "steps[tool_call]"
_EVALUATED = "`rules:evaluated`"
_RECOMMENDED = "`decision:recommended`"
_ENDED = "`attempt:finished`, `attempt:reported_late`"


def _step_fields(sort: str, entry: str) -> tuple[Field, ...]:
    place = f"steps[{sort}]"
    return (
        Field(f"{place}.step_index", INTEGER, "computed: the place among the steps, from 1"),
        Field(f"{place}.step_type", one_of(sort), f"constant, for each {entry}"),
    )


CONTRACT = Contract(
    name="replay_trace",
    design="DARE",
    title="ReplayTrace",
    about="The steps of a flow at its boundary, with the hashes of what went in and came out.",
    ids="the DFID; the id of a proposal, intent, escalation, decision package or rule output (the trace of "
    "its flow)",
    view=view,
    fields=(
        *envelope.CORRELATION,
        *envelope.AGENT,
        Field("model.model_id", TEXT, f"{envelope.RULES} `/manifest/model_profile`"),
        Field("model.model_version", TEXT, f"{_USED} `/model_version`"),
        Field("model.temperature", NUMBER, f"{_USED} `/temperature`"),
        Field("model.seed", INTEGER, f"{_USED} `/seed`"),
        Field("model.decoding", TEXT, f"{_USED} `/decoding`"),
        Field("model.claims", TEXTS, "computed: the members that the agent claimed, and nobody checked"),
        *envelope.BUNDLES,
        *_step_fields("retrieve_context", "`context:compiled`"),
        Field("steps[retrieve_context].retrieved_context_hashes", HASHES, "`context:compiled` `context_ref`"),
        Field(
            "steps[retrieve_context].provenance_refs",
            TEXTS,
            "the context (object `context_ref`) `/versions`: path and version of each fact",
        ),
        *_step_fields("memory_read", "`memory:read`"),
        Field("steps[memory_read].policy_decision", one_of("allow", "deny"), "`memory:read` `decision`"),
        Field("steps[memory_read].policy_rule", TEXT, "`memory:read` `rule`"),
        Field("steps[memory_read].output_hash", HASH, "`memory:read` `digest`"),
        Field(
            "steps[memory_read].provenance_refs", TEXTS, "`memory:read`: scope, key and version of the item"
        ),
        Field("steps[memory_read].ledger_event_id", TEXT, "computed: the id of `memory:read`"),
        *_step_fields("reported_step", "`step:reported`"),
        Field("steps[reported_step].output_hash", TEXT, "`step:reported` `digest`, as the agent gave it"),
        *_step_fields("rule_evaluation", _EVALUATED),
        Field("steps[rule_evaluation].rule_output_id", TEXT, f"{_EVALUATED} `rule_output_id`"),
        Field("steps[rule_evaluation].input_hash", HASH, f"{_EVALUATED} `input_digest`"),
        Field("steps[rule_evaluation].output_hash", HASH, f"{_EVALUATED} `output_digest`"),
        Field("steps[rule_evaluation].provenance_refs", TEXTS, f"{_EVALUATED}: the ruleset with its digest"),
        Field("steps[rule_evaluation].ledger_event_id", TEXT, f"computed: the id of {_EVALUATED}"),
        *_step_fields("recommendation", _RECOMMENDED),
        Field("steps[recommendation].decision_id", TEXT, f"{_RECOMMENDED} `decision_id`"),
        Field(
            "steps[recommendation].method",
            one_of("adopt", "refine", "abstain", "deny"),
            f"{_RECOMMENDED} `method`",
        ),
        Field("steps[recommendation].input_hash", HASH, f"{_RECOMMENDED} `input_digest`"),
        Field("steps[recommendation].output_hash", HASH, f"{_RECOMMENDED} `package_digest`"),
        Field(
            "steps[recommendation].provenance_refs",
            TEXTS,
            f"{_RECOMMENDED}: the rule output that it was built on, if any",
        ),
        Field("steps[recommendation].ledger_event_id", TEXT, f"computed: the id of {_RECOMMENDED}"),
        *_step_fields("tool_call", "`attempt:started`"),
        Field(f"{_CALL}.tool_name", TEXT, "`proposal:submitted` `policy_kind`"),
        Field(f"{_CALL}.request_hash", HASH, "`proposal:submitted` `proposal_digest`"),
        Field(f"{_CALL}.response_hash", HASH, f"{_ENDED} `receipt_commitment`: SHA-256 with a salt"),
        Field(f"{_CALL}.response_snapshot_uri", TEXT, "computed: where the evidence pack holds it"),
        Field(f"{_CALL}.policy_decision_id", TEXT, "`intent:created` `proposal_id`"),
        Field(f"{_CALL}.ledger_event_id", TEXT, f"computed: the id of {_ENDED}; else of `attempt:started`"),
        *_step_fields("final_output", "`outcome:recorded`"),
        Field("steps[final_output].output_hash", HASH, "`outcome:recorded` `outcome_digest`"),
    ),
)
