"""Execution Outcome Package: what became of an accepted proposal's calls."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from audit import canonical
from audit.contracts import flow as flows
from audit.contracts.fields import (
    DECIMAL,
    HASH,
    INTEGER,
    OBJECT,
    SCHEMA_VERSION,
    TEXT,
    TIME,
    VALUE,
    Contract,
    Field,
    one_of,
)
from audit.contracts.flow import Entry, Flow, NotThereError, Wanted
from audit.events import Kind

_STATUS: Mapping[str, str] = {
    "SUCCEEDED": "success",
    "FAILED": "failure",
    "EXPIRED": "aborted",
    "CANCELLED": "aborted",
    "COMPENSATED": "aborted",
}
_NOTHING = canonical.digest(canonical.encode([]))
_FORWARD, _UNDONE = "FORWARD", "COMPENSATE"
# What happens to an intent, by the nouns of its entries: new kinds of them are shown, too.
_OF_INTENT = frozenset(
    ("intent", "invariants", "receipt", "task", "callback", "attempt", "status_query", "saga", "outcome")
)
_NOTES = ("step", "result", "cause", "reason", "why", "code", "effect", "status")


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The outcome of an intent, or the newest one of the flow."""
    ended = _outcome(flow, wanted)
    intent_id = ended.payload["intent_id"]
    judged = flow.judged_for(intent_id)
    about = [
        e
        for e in flow.kept.entries
        if e.kind.partition(":")[0] in _OF_INTENT
        and e.payload.get("intent_id") == intent_id
        and e.seq <= ended.seq
    ]
    stated = flow.document(ended.payload.get("outcome_digest"), "outcome")
    receipts = list(_receipts(flow, about))
    before = flow.world_version(judged.proposal.payload["context_ref"])
    begun = next((entry for entry in about if entry.kind == Kind.ATTEMPT_STARTED), about[0])
    return {
        "outcome_id": intent_id,
        "schema_version": SCHEMA_VERSION,
        "decision_id": judged.proposal_id,
        "action_name": judged.name,
        "start_time": begun.at,
        "end_time": ended.at,
        "status": _status(ended, about),
        "execution_state_transitions": [
            {"time": e.at, "state": e.kind, "note": _note(e.payload)} for e in about
        ],
        "observed_effects": receipts,
        "deviations": _deviations(flow, ended, about, stated, receipts),
        "safety_validation_results": [*_judged(judged), *_validations(about, judged)],
        "error_diagnostics": _diagnostics(flow, ended, about, stated),
        "telemetry": {
            "latency_ms": stated["duration_ms"],
            "cost": _cost(flow, ended),
            "resource_usage": [
                {"resource": e.payload["resource"], "amount": e.payload["amount"]}
                for e in flow.of(Kind.RESOURCE_COMMITTED)
            ],
            "api_quota_used": stated["attempts"],
        },
        "artifacts": [
            {
                "artifact_id": found["receipt_commitment"],
                "kind": "receipt",
                "uri": f"/api/v1/audit/flows/{flow.dfid}/evidence.zip",
                "checksum": found["receipt_commitment"],
            }
            for found in receipts
        ],
        "outcome_trace_ref": flow.event_id(ended),
        "world_version_id_before": before,
        "world_version_id_after": _version_after(before, stated["writes"]),
        "next_actions_suggested": [
            {"action": e.payload["action"], "step": e.payload.get("to_step") or e.payload["step"]}
            for e in flow.of(Kind.ROUTE_TAKEN)
            if e.payload["intent_id"] == intent_id
        ],
        "reengagement_advice": _advice(flow, intent_id),
    }


def _outcome(flow: Flow, wanted: Wanted) -> Entry:
    proposals = {e.payload["intent_id"]: e.payload["proposal_id"] for e in flow.of(Kind.INTENT_CREATED)}
    found = [
        e
        for e in flow.of(Kind.OUTCOME_RECORDED)
        if wanted.id in ("", e.payload["intent_id"], proposals.get(e.payload["intent_id"]))
    ]
    if not found:
        raise NotThereError("No outcome has been recorded.")
    return found[-1]


def _status(ended: Entry, about: Sequence[Entry]) -> str:
    status = _STATUS[ended.payload["status"]]
    done = {e.payload["step"] for e in about if e.kind == Kind.SAGA_ADVANCED and _is(e, _FORWARD)}
    undone = {e.payload["step"] for e in about if e.kind == Kind.SAGA_ADVANCED and _is(e, _UNDONE)}
    return "partial" if status != "success" and done - undone else status


def _is(entry: Entry, direction: str) -> bool:
    return bool(entry.payload["direction"] == direction)


def _note(payload: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {payload[name]}" for name in _NOTES if payload.get(name))


def _receipts(flow: Flow, about: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    """What targets answered, each with its commitment: that stays where the words were erased."""
    steps = {e.payload["number"]: e.payload["step"] for e in about if e.kind == Kind.ATTEMPT_STARTED}
    for entry in about:
        commitment = entry.payload.get("receipt_commitment")
        if commitment and entry.kind in (Kind.ATTEMPT_FINISHED, Kind.ATTEMPT_REPORTED_LATE):
            held = flow.behind(commitment)
            yield {
                "step": steps.get(entry.payload["number"], ""),
                "receipt_commitment": commitment,
                "receipt": held[0] if held else None,
            }


def _deviations(
    flow: Flow,
    ended: Entry,
    about: Sequence[Entry],
    stated: Mapping[str, Any],
    receipts: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]] | None:
    """What was expected and not observed. The outcome keeps a digest of it: what is worked out must match.

    Where the policy kind says how grave they are, they are behind a commitment of their own.
    """
    if stated["deviations"] == _NOTHING:
        return []
    commitment = ended.payload.get("deviations_commitment")
    if commitment:
        held = flow.behind(commitment)
        if not held or flows.digest_of(held[0]) != stated["deviations"]:
            return None
        return [
            {
                "expected": {each["fact"]: each["expected"]},
                "observed": {each["fact"]: each["observed"]},
                "severity": each.get("severity"),
                "remediation": each.get("remediation"),
            }
            for each in held[0]
        ]
    requests = flow.document(about[0].payload["request_digest"], "request")
    for answered in receipts:
        receipt = answered["receipt"]
        found = list(_contradicted(requests["expected"], receipt if isinstance(receipt, dict) else {}))
        if flows.digest_of(found) == stated["deviations"]:
            return [
                {
                    "expected": {each["fact"]: each["expected"]},
                    "observed": {each["fact"]: each["observed"]},
                    "severity": None,
                    "remediation": None,
                }
                for each in found
            ]
    return None


def _contradicted(
    expected: Sequence[Mapping[str, Any]], receipt: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    for effect in expected:
        fact = effect["fact"]
        name = fact if fact in receipt else fact.rpartition(".")[2]
        wanted = effect["proposed"] if "proposed" in effect else effect.get("value")
        if name in receipt and receipt[name] != wanted:
            yield {"fact": fact, "expected": wanted, "observed": receipt[name]}


def _asserted(judged: flows.Judged, place: str) -> list[str]:
    """The ids of the invariants that the kind asserts and that are asked there."""
    pinned = [each["pinned"] for each in judged.kind.get("safety_assertions", ())]
    return [str(one["invariant_id"]) for one in pinned if place in one["at"]]


def _judged(judged: flows.Judged) -> Iterator[dict[str, Any]]:
    """The invariants at the gate: of what has an outcome they held, or a person let them pass."""
    found = {each["subject"]: each["outcome"] for each in judged.findings if each["check"] == "invariants"}
    for name in _asserted(judged, "GATE"):
        said = "A person let it pass." if name in found else "It held at the gate."
        yield {"invariant_id": name, "pass_fail": "fail" if name in found else "pass", "detail": said}


def _validations(about: Sequence[Entry], judged: flows.Judged) -> Iterator[dict[str, Any]]:
    """The check inside the claim: a call begins only after it, and a block is its No."""
    let_pass = {each["subject"] for each in judged.findings if each["check"] == "invariants"}
    asked = [name for name in _asserted(judged, "CLAIM") if name not in let_pass]
    # What was asked between two steps, right before: it is not listed again with the call that it is about.
    just = frozenset[str]()
    for entry in about:
        if entry.kind == Kind.INVARIANTS_CHECKED:
            yield from _checked(entry)
            just = frozenset([*entry.payload["held"], *entry.payload["violated"]])
        elif entry.kind == Kind.INTENT_BLOCKED and entry.payload.get("subject") in just:
            just = frozenset()
        elif entry.kind == Kind.INTENT_BLOCKED:
            failed = entry.payload.get("subject") or entry.payload["code"]
            yield {"invariant_id": failed, "pass_fail": "fail", "detail": "No call was made."}
        elif entry.kind == Kind.ATTEMPT_STARTED:
            detail = f"Attempt {entry.payload['number']} of step {entry.payload['step']} could begin."
            yield {"invariant_id": "PRE_CALL_CHECK", "pass_fail": "pass", "detail": detail}
            # What undoes a step is not held up by what must hold before one.
            forward = asked if entry.payload.get("direction") in (None, _FORWARD) else []
            named = [name for name in forward if name not in just]
            yield from ({"invariant_id": name, "pass_fail": "pass", "detail": detail} for name in named)
            just = frozenset()


def _checked(entry: Entry) -> Iterator[dict[str, Any]]:
    """The invariants that were asked between two steps, or after the last."""
    place = "before" if entry.payload["place"] == "BETWEEN_STEPS" else "after"
    detail = f"Asked {place} step {entry.payload['step']}."
    for name in entry.payload["held"]:
        yield {"invariant_id": name, "pass_fail": "pass", "detail": detail}
    for name in entry.payload["violated"]:
        yield {"invariant_id": name, "pass_fail": "fail", "detail": detail}


def _diagnostics(
    flow: Flow, ended: Entry, about: Sequence[Entry], stated: Mapping[str, Any]
) -> dict[str, Any] | None:
    if ended.payload["status"] == "SUCCEEDED":
        return None
    moved = [
        e.payload["reason"] for e in flow.of(Kind.FLOW_MOVED) if e.seq > ended.seq and e.payload["reason"]
    ]
    failed = [e for e in about if e.kind == Kind.ATTEMPT_FINISHED and e.payload["result"] != "SUCCEEDED"]
    message = f"The outcome is {ended.payload['status']}."
    if failed:
        said = failed[-1].payload
        message += (
            f" Attempt {said['number']}: {said['result']}, status {said.get('status_code') or 'unknown'}."
        )
    return {
        "code": moved[0] if moved else ended.payload["status"],
        "message": message,
        "category": stated["error_category"] or ended.payload["status"],
        "logs_ref": flow.event_id(failed[-1] if failed else ended),
    }


def _cost(flow: Flow, ended: Entry) -> str | None:
    """What the agent reported until then, as a decimal text."""
    said = (e.payload.get("cost_usd") for e in flow.of(Kind.USAGE_REPORTED) if e.seq < ended.seq)
    costs = [Decimal(cost) for cost in said if cost]
    return str(sum(costs)) if costs else None


def _version_after(before: str | None, writes: str) -> str | None:
    """The same where nothing was written; else a digest that names what was before and what was written."""
    if before is None or writes == _NOTHING:
        return before
    return flows.digest_of({"before": before, "writes": writes})


def _advice(flow: Flow, intent_id: str) -> dict[str, str] | None:
    taken = [e for e in flow.of(Kind.ROUTE_TAKEN) if e.payload["intent_id"] == intent_id]
    asked = [e for e in taken if e.payload["action"] == "RE_ENGAGE"]
    return {"trigger": asked[-1].payload["step"], "payload_ref": flow.event_id(asked[-1])} if asked else None


_ENDED = "`outcome:recorded`"
_STATES = f"the payload behind {_ENDED} `deviations_commitment`, where the policy kind says how grave it is"
_ASKED = "`invariants:checked` `held` and `violated`"
_STATED = "the outcome (object `outcome_digest`)"
_CALLED = "`attempt:started`"
_OF_KIND = "the rules (object `policy_bundle_hash`) `/kind/safety_assertions`"
_ANSWERED = "`attempt:finished`, `attempt:reported_late`"
_ROUTED = "`route:taken` of the intent"

CONTRACT = Contract(
    name="execution_outcome_package",
    design="IAE",
    title="Execution Outcome Package",
    about="What became of the calls of an accepted proposal.",
    ids="the DFID (the newest outcome); the id of an intent or of its proposal",
    view=view,
    fields=(
        Field("outcome_id", TEXT, f"{_ENDED} `intent_id`: an intent has one outcome"),
        Field("schema_version", TEXT, "constant"),
        Field("decision_id", TEXT, "`intent:created` `proposal_id`"),
        Field("action_name", TEXT, "`proposal:submitted` `policy_kind`"),
        Field("start_time", TIME, f"the first {_CALLED} `at`; without one that of `intent:created`"),
        Field("end_time", TIME, f"{_ENDED} `at`"),
        Field(
            "status",
            one_of("success", "failure", "partial", "aborted"),
            f"computed of {_ENDED} `status`: partial where it did not succeed and a step of `saga:advanced` "
            "is not undone; aborted for EXPIRED, CANCELLED and COMPENSATED",
        ),
        Field("execution_state_transitions[].time", TIME, "entries of the intent, `at`"),
        Field("execution_state_transitions[].state", TEXT, "entries of the intent, `kind`"),
        Field("execution_state_transitions[].note", TEXT, "entries of the intent: step, result, reason"),
        Field("observed_effects[].step", TEXT, f"{_CALLED} `step`"),
        Field("observed_effects[].receipt_commitment", HASH, f"{_ANSWERED} `receipt_commitment`"),
        Field("observed_effects[].receipt", VALUE, "the payload behind that commitment"),
        Field(
            "deviations[].expected", OBJECT, "computed: the requests (object `request_digest`) `/expected`"
        ),
        Field("deviations[].observed", OBJECT, f"computed: the receipt; the digest in {_STATED} must match"),
        Field("deviations[].severity", TEXT, f"{_STATES}: `severity`"),
        Field("deviations[].remediation", TEXT, f"{_STATES}: `remediation`"),
        Field(
            "safety_validation_results[].invariant_id",
            TEXT,
            f"`intent:blocked` `subject`, else `code`; of {_CALLED} constant; {_OF_KIND}; {_ASKED}",
        ),
        Field(
            "safety_validation_results[].pass_fail",
            one_of("pass", "fail"),
            f"pass for each {_CALLED}; {_ASKED}",
        ),
        Field("safety_validation_results[].detail", TEXT, "computed: which attempt"),
        Field("error_diagnostics.code", TEXT, f"the next `flow:moved` `reason`; else {_ENDED} `status`"),
        Field(
            "error_diagnostics.message", TEXT, f"computed of {_ENDED} and the last {_ANSWERED} that failed"
        ),
        Field("error_diagnostics.category", TEXT, f"{_STATED} `/error_category`, else its status"),
        Field("error_diagnostics.logs_ref", TEXT, "computed: the id of the entry that says it"),
        Field("telemetry.latency_ms", INTEGER, f"{_STATED} `/duration_ms`"),
        Field("telemetry.cost", DECIMAL, "computed: sum of `usage:reported` `cost_usd`"),
        Field("telemetry.resource_usage[].resource", TEXT, "`resource:committed` `resource`"),
        Field("telemetry.resource_usage[].amount", INTEGER, "`resource:committed` `amount`"),
        Field("telemetry.api_quota_used", INTEGER, f"{_STATED} `/attempts`"),
        Field("artifacts[].artifact_id", HASH, f"{_ANSWERED} `receipt_commitment`"),
        Field("artifacts[].kind", TEXT, "constant: `receipt`"),
        Field("artifacts[].uri", TEXT, "computed: the address of the evidence pack"),
        Field("artifacts[].checksum", HASH, f"{_ANSWERED} `receipt_commitment`: SHA-256 with a salt"),
        Field("outcome_trace_ref", TEXT, f"computed: the id of {_ENDED}"),
        Field(
            "world_version_id_before", HASH, "computed: SHA-256 of the versions of the facts in the context"
        ),
        Field(
            "world_version_id_after",
            HASH,
            f"computed: the same, or a digest of it and of {_STATED} `/writes`",
        ),
        Field("next_actions_suggested[].action", TEXT, f"{_ROUTED}: `action`"),
        Field("next_actions_suggested[].step", TEXT, f"{_ROUTED}: `to_step`, else `step`"),
        Field("reengagement_advice.trigger", TEXT, f"{_ROUTED} with RE_ENGAGE: `step`"),
        Field("reengagement_advice.payload_ref", TEXT, "computed: the id of that entry"),
    ),
)
