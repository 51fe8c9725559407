"""A flow with decision records: what each of them says is written down here by hand, and folded by nothing.

Two people accept what an agent proposed, after a question; it runs, and the flow closes. So there are four
records: after the verdict, the question, the decision and the end.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import rfc8785

from tests.support.evidence_packs import (
    AGENT,
    CHANGED,
    ESCALATION,
    FIRST,
    FLOW,
    INTENT,
    NEXT,
    OPERATOR,
    PROPOSED,
    ROTATED_AT,
    SECOND,
    Members,
    Story,
    begun,
    evidence_of,
    judge,
    members_of,
    moment,
    proposal,
    sha256,
    state,
    with_manifest,
)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
BARE = FLOW.replace("-", "")
# The numbers of the entries, and of those of the records.
OPENED, JUDGED, ESCALATED, ASKED, JUDGED_AGAIN, DECIDED, CALLED, CLOSED = 1, 7, 9, 11, 17, 21, 24, 27
AFTER_VERDICT, AFTER_QUESTION, AFTER_DECISION, AFTER_END = RECORDS = (10, 12, 22, 28)
BUNDLE: dict[str, Any] = {
    "kind": {
        "kind": "BUY",
        "version": "1.0.0",
        "category": "trade.buy",
        "gate_id": "GATE_DESK",
        "approvals": 2,
        "reversible": False,
        "subjects": ["order:${params.id}", "desk:equities", "account:${params.account}"],
        "limits": [{"id": "L_ASK", "on_exceed": "ESCALATE"}, {"id": "L_CAP", "on_exceed": "REJECT"}],
        "rules": [{"id": "R_OPEN", "on_fail": "REJECT"}, {"id": "R_SIZE", "on_fail": "ESCALATE"}],
        "constraints": [{"id": "C_PRICE"}],
    },
    "manifest": {"version": "3.1.0", "model_profile": "profile.safe", "evaluator_suite": None},
}
STEPS: list[Any] = [
    {"step": "buy", "key": "key-1", "compensation": {"step": "buy", "key": "key-2"}},
    {"step": "book", "key": "key-3"},
]
REASONS = [
    {"check": "limits", "outcome": "REFER", "code": "LIMIT", "subject": "L_ASK"},
    {"check": "rules", "outcome": "REFER", "code": "R_SIZE", "subject": "R_SIZE"},
    {"check": "quota", "outcome": "PASS", "code": "", "subject": "Q_DAY"},
    {"check": "hours", "outcome": "REFER", "code": "LIMIT"},
]


def story() -> Story:
    """The flow, with its records."""
    told = Story(keys=[(FIRST, 0, 200), (NEXT, ROTATED_AT, None)])
    told.add(
        "flow:opened",
        AGENT,
        {
            "agent_id": "buyer",
            "trigger_commitment": told.kept({"why": "price"}),
            "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01",
        },
    )
    context = told.named({"facts": {"price": 12.5}})
    told.add("context:compiled", AGENT, {"context_ref": context, "fact_count": 1})
    told.add("flow:moved", AGENT, {"from_state": "CREATED", "to_state": "ACTIVE", "reason": ""})
    told.add("step:reported", AGENT, {"step_type": "THOUGHT", "payload_ref": "notes:1"})
    told.add("usage:reported", AGENT, {"tokens": 120, "cost_usd": "0.012", "tool_calls": 2})
    _escalate(told, context)
    told.emit(_after_verdict(told))
    _ask(told)
    told.emit(_after_question(told))
    _answer(told)
    _decide(told)
    told.emit(_after_decision(told))
    _run(told)
    told.emit(_after_end(told))
    for (signer, at, _), before, seq in zip(told.keys, (None, FIRST), (5, 9), strict=True):
        told.add("signing_key:begun", "system", begun(signer, before, vouching=before), stream="system")
        told.streams["system"][-1] |= {"seq": seq, "at": moment(at)}
    return told


def _escalate(told: Story, context: str) -> None:
    document = proposal(PROPOSED, AGENT, 10, context)
    about: dict[str, Any] = {"bundle": BUNDLE, "impact": "HIGH_IMPACT", "steps": STEPS}
    judge(told, document, "ESCALATE", REASONS, AGENT, **about)
    moved = {"from_state": "ACTIVE", "to_state": "ESCALATED", "reason": "LIMIT"}
    told.add("flow:moved", AGENT, moved, together=True)
    evidence = evidence_of(told, 1, impact="HIGH_IMPACT")
    opened = {"escalation_id": ESCALATION, "family": "DECISION", "reason": "LIMIT", "impact": "HIGH_IMPACT"}
    told.add("escalation:opened", AGENT, {**opened, "revision": 1, "evidence_hash": evidence}, together=True)


def _ask(told: Story) -> None:
    on = {"revision": 1, "evidence_hash": told.entry("escalation:opened")["payload"]["evidence_hash"]}
    question = {"type": "dir-console/question/1", "number": 1, "question": "Why now?", **on}
    stated = {**question, "until": moment(600, timespec="milliseconds")}
    payload = {"number": 1, "text_commitment": told.kept("Why now?"), "until": moment(600), **on}
    state(told, "information:requested", ("asked_by", OPERATOR), "asked_at", stated, payload)


def _answer(told: Story) -> None:
    answered = {"escalation_id": ESCALATION, "number": 1, "answer_commitment": told.kept("It is cheap.")}
    told.add("information:answered", AGENT, answered)
    evidence = evidence_of(told, 2, answer="It is cheap.", impact="HIGH_IMPACT")
    revised = {"escalation_id": ESCALATION, "revision": 2, "evidence_hash": evidence, "why": "answered"}
    told.add("escalation:revised", AGENT, revised, together=True)


def _decide(told: Story) -> None:
    evidence = told.entry("escalation:revised")["payload"]["evidence_hash"]
    on = {"revision": 2, "evidence_hash": evidence}
    choice = {"action": "OVERRIDE", "params": None}
    stated = {"type": "dir-console/decision/1", "action": "OVERRIDE", "choice": choice, **on}
    by_first = {**stated, "proposal_id": None}
    first = state(
        told,
        "escalation:first_decided",
        ("approver", OPERATOR),
        "decided_at",
        by_first,
        {"sequence": 1, **on},
    )
    judge(told, proposal(CHANGED, SECOND, 10, evidence), "ACCEPT", [], SECOND, bundle=BUNDLE, steps=STEPS)
    moved = {"from_state": "ESCALATED", "to_state": "ACCEPTED", "reason": "ACCEPTED"}
    told.add("flow:moved", SECOND, moved, together=True)
    requests = told.named({"steps": [{"step": "buy"}, {"step": "book"}]})
    created = {"intent_id": INTENT, "proposal_id": CHANGED, "step_ids": ["buy", "book"]}
    told.add("intent:created", SECOND, {**created, "request_digest": requests}, together=True)
    ended = {"escalation_id": ESCALATION, "sequence": 1, "state": "CONFIRMED", "why": "CONFIRMED"}
    told.add("escalation:first_ended", SECOND, ended, together=True)
    by_second = {**stated, "confirms": first, "proposal_id": CHANGED, "effect": None}
    payload = {"sequence": 2, "action": "OVERRIDE", "proposal_id": CHANGED, "effect": None, **on}
    who = ("approver", SECOND)
    state(told, "escalation:decided", who, "decided_at", by_second, payload, together=True)


def _run(told: Story) -> None:
    moved = {"from_state": "ACCEPTED", "to_state": "EXECUTING", "reason": ""}
    told.add("flow:moved", "system", moved)
    call = {
        "intent_id": INTENT,
        "number": 1,
        "step": "buy",
        "target_key": "key-1",
        "lease_until": moment(400),
    }
    told.add("attempt:started", "system", {**call, "direction": "FORWARD", "purpose": "CALL"}, together=True)
    receipt = told.kept({"id": 4711})
    answer = {"intent_id": INTENT, "number": 1, "result": "SUCCEEDED", "receipt_commitment": receipt}
    told.add("attempt:finished", "system", answer)
    outcome = {"intent_id": INTENT, "status": "SUCCEEDED", "receipt_commitment": receipt, "deviations": 0}
    digest = told.named({"attempts": 1})
    told.add("outcome:recorded", "system", {**outcome, "outcome_digest": digest}, together=True)
    moved = {"from_state": "EXECUTING", "to_state": "CLOSED", "reason": "DONE"}
    told.add("flow:moved", "system", moved, together=True)


# --- What the records say ---


def _after_verdict(told: Story) -> dict[str, Any]:
    said = told.entry("verdict:given")["payload"]
    context = told.entry("context:compiled")["payload"]["context_ref"]
    asked = told.entry("proposal:submitted")["payload"]["proposal_digest"]
    evidence = told.entry("escalation:opened")["payload"]["evidence_hash"]
    return {
        "schema_version": "1",
        "record_id": f"dr_{BARE}_9",
        "decision_key": "BUY",
        "decision_version": "1.0.0",
        "timestamp": moment(206),
        "status": "ESCALATED",
        "terminal": False,
        "supersedes": None,
        "actor": {
            "type": "AGENT",
            "id": "buyer",
            "workload_identity": f"agent:buyer#{FLOW}",
            "delegated_user_id": None,
        },
        "intent_ref": "trade.buy",
        "subject_ids": ["order:881", "desk:equities"],
        "inputs_refs": {
            "request": f"proposal:{PROPOSED}#sha256:{asked}",
            "session": f"flow:{FLOW}",
            "trigger": told.entry("flow:opened")["payload"]["trigger_commitment"],
            "attachments": ["notes:1"],
        },
        "outputs": {
            "outcome": "escalated",
            "reason": "LIMIT",
            "effect": None,
            "deviations": 0,
            "outcome_digest": None,
            "receipt": None,
        },
        "evidence_refs": [
            f"context:{context}",
            f"verdict:{PROPOSED}#sha256:{said['verdict_digest']}",
            f"evidence:{ESCALATION}/1#sha256:{evidence}",
        ],
        "policy_decisions": [
            {
                "policy_decision_id": PROPOSED,
                "bundle_id": said["policy_bundle_hash"],
                "rule_ids": ["LIMIT", "R_SIZE", "L_ASK"],
                "verdict": "require_approval",
            }
        ],
        "approvals": [],
        "approval_mode_effective": "two_persons",
        "controls_active": {
            "must_refuse": ["L_CAP", "R_OPEN", "C_PRICE"],
            "must_escalate": ["L_ASK", "R_SIZE"],
            "approval_gates_active": ["GATE_DESK"],
            "redaction_rules_active": [],
        },
        "tool_lineage": [],
        "scorecard": {},
        "budget_usage": {"tokens": 120, "tool_calls": 2, "cost_usd_cents": "1.2", "wall_clock_ms": 5000},
        "lineage": {
            "pack_version": f"bundle@sha256:{said['policy_bundle_hash']}",
            "policy_versions": ["BUY@1.0.0", "manifest:buyer@3.1.0"],
            "decision_spec": "BUY@1.0.0",
            "kg_snapshot": context,
            "model_profile": "profile.safe",
            "evaluator_suite": None,
            "gate_version": "2",
            "unpinned": ["evaluator_suite", "subject:account:${params.account}"],
        },
        "trace_id": TRACE,
        "replay": {
            "replay_packet_id": FLOW,
            "compiled_context_hash": context,
            "tool_transcript_chain_hash": None,
        },
        "flow": {
            "dfid": FLOW,
            "opened_at": moment(201),
            "state": "ESCALATED",
            "reason": "LIMIT",
            "from_seq": 1,
            "to_seq": 9,
            "verdict": "ESCALATE",
            "action": None,
            "outcome": None,
            "gates": {ESCALATION: "GATE_DESK"},
            "asked": False,
            "reversals": {"buy": "key-2"},
            "approvals": 2,
            "lone_mode": "destructive",
            "mode_before": None,
        },
    }


def _after_question(told: Story) -> dict[str, Any]:
    before = told.records[AFTER_VERDICT]
    return {
        **before,
        "record_id": f"dr_{BARE}_11",
        "timestamp": moment(211),
        "status": "DEFERRED",
        "outputs": {**before["outputs"], "outcome": "deferred"},
        "budget_usage": {**before["budget_usage"], "wall_clock_ms": 10_000},
        "flow": {**before["flow"], "from_seq": 10, "to_seq": 11, "asked": True},
    }


def _after_decision(told: Story) -> dict[str, Any]:
    before = told.records[AFTER_QUESTION]
    said = told.entry("verdict:given", 1)["payload"]
    asked = told.entry("proposal:submitted", 1)["payload"]["proposal_digest"]
    evidence = told.entry("escalation:revised")["payload"]["evidence_hash"]
    answer = told.entry("information:answered")["payload"]["answer_commitment"]
    given = {
        "gate_id": "GATE_DESK",
        "approval_mode_effective": "two_persons",
        "evidence_snapshot_hash": evidence,
        "escalation_id": ESCALATION,
        "key_id": NEXT.key_id,
    }
    return {
        **before,
        "record_id": f"dr_{BARE}_21",
        "timestamp": moment(216),
        "status": "IN_FLIGHT",
        "actor": {**before["actor"], "delegated_user_id": SECOND},
        "inputs_refs": {**before["inputs_refs"], "request": f"proposal:{CHANGED}#sha256:{asked}"},
        "outputs": {**before["outputs"], "outcome": "accepted", "reason": "ACCEPTED"},
        "evidence_refs": [
            *before["evidence_refs"],
            f"answer:{answer}",
            f"evidence:{ESCALATION}/2#sha256:{evidence}",
            f"verdict:{CHANGED}#sha256:{said['verdict_digest']}",
        ],
        "policy_decisions": [
            *before["policy_decisions"],
            {
                "policy_decision_id": CHANGED,
                "bundle_id": said["policy_bundle_hash"],
                "rule_ids": [],
                "verdict": "allow",
            },
        ],
        "approvals": [
            {
                **given,
                "approver": OPERATOR,
                "decided_at": moment(215),
                "action": None,
                "sequence": 1,
                "statement_digest": told.entry("escalation:first_decided")["payload"]["statement_digest"],
                "state": "CONFIRMED",
            },
            {
                **given,
                "approver": SECOND,
                "decided_at": moment(216),
                "action": "OVERRIDE",
                "sequence": 2,
                "statement_digest": told.entry("escalation:decided")["payload"]["statement_digest"],
                "state": "IN_EFFECT",
            },
        ],
        "budget_usage": {**before["budget_usage"], "wall_clock_ms": 15_000},
        "lineage": {**before["lineage"], "kg_snapshot": evidence},
        "replay": {**before["replay"], "compiled_context_hash": evidence},
        "flow": {
            **before["flow"],
            "state": "ACCEPTED",
            "reason": "ACCEPTED",
            "from_seq": 12,
            "to_seq": 21,
            "verdict": "ACCEPT",
            "action": "OVERRIDE",
            "asked": False,
        },
    }


def _after_end(told: Story) -> dict[str, Any]:
    before = told.records[AFTER_DECISION]
    outcome = told.entry("outcome:recorded")["payload"]
    digest, receipt = outcome["outcome_digest"], outcome["receipt_commitment"]
    transcript = bytes(32)
    for kind in ("attempt:started", "attempt:finished"):
        line = rfc8785.dumps({"kind": kind, "payload": told.entry(kind)["payload"]})
        transcript = hashlib.sha256(transcript + line).digest()
    return {
        **before,
        "record_id": f"dr_{BARE}_27",
        "timestamp": moment(225),
        "status": "DECIDED",
        "terminal": True,
        "outputs": {
            "outcome": "succeeded",
            "reason": "DONE",
            "effect": "SUCCEEDED",
            "deviations": 0,
            "outcome_digest": digest,
            "receipt": receipt,
        },
        "evidence_refs": [
            *before["evidence_refs"],
            f"receipt:{receipt}",
            f"outcome:{INTENT}#sha256:{digest}",
        ],
        "tool_lineage": [
            {
                "tool_call_id": f"{INTENT}:1",
                "tool_result_id": receipt,
                "approval_mode_effective": "two_persons",
                "idempotency_key": "key-1",
                "reversal_token": "key-2",
                "step": "buy",
                "direction": "FORWARD",
                "purpose": "CALL",
                "result": "SUCCEEDED",
            }
        ],
        "budget_usage": {**before["budget_usage"], "wall_clock_ms": 24_000},
        "replay": {**before["replay"], "tool_transcript_chain_hash": transcript.hex()},
        "flow": {
            **before["flow"],
            "state": "CLOSED",
            "reason": "DONE",
            "from_seq": 22,
            "to_seq": 27,
            "outcome": {"status": "SUCCEEDED", "deviations": 0, "digest": digest, "receipt": receipt},
        },
    }


# --- Its pack, and changes of it ---


def whole() -> Members:
    """The members of its pack."""
    return with_manifest(members_of(story()))


def told_with(change: Callable[[Story], object]) -> Members:
    """The pack of another story, hashed, chained and signed by who has all the keys."""
    told = story()
    change(told)
    return with_manifest(members_of(told))


def without_object(told: Story, kind: str, name: str) -> None:
    """Say of what an entry names that it is absent."""
    digest = told.entry(kind)["payload"][name]
    told.objects.pop(digest, None)
    told.absent[digest] = "no longer stored"


def with_gaps() -> Story:
    """The flow after words of it were erased, and with a context that is no longer stored."""
    told = story()
    without_object(told, "context:compiled", "context_ref")
    erased = told.entry("proposal:submitted")["payload"]["explain_commitment"]
    told.payloads = [
        {"commitment": erased, "erased": True} if row["commitment"] == erased else row
        for row in told.payloads
    ]
    return told


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all values in a document that hold no others, empty lists and objects too."""
    parts = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    below = [leaf for name, part in parts for leaf in leaves(part, (*path, name))]
    return below or [path]


def json_path(path: tuple[str | int, ...]) -> str:
    """A path as findings write it."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def changed_at(document: Any, path: tuple[str | int, ...]) -> Any:
    """The document with another value at a path, of the same type where that has others."""
    if not path:
        return _another(document)
    name, *rest = path
    copied: Any = list(document) if isinstance(document, list) else dict(document)
    copied[name] = changed_at(document[name], tuple(rest))
    return copied


def _another(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str() if value and set(value) <= set("0123456789abcdef"):
            return sha256(value.encode())[: len(value)]
        case str():
            return f"{value}x"
        case list():
            return ["x"]
        case dict():
            return {"x": 1}
    return "x"
