"""How an entry reads on the timeline: icon, lane, short title and a sentence, one presenter per kind.

Sentences are plain text that holds values from agents: templates escape them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from audit.events import Kind


class Lane(StrEnum):
    """The lanes of the timeline, in the order of a decision."""

    CONTEXT = "Context"
    REASONING = "Reasoning"
    PROPOSAL = "Proposal"
    VALIDATION = "Validation"
    ESCALATION = "Escalation"
    DECISION = "Decision"
    EXECUTION = "Execution"
    SYSTEM = "System"


@dataclass(frozen=True, slots=True)
class Presenter:
    """`icon` is an id in static/icons.svg; `sentence` takes the payload."""

    icon: str
    lane: Lane
    title: str
    sentence: Callable[[Mapping[str, Any]], str]


def present(kind: str) -> Presenter:
    """The presenter of a stored kind; one that newer code wrote gets a plain one."""
    return PRESENTERS[Kind(kind)] if kind in Kind.__members__.values() else _UNKNOWN


def _says(template: str) -> Callable[[Mapping[str, Any]], str]:
    def sentence(payload: Mapping[str, Any]) -> str:
        return template.format_map(_Lenient(payload))

    return sentence


class _Lenient(dict[str, Any]):
    """Fields that an older entry lacks read as a dash."""

    def __missing__(self, key: str) -> str:
        return "-"


def _verdict(payload: Mapping[str, Any]) -> str:
    codes = ", ".join(dict.fromkeys(str(reason["code"]) for reason in payload["reasons"]))
    return f"The gate says {payload['verdict']}" + (f": {codes}." if codes else ".")


def _moved(payload: Mapping[str, Any]) -> str:
    why = f": {payload['reason']}" if payload["reason"] else ""
    return f"From {payload['from_state']} to {payload['to_state']}{why}."


def _compiled(payload: Mapping[str, Any]) -> str:
    return (
        f"The agent was given {_count(payload['fact_count'], 'fact')}, valid until {payload['expires_at']}."
    )


def _step(payload: Mapping[str, Any]) -> str:
    labels = ", ".join(payload.get("source_labels") or ())
    return f"The agent claims a step: {payload['step_type']}" + (f", from {labels}." if labels else ".")


def _memory(payload: Mapping[str, Any]) -> str:
    held = " In quarantine." if payload["quarantined"] else ""
    return (
        f"{payload['scope']}/{payload['key']} version {payload['version']}, from {payload['source']}.{held}"
    )


def _usage(payload: Mapping[str, Any]) -> str:
    parts = [_count(payload["tokens"], "token")]
    if payload["cost_usd"]:
        parts.append(f"{payload['cost_usd']} USD")
    if payload.get("tool_calls"):
        parts.append(_count(payload["tool_calls"], "tool call"))
    return f"The agent reports {' and '.join(parts)}."


def _opened(payload: Mapping[str, Any]) -> str:
    until = f", to be decided until {payload['deadline_at']}" if payload["deadline_at"] else ""
    return f"A person is asked: {payload['reason']} ({payload['impact']}){until}."


def _started(payload: Mapping[str, Any]) -> str:
    what = "to undo" if payload.get("direction") == "COMPENSATE" else "of"
    if payload.get("purpose") == "PROBE":
        what = f"asks what became of the call {what}"
    return f"Attempt {payload['number']} {what} step {payload['step']}."


def _advanced(payload: Mapping[str, Any]) -> str:
    done = "undone" if payload["direction"] == "COMPENSATE" else "done"
    onward = f"; {payload['next_step']} is next" if payload["next_step"] else ""
    return f"Step {payload['step']} is {done}{onward}."


def _dirtied(payload: Mapping[str, Any]) -> str:
    return (
        f"Step {payload['step']} will not be done ({payload['cause']}): "
        f"{', '.join(payload['done'])} will be undone. The agent is locked meanwhile."
    )


def _compensated(payload: Mapping[str, Any]) -> str:
    return f"What was done is undone again: {', '.join(payload['undone'])}."


def _finished(payload: Mapping[str, Any]) -> str:
    parts = [f"Attempt {payload['number']}: {payload['result']}"]
    if payload["status_code"] is not None:
        parts.append(f"HTTP {payload['status_code']}")
    if payload["error_category"]:
        parts.append(str(payload["error_category"]))
    if payload["next_at"]:
        parts.append(f"next try at {payload['next_at']}")
    return ", ".join(parts) + "."


def _outcome(payload: Mapping[str, Any]) -> str:
    found = payload["deviations"]
    deviations = f", {_count(found, 'deviation')} from what was expected" if found else ""
    return f"Ended as {payload['status']}{deviations}."


def _intent(payload: Mapping[str, Any]) -> str:
    return f"{_count(len(payload['step_ids']), 'step')} to execute until {payload['valid_until']}."


def _roles(payload: Mapping[str, Any]) -> str:
    return f"User {payload['user_id']}: {', '.join(payload['roles']) or 'no role'}."


def _reserved(payload: Mapping[str, Any]) -> str:
    until = f" until {payload['lease_until']}" if payload["lease_until"] else ""
    return f"{payload['amount']} of {payload['resource']} reserved{until}."


def _tokens(payload: Mapping[str, Any]) -> str:
    whole, thousandths = divmod(int(payload["tokens_left_milli"]), 1000)
    return f"An escalation token was spent; {whole}.{thousandths:03d} left."


def _edited(payload: Mapping[str, Any]) -> str:
    changed = [
        f"{name} from {payload[f'{field}_before'] or 'none'} to {payload[f'{field}_after'] or 'none'}"
        for field, name in (("owner", "owner"), ("review", "review date"))
        if payload[f"{field}_before"] != payload[f"{field}_after"]
    ]
    if payload["mission_before"] != payload["mission_after"]:
        changed.append(f"mission to: {payload['mission_after']}")
    return f"{payload['agent_id']}: {', '.join(changed)}."


def _activated(payload: Mapping[str, Any]) -> str:
    name = payload.get("agent_id") or payload.get("policy_kind")
    why = f": {payload['reason']}" if payload.get("reason") else ""
    solo = " By its own author, the only admin." if payload.get("solo") else ""
    return f"{name} version {payload['version']} is in force{why}.{solo}"


def _superseded(payload: Mapping[str, Any]) -> str:
    stated = " A person states that it had no effect." if payload["stated_without_effect"] else ""
    return f"Another intent runs in its place: {payload['by_intent_id']}.{stated}"


def _question_closed(payload: Mapping[str, Any]) -> str:
    why = {"WAIT_ENDED": "no answer came in time, and the clock runs on", "DECIDED": "a person decided"}
    return f"Question {payload['number']} is closed: {why.get(payload['why'], 'the flow ended')}."


def _resumed(payload: Mapping[str, Any]) -> str:
    return f"Resumed: {payload['reason']}." if payload.get("reason") else "Resumed."


def _checked(payload: Mapping[str, Any]) -> str:
    found = "can be called" if payload["is_good"] else "cannot be called"
    return f"{payload['target']} {found}; nothing was sent to it."


def _switched(payload: Mapping[str, Any]) -> str:
    return f"{payload['guard_id']} switched {'on' if payload['enabled'] else 'off'}: {payload['reason']}."


def _flagged(payload: Mapping[str, Any]) -> str:
    stopped = " The agent was suspended." if payload["agent_suspended"] else ""
    codes = ", ".join(payload["codes"])
    return f"{payload['guard_id']} asks for a review, confidence {payload['confidence']}: {codes}.{stopped}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


_UNKNOWN = Presenter(
    "ledger", Lane.SYSTEM, "Entry of another version", lambda payload: "Recorded by another version."
)

PRESENTERS: Mapping[Kind, Presenter] = MappingProxyType(
    {
        Kind.FLOW_OPENED: Presenter("flow", Lane.CONTEXT, "Flow opened", _says("Opened by {agent_id}.")),
        Kind.FLOW_MOVED: Presenter("next", Lane.SYSTEM, "State changed", _moved),
        Kind.CHILD_OPENED: Presenter(
            "flow", Lane.REASONING, "Child flow opened", _says("{agent_id} acts for it in a flow of its own.")
        ),
        Kind.CONTEXT_COMPILED: Presenter("layers", Lane.CONTEXT, "Context compiled", _compiled),
        Kind.STEP_REPORTED: Presenter("thought", Lane.REASONING, "Step reported", _step),
        Kind.USAGE_REPORTED: Presenter("budget", Lane.REASONING, "Usage reported", _usage),
        Kind.PROPOSAL_SUBMITTED: Presenter(
            "send",
            Lane.PROPOSAL,
            "Proposal submitted",
            _says("{author} proposes {policy_kind} {policy_version}, valid until {valid_until}."),
        ),
        Kind.VERDICT_GIVEN: Presenter("shield", Lane.VALIDATION, "Verdict given", _verdict),
        Kind.ESCALATION_OPENED: Presenter("refer", Lane.ESCALATION, "Escalation opened", _opened),
        Kind.ESCALATION_REVISED: Presenter(
            "edit", Lane.ESCALATION, "Evidence revised", _says("Revision {revision}: {why}.")
        ),
        Kind.ESCALATION_CLAIMED: Presenter(
            "user", Lane.ESCALATION, "Escalation claimed", _says("Taken up by a person.")
        ),
        Kind.ESCALATION_RELEASED: Presenter(
            "user", Lane.ESCALATION, "Escalation released", _says("Given back to the queue.")
        ),
        Kind.ESCALATION_REFUSED: Presenter(
            "cross", Lane.DECISION, "Decision refused", _says("{action} was refused: {code}.")
        ),
        Kind.ESCALATION_DECIDED: Presenter(
            "check",
            Lane.DECISION,
            "Decision made",
            _says("{action} on evidence revision {revision}, signed with key {key_id}."),
        ),
        Kind.ESCALATION_EXPIRED: Presenter(
            "clock", Lane.DECISION, "Escalation expired", _says("Nobody decided in time: the answer is no.")
        ),
        Kind.ESCALATION_WITHDRAWN: Presenter(
            "clock", Lane.ESCALATION, "Escalation withdrawn", _says("The flow ended: nobody needs to decide.")
        ),
        Kind.INFORMATION_REQUESTED: Presenter(
            "ask",
            Lane.ESCALATION,
            "Agent asked",
            _says("Question {number} on evidence revision {revision}; the clock stands still until {until}."),
        ),
        Kind.INFORMATION_ANSWERED: Presenter(
            "thought",
            Lane.ESCALATION,
            "Agent answered",
            _says("The agent answers question {number}. The answer is a claim."),
        ),
        Kind.INFORMATION_CLOSED: Presenter("clock", Lane.ESCALATION, "Question closed", _question_closed),
        Kind.INTENT_CREATED: Presenter("bolt", Lane.EXECUTION, "Intent created", _intent),
        Kind.INTENT_CANCELLED: Presenter(
            "cross", Lane.EXECUTION, "Intent cancelled", _says("Cancelled before execution: {reason}.")
        ),
        Kind.INTENT_BLOCKED: Presenter(
            "cross", Lane.EXECUTION, "Intent blocked", _says("The check before the call said no: {code}.")
        ),
        Kind.INTENT_HELD: Presenter(
            "stop", Lane.EXECUTION, "Intent held", _says("Held before the call: {why}.")
        ),
        Kind.INTENT_IN_DOUBT: Presenter(
            "ask",
            Lane.EXECUTION,
            "Result unknown",
            _says("Attempt {number} ended without a known result."),
        ),
        Kind.INTENT_RESUMED: Presenter(
            "play", Lane.EXECUTION, "Intent resumed", _says("To be tried again under the same key.")
        ),
        Kind.INTENT_SUPERSEDED: Presenter("edit", Lane.EXECUTION, "Intent superseded", _superseded),
        Kind.ATTEMPT_STARTED: Presenter("play", Lane.EXECUTION, "Attempt started", _started),
        Kind.ATTEMPT_FINISHED: Presenter("check", Lane.EXECUTION, "Attempt finished", _finished),
        Kind.ATTEMPT_REPORTED_LATE: Presenter(
            "clock", Lane.EXECUTION, "Late answer", _says("Attempt {number} answered late: {result}.")
        ),
        Kind.SAGA_ADVANCED: Presenter("check", Lane.EXECUTION, "Step finished", _advanced),
        Kind.SAGA_DIRTIED: Presenter("layers", Lane.EXECUTION, "Half done, turning back", _dirtied),
        Kind.SAGA_COMPENSATED: Presenter("check", Lane.EXECUTION, "All undone", _compensated),
        Kind.OUTCOME_RECORDED: Presenter("record", Lane.EXECUTION, "Outcome recorded", _outcome),
        Kind.RESOURCE_CONFIGURED: Presenter(
            "lock", Lane.SYSTEM, "Resource configured", _says("{resource}: capacity {capacity} {unit}.")
        ),
        Kind.RESOURCE_RESERVED: Presenter("lock", Lane.VALIDATION, "Resource reserved", _reserved),
        Kind.RESOURCE_PINNED: Presenter(
            "lock", Lane.EXECUTION, "Reservation pinned", _says("{amount} of {resource} kept for the call.")
        ),
        Kind.RESOURCE_COMMITTED: Presenter(
            "lock", Lane.EXECUTION, "Resource used", _says("{amount} of {resource} used.")
        ),
        Kind.RESOURCE_RELEASED: Presenter(
            "lock",
            Lane.EXECUTION,
            "Resource released",
            _says("{amount} of {resource} released: {reason}."),
        ),
        Kind.AGENT_REGISTERED: Presenter(
            "agent", Lane.SYSTEM, "Agent registered", _says("{agent_id}, {role}, owned by {owner}.")
        ),
        Kind.AGENT_EDITED: Presenter("edit", Lane.SYSTEM, "Agent described anew", _edited),
        Kind.AGENT_STATUS_CHANGED: Presenter(
            "agent",
            Lane.SYSTEM,
            "Agent status changed",
            _says("{agent_id} from {from_status} to {to_status}: {reason}."),
        ),
        Kind.AGENT_STOPPED: Presenter("stop", Lane.SYSTEM, "Agent stopped", _says("{agent_id}: {reason}.")),
        Kind.AGENT_RESUMED: Presenter("play", Lane.SYSTEM, "Agent resumed", _resumed),
        Kind.MANIFEST_REGISTERED: Presenter(
            "record", Lane.SYSTEM, "Manifest registered", _says("{agent_id} version {version}.")
        ),
        Kind.MANIFEST_ACTIVATED: Presenter("record", Lane.SYSTEM, "Manifest activated", _activated),
        Kind.MANIFEST_DISCARDED: Presenter(
            "cross", Lane.SYSTEM, "Manifest discarded", _says("{agent_id} version {version}: {reason}.")
        ),
        Kind.SESSION_OPENED: Presenter(
            "lock", Lane.SYSTEM, "Session opened", _says("{agent_id} under manifest {manifest_version}.")
        ),
        Kind.KEY_ISSUED: Presenter("lock", Lane.SYSTEM, "Key issued", _says("Key {key_id} for {subject}.")),
        Kind.KEY_REVOKED: Presenter("lock", Lane.SYSTEM, "Key revoked", _says("Key {key_id}.")),
        Kind.KIND_REGISTERED: Presenter(
            "kind", Lane.SYSTEM, "Policy kind registered", _says("{policy_kind} version {version}.")
        ),
        Kind.KIND_ACTIVATED: Presenter("kind", Lane.SYSTEM, "Policy kind activated", _activated),
        Kind.KIND_DISCARDED: Presenter(
            "cross", Lane.SYSTEM, "Policy kind discarded", _says("{policy_kind} version {version}: {reason}.")
        ),
        Kind.PACK_LOADED: Presenter("kind", Lane.SYSTEM, "Pack loaded", _says("{pack} version {version}.")),
        Kind.TARGET_CONFIGURED: Presenter(
            "bolt", Lane.SYSTEM, "Target configured", _says("{name} at {base_url}, signed calls: {signed}.")
        ),
        Kind.TARGET_CHECKED: Presenter("bolt", Lane.SYSTEM, "Target tested", _checked),
        Kind.CIRCUIT_OPENED: Presenter(
            "stop",
            Lane.SYSTEM,
            "Circuit opened",
            _says("{target} failed {failures} times in a row: not called before {retry_at}."),
        ),
        Kind.CIRCUIT_CLOSED: Presenter(
            "check", Lane.SYSTEM, "Circuit closed", _says("{target} is called again: {reason}.")
        ),
        Kind.FACT_WRITTEN: Presenter(
            "layers", Lane.CONTEXT, "Fact written", _says("{path} version {version} by {writer}.")
        ),
        Kind.MEMORY_WRITTEN: Presenter("layers", Lane.CONTEXT, "Memory written", _memory),
        Kind.MEMORY_RELEASED: Presenter(
            "layers", Lane.CONTEXT, "Memory released", _says("{scope}/{key} version {version} may be read.")
        ),
        Kind.MEMORY_DISCARDED: Presenter(
            "cross", Lane.CONTEXT, "Memory discarded", _says("{scope}/{key} version {version} stays out.")
        ),
        Kind.ARTIFACT_REGISTERED: Presenter(
            "record", Lane.CONTEXT, "Artifact registered", _says("{media_type}, {size_bytes} bytes.")
        ),
        Kind.BUDGET_SPENT: Presenter("budget", Lane.SYSTEM, "Budget spent", _tokens),
        Kind.BUDGET_REFILLED: Presenter(
            "budget", Lane.SYSTEM, "Budget refilled", _says("{tokens} escalation tokens again: {reason}.")
        ),
        Kind.SYSTEM_STOPPED: Presenter("stop", Lane.SYSTEM, "Everything stopped", _says("{reason}.")),
        Kind.SYSTEM_RESUMED: Presenter("play", Lane.SYSTEM, "Everything resumed", _resumed),
        Kind.REQUEST_REFUSED: Presenter(
            "cross", Lane.SYSTEM, "Request refused", _says("{path} was refused: {code}.")
        ),
        Kind.USER_ADDED: Presenter("user", Lane.SYSTEM, "User added", _roles),
        Kind.USER_DEACTIVATED: Presenter(
            "user", Lane.SYSTEM, "User deactivated", _says("User {user_id} can no longer sign in.")
        ),
        Kind.GUARD_CONFIGURED: Presenter(
            "shield", Lane.SYSTEM, "Soft guard configured", _says("{guard_id}, a {guard} guard.")
        ),
        Kind.GUARD_SWITCHED: Presenter("shield", Lane.SYSTEM, "Soft guard switched", _switched),
        Kind.GUARD_FAILED: Presenter(
            "help", Lane.VALIDATION, "Soft guard gave no answer", _says("{guard_id}, {tries} tries: {why}.")
        ),
        Kind.REVIEW_FLAGGED: Presenter("high", Lane.VALIDATION, "Flagged for review", _flagged),
        Kind.REVIEW_CLOSED: Presenter(
            "user", Lane.DECISION, "Review closed", _says("{guard_id}: {result}, {note}.")
        ),
        Kind.PAYLOAD_ERASED: Presenter(
            "cross", Lane.SYSTEM, "Payload erased", _says("Kept by commitment only: {reason}.")
        ),
    }
)
