"""The fold: a flow's entries to its DecisionRecord (ContextOS, "Decision Record").

Pure. Each record goes on from the one before it, so that a checkpoint reads only the entries since then, and
the same entries give the same bytes years later. What entries only name by digest comes as `Rules`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from audit import actors, canonical, traces
from audit.events import Kind
from audit.records import advice, beginning, evaluators, statuses

VERSION: Final = "3"
# A flow goes on in the version in which its first record was made.
VERSIONS: Final = (beginning.FIRST_VERSION, beginning.SECOND_VERSION, VERSION)
DECISIONS: Final[Mapping[str, str]] = {"ACCEPT": "allow", "ESCALATE": "require_approval", "REJECT": "deny"}
# Where the delegated user is from: the person wrote the proposal by a decision, or the agent says so.
BY_DECISION, BY_CLAIM = "decision", "agent_claim"
NO_MODE: Final = "none"
# The lightest first. `destructive` is a person for what cannot be undone.
MODES: Final = (NO_MODE, "person", "destructive", "two_persons")
# The states of an approval that counts.
IN_FORCE: Final = ("IN_EFFECT", "CONFIRMED")
_ENDED = ("CLOSED", "ABORTED")
_CENTS = Decimal(100)
_CHECKPOINTS = frozenset(
    {
        Kind.VERDICT_GIVEN,
        Kind.ESCALATION_OPENED,
        Kind.ESCALATION_DECIDED,
        Kind.ESCALATION_REOPENED,
        Kind.INFORMATION_REQUESTED,
        Kind.RECORD_SCORED,
    }
)


class Said(NamedTuple):
    """An entry of the flow, decoded; `at` as the ledger writes it."""

    seq: int
    kind: str
    at: str
    actor: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What the documents behind a verdict say that its entry does not: the kind, the manifest, the calls.

    `bounds` are the ids of limits, red lines and the like that were crossed, in the order of the verdict;
    `unresolved` are the subjects of the kind that could not be worked out, `reversals` the idempotency key
    of the call that undoes each step. `approvals` is how many people an escalation of the kind takes.
    `scoring` is what the kind declares about scorecards, and `redactions` has the ids of its redaction rules.
    """

    intent_ref: str | None = None
    subject_ids: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    gate_id: str | None = None
    approvals: int = 1
    is_reversible: bool = True
    must_refuse: tuple[str, ...] = ()
    must_escalate: tuple[str, ...] = ()
    redactions: tuple[str, ...] = ()
    manifest: str | None = None
    model_profile: str | None = None
    evaluator_suite: str | None = None
    reversals: Mapping[str, str] | None = None
    scoring: Mapping[str, Any] | None = None


# The rules behind the payload of a `verdict:given`.
FindRules = Callable[[Mapping[str, Any]], Rules]


def is_checkpoint(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether a record follows in the transaction of this entry."""
    return kind in _CHECKPOINTS or is_end(kind, payload)


def is_end(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether the flow has ended with this entry."""
    return kind == Kind.FLOW_MOVED and payload["to_state"] in _ENDED


def changes(kind: str, *, version: str) -> bool:
    """Whether an entry of this kind changes what a record of this version says."""
    return kind in _STEPS and (version not in advice.WITHOUT or kind not in advice.KINDS)


def fold(
    *,
    dfid: str,
    previous: Mapping[str, Any] | None,
    entries: Sequence[Said],
    rules: FindRules,
    version: str = VERSION,
) -> dict[str, Any]:
    """The record after `entries`, which follow those of `previous`; without its `audit` part.

    `version` is that of the flow's first record. A record after the end takes the place of the one before it,
    and has no scorecard but one that `entries` give it. Raises ValueError without an entry.
    """
    if not entries:
        raise ValueError("a record is made of entries")
    state = beginning.record(dfid, version=version) if previous is None else canonical.copied(dict(previous))
    state.pop("audit", None)
    has_ended = bool(state["terminal"])
    state |= {"supersedes": state["record_id"] if has_ended else None, "scorecard": {}}
    state["flow"]["from_seq"] = state["flow"]["to_seq"] + 1
    for entry in entries:
        if changes(entry.kind, version=state["schema_version"]):
            _STEPS[entry.kind](state, entry, rules)
    return _finished(state, entries[-1], has_ended=has_ended)


def _opened(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    said = entry.payload
    state["flow"]["opened_at"] = entry.at
    agent = actors.agent(said["agent_id"])
    state["actor"] |= {"id": said["agent_id"], "workload_identity": f"{agent}#{state['flow']['dfid']}"}
    if _tells_claim(state):
        state["flow"]["delegated_user_claim"] = said.get("delegated_user_id")
        _delegate(state, None)
    state["inputs_refs"]["trigger"] = said["trigger_commitment"]
    state["trace_id"] = traces.of_flow(state["flow"]["dfid"], said).trace_id


def _delegate(state: dict[str, Any], person: str | None) -> None:
    """For whom the agent acts: the person who wrote the proposal, else whom the agent claims to act for."""
    actor = state["actor"]
    actor["delegated_user_id"] = person
    if _tells_claim(state):
        claim = state["flow"]["delegated_user_claim"]
        actor["delegated_user_id"] = person or claim
        actor["delegated_user_source"] = BY_DECISION if person else BY_CLAIM if claim else None


def _is_by_person(state: Mapping[str, Any]) -> bool:
    """Whether a person wrote the newest proposal."""
    actor = state["actor"]
    return bool(actor["delegated_user_id"]) and actor.get("delegated_user_source", BY_DECISION) == BY_DECISION


def _moved(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    state["flow"] |= {"state": entry.payload["to_state"], "reason": entry.payload["reason"]}
    state["terminal"] = is_end(entry.kind, entry.payload)


def _compiled(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    _refer(state, f"context:{entry.payload['context_ref']}")


def _advised(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    ref = advice.reference(entry.kind, entry.payload)
    if ref:
        _refer(state, ref)


def _stepped(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    ref = entry.payload.get("payload_ref")
    attachments = state["inputs_refs"]["attachments"]
    if ref and ref not in attachments:
        attachments.append(ref)


def _used(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    said, usage = entry.payload, state["budget_usage"]
    usage["tokens"] += said["tokens"]
    usage["tool_calls"] += said.get("tool_calls") or 0
    cents = Decimal(usage["cost_usd_cents"]) + Decimal(said.get("cost_usd") or 0) * _CENTS
    usage["cost_usd_cents"] = f"{cents:f}".rstrip("0").rstrip(".") if "." in f"{cents:f}" else f"{cents:f}"


def _proposed(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    said = entry.payload
    state["decision_key"] = said["policy_kind"]
    state["decision_version"] = said["policy_version"] or None
    state["inputs_refs"]["request"] = f"proposal:{said['proposal_id']}#sha256:{said['proposal_digest']}"
    by_person = actors.is_user(said["author"])
    _delegate(state, said["author"] if by_person else None)
    if not by_person:
        # Another proposal of the agent is another question to the gates.
        state["approval_mode_effective"] = NO_MODE
        state["flow"]["action"] = None
    if said["context_ref"]:
        state["lineage"]["kg_snapshot"] = said["context_ref"]
        state["replay"]["compiled_context_hash"] = said["context_ref"]


def _judged(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    said, found = entry.payload, rules(entry.payload)
    state["flow"].pop("named", None)
    state["flow"] |= {
        "verdict": said["verdict"],
        "outcome": None,
        "reversals": dict(sorted((found.reversals or {}).items())),
    }
    if _tells_more(state):
        state["flow"]["scoring"] = None if found.scoring is None else canonical.copied(dict(found.scoring))
    state["intent_ref"] = found.intent_ref
    state["subject_ids"] = list(found.subject_ids)
    codes = dict.fromkeys([*(reason["code"] for reason in said["reasons"]), *found.bounds])
    state["policy_decisions"].append(
        {
            "policy_decision_id": said["proposal_id"],
            "bundle_id": said["policy_bundle_hash"],
            "rule_ids": list(codes),
            "verdict": DECISIONS[said["verdict"]],
        }
    )
    _refer(state, f"verdict:{said['proposal_id']}#sha256:{said['verdict_digest']}")
    gate = found.gate_id or state["decision_key"]
    refers = said["verdict"] == "ESCALATE"
    state["flow"]["lone_mode"] = "person" if found.is_reversible else "destructive"
    if refers:
        _set_mode(state, said["impact"], found.approvals)
    state["controls_active"] |= {
        "must_refuse": list(found.must_refuse),
        "must_escalate": list(found.must_escalate),
        "redaction_rules_active": list(found.redactions),
        "approval_gates_active": [gate] if refers or _is_by_person(state) else [],
    }
    spec = f"{state['decision_key']}@{state['decision_version']}" if state["decision_version"] else None
    versions = [spec, f"manifest:{state['actor']['id']}@{found.manifest}" if found.manifest else None]
    pinned = {
        "pack_version": f"bundle@sha256:{said['policy_bundle_hash']}",
        "policy_versions": [version for version in versions if version],
        "decision_spec": spec,
        "model_profile": found.model_profile,
        "evaluator_suite": found.evaluator_suite,
        "gate_version": said["gate_version"],
    }
    state["lineage"] |= pinned
    without = sorted(name for name, value in state["lineage"].items() if name != "unpinned" and not value)
    state["lineage"]["unpinned"] = [*without, *(f"subject:{text}" for text in found.unresolved)]


def _asked_people(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    said = entry.payload
    if said["family"] == "DECISION":
        gate = (state["controls_active"]["approval_gates_active"] or [said["family"]])[0]
    else:
        gate = said["family"]
        state["controls_active"]["approval_gates_active"] = [gate]
        # What was asked for before counts again where nobody needs to decide this any more.
        state["flow"]["mode_before"] = state["approval_mode_effective"]
    _set_mode(state, said["impact"], said.get("approvals"))
    state["flow"]["gates"][said["escalation_id"]] = gate
    state["flow"]["action"] = None
    _refer_evidence(state, said)


def _revised(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    if entry.payload.get("impact") is not None:
        _set_mode(state, entry.payload["impact"], entry.payload.get("approvals"))
    _refer_evidence(state, entry.payload)


def _withdrawn(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    state["approval_mode_effective"] = state["flow"]["mode_before"] or state["approval_mode_effective"]


def _decided(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    said = entry.payload
    state["flow"] |= {"action": said["action"], "asked": False} if "action" in said else {"action": None}
    state["approvals"].append(
        {
            "gate_id": state["flow"]["gates"].get(said["escalation_id"]),
            "approver": entry.actor,
            "approval_mode_effective": state["approval_mode_effective"],
            "evidence_snapshot_hash": said["evidence_hash"],
            "decided_at": entry.at,
            # Of the first of two decisions nobody reads here what was chosen.
            "action": said.get("action"),
            "escalation_id": said["escalation_id"],
            "sequence": said.get("sequence", 1),
            "statement_digest": said["statement_digest"],
            "key_id": said["key_id"],
            "state": "IN_EFFECT" if "action" in said else "AWAITING_SECOND",
        }
    )


def _first_ended(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    said = entry.payload
    for approval in state["approvals"]:
        same = approval["escalation_id"], approval["sequence"]
        if same == (said["escalation_id"], said["sequence"]) and approval["action"] is None:
            approval["state"] = said["state"]


def _reopened(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    """The decision is taken back, and the first one with it that it confirmed."""
    for approval in state["approvals"]:
        is_of_it = approval["escalation_id"] == entry.payload["escalation_id"]
        if is_of_it and approval["state"] in IN_FORCE:
            approval["state"] = "TAKEN_BACK"
    state["flow"]["action"] = None


def _asked_agent(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    state["flow"]["asked"] = True


def _no_longer_asked(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    state["flow"]["asked"] = False
    if entry.kind == Kind.INFORMATION_ANSWERED:
        _refer(state, f"answer:{entry.payload['answer_commitment']}")


def _called(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    said = entry.payload
    undoes = said.get("direction") == "COMPENSATE"
    state["tool_lineage"].append(
        {
            "tool_call_id": f"{said['intent_id']}:{said['number']}",
            "tool_result_id": None,
            "approval_mode_effective": state["approval_mode_effective"],
            "idempotency_key": said["target_key"],
            "reversal_token": None if undoes else state["flow"]["reversals"].get(said["step"]),
            "step": said["step"],
            "direction": said.get("direction") or "FORWARD",
            "purpose": said.get("purpose") or "CALL",
            "result": None,
            **({"settled": None} if _tells_more(state) else {}),
        }
    )
    _add_to_transcript(state, entry, rules)


def _answer_came(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    said = entry.payload
    receipt = said.get("receipt_commitment")
    for call in state["tool_lineage"]:
        if call["tool_call_id"] == f"{said['intent_id']}:{said['number']}":
            call["result"] = said["result"]
            call["tool_result_id"] = receipt or call["tool_result_id"]
    if receipt:
        _refer(state, f"receipt:{receipt}")
    _add_to_transcript(state, entry, rules)


def _settled(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    """What became of calls in doubt is known, from a receipt, the target or a person."""
    said = entry.payload
    named = {f"{said['intent_id']}:{number}" for number in said["numbers"]}
    for call in state["tool_lineage"]:
        if call["tool_call_id"] in named and _tells_more(state):
            call["settled"] = said["effect"]
    _add_to_transcript(state, entry, rules)


def _held(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    """A call that was about to be made was not made."""
    calls = state["tool_lineage"] if _tells_more(state) else []
    of_intent = [call for call in calls if call["tool_call_id"].startswith(f"{entry.payload['intent_id']}:")]
    if of_intent and of_intent[-1]["result"] is None:
        of_intent[-1]["result"] = "HELD"


def _scored(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    state["scorecard"] = evaluators.scorecard(entry.payload)


def _tells_more(state: Mapping[str, Any]) -> bool:
    """Whether the record is of a version that says what became of calls, and what the kind declares."""
    return bool(state["schema_version"] != beginning.FIRST_VERSION)


def _tells_claim(state: Mapping[str, Any]) -> bool:
    """Whether the record is of a version that says for whom the agent claims to act."""
    return state["schema_version"] not in advice.WITHOUT


def _came_to(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    said = entry.payload
    state["flow"]["outcome"] = {
        "status": said["status"],
        "deviations": said.get("deviations", 0),
        "digest": said.get("outcome_digest"),
        "receipt": said.get("receipt_commitment"),
    }
    if said.get("outcome_digest"):
        _refer(state, f"outcome:{said['intent_id']}#sha256:{said['outcome_digest']}")


def _named(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    """What the receipts came to in the words of the kind; only where the kind asks for that."""
    said = entry.payload
    state["flow"]["named"] = {
        "outcome": said["outcome"],
        "outputs": list(said["outputs"]),
        "commitment": said["outputs_commitment"],
        "findings": list(dict.fromkeys(item["code"] for item in said["findings"])),
    }


def _refer(state: dict[str, Any], ref: str) -> None:
    if ref not in state["evidence_refs"]:
        state["evidence_refs"].append(ref)


def _refer_evidence(state: dict[str, Any], said: Mapping[str, Any]) -> None:
    _refer(state, f"evidence:{said['escalation_id']}/{said['revision']}#sha256:{said['evidence_hash']}")


def _set_mode(state: dict[str, Any], impact: str, approvals: int | None) -> None:
    """Who must approve from now on: new evidence may ask for more people, or for fewer."""
    asked = state["flow"]["approvals"] if approvals is None else approvals
    state["flow"]["approvals"] = asked
    two = impact == "CRITICAL" or asked > 1
    state["approval_mode_effective"] = MODES[-1] if two else state["flow"]["lone_mode"]


def _add_to_transcript(state: dict[str, Any], entry: Said, rules: FindRules) -> None:
    replay = state["replay"]
    so_far = bytes.fromhex(replay["tool_transcript_chain_hash"] or "00" * 32)
    told = canonical.encode({"kind": entry.kind, "payload": dict(entry.payload)})
    replay["tool_transcript_chain_hash"] = canonical.digest(so_far + told)


def _finished(state: dict[str, Any], last: Said, *, has_ended: bool) -> dict[str, Any]:
    flow = state["flow"]
    flow["to_seq"] = last.seq
    state["record_id"] = f"dr_{flow['dfid'].replace('-', '')}_{last.seq}"
    state["timestamp"] = last.at
    if flow["opened_at"] and not has_ended:
        span = datetime.fromisoformat(last.at) - datetime.fromisoformat(flow["opened_at"])
        state["budget_usage"]["wall_clock_ms"] = max(0, span // _MILLISECOND)
    reached = statuses.status(flow)
    state["status"] = reached.value
    outcome = flow["outcome"] or {}
    state["outputs"] = {
        "outcome": statuses.outcome(reached, flow),
        "reason": flow["reason"],
        "effect": outcome.get("status"),
        "deviations": outcome.get("deviations", 0),
        "outcome_digest": outcome.get("digest"),
        "receipt": outcome.get("receipt"),
    }
    if "named" in flow:
        state["outputs"]["result"] = dict(flow["named"])
    return state


_LEFT_OUT = ("record_hash", "signed_by")
_MILLISECOND = datetime.fromisoformat("2000-01-01T00:00:00.001") - datetime.fromisoformat("2000-01-01")
_Step = Callable[[dict[str, Any], Said, FindRules], None]
_STEPS: Mapping[str, _Step] = {
    Kind.FLOW_OPENED: _opened,
    Kind.FLOW_MOVED: _moved,
    Kind.CONTEXT_COMPILED: _compiled,
    **dict.fromkeys(advice.KINDS, _advised),
    Kind.STEP_REPORTED: _stepped,
    Kind.USAGE_REPORTED: _used,
    Kind.PROPOSAL_SUBMITTED: _proposed,
    Kind.VERDICT_GIVEN: _judged,
    Kind.ESCALATION_OPENED: _asked_people,
    Kind.ESCALATION_REVISED: _revised,
    Kind.ESCALATION_FIRST_DECIDED: _decided,
    Kind.ESCALATION_FIRST_ENDED: _first_ended,
    Kind.ESCALATION_DECIDED: _decided,
    Kind.ESCALATION_REOPENED: _reopened,
    Kind.ESCALATION_WITHDRAWN: _withdrawn,
    Kind.INFORMATION_REQUESTED: _asked_agent,
    Kind.INFORMATION_ANSWERED: _no_longer_asked,
    Kind.INFORMATION_CLOSED: _no_longer_asked,
    Kind.ATTEMPT_STARTED: _called,
    Kind.ATTEMPT_FINISHED: _answer_came,
    Kind.ATTEMPT_REPORTED_LATE: _answer_came,
    Kind.ATTEMPT_SETTLED: _settled,
    Kind.INTENT_HELD: _held,
    Kind.OUTCOME_RECORDED: _came_to,
    Kind.RECORD_SCORED: _scored,
    Kind.OUTCOME_NAMED: _named,
}


def record_hash(record: Mapping[str, Any]) -> str:
    """SHA-256 of the record's RFC 8785 bytes without `audit.record_hash` and `audit.signed_by`."""
    kept = {name: value for name, value in record["audit"].items() if name not in _LEFT_OUT}
    return canonical.digest(canonical.encode({**record, "audit": kept}))


def sealed(record: Mapping[str, Any], *, prev_hash: str, key_id: str) -> dict[str, Any]:
    """The whole record: with the hash of the flow's record before it, its own, and who signs it."""
    whole = {**record, "audit": {"prev_hash": prev_hash}}
    whole["audit"] |= {"record_hash": record_hash(whole), "signed_by": key_id}
    return whole
