"""HITLDecisionRecord: what a person decided about what an agent asked for."""

from collections.abc import Iterator, Mapping
from typing import Any

from audit.contracts import envelope
from audit.contracts.fields import HASH, INTEGER, OBJECT, TEXT, TEXTS, TIME, UNIT, Contract, Field, one_of
from audit.contracts.flow import Entry, Flow, Judged, NotThereError, Wanted
from audit.events import Kind

_ACTIONS: Mapping[str, str] = {
    "OVERRIDE": "approve",
    "MODIFY": "approve",
    "RESUME": "approve",
    "REDIRECT": "approve",
    "MARK_DONE": "approve",
    "ACKNOWLEDGE": "approve",
    "ABORT": "deny",
    "STOP_AGENT": "deny",
    "REQUEST_INFO": "request_more_info",
}
# What people decide on besides proposals.
_NOT_OF_PROPOSALS = ("AGENT", "INTERRUPT")
_DECIDED = (Kind.ESCALATION_DECIDED, Kind.ESCALATION_FIRST_DECIDED, Kind.INFORMATION_REQUESTED)


def view(flow: Flow, wanted: Wanted) -> dict[str, Any]:
    """The newest decision of the flow or of an escalation, or the one of this number."""
    entry = _find(flow, wanted)
    said, judged = entry.payload, _decided_on(flow, entry)
    stated = flow.document(said["statement_digest"], "signed statement")
    changed = _modifications(judged, stated)
    return {
        **envelope.correlation(flow),
        "approval_id": approval_id(entry),
        "time": entry.at,
        "request": {
            "tool_name": judged.name,
            "request_hash": judged.request_hash,
            "amount_usd": None,
            "destination_ref": None,
        },
        "context": {
            "orm_risk_score": None,
            "policy_decision_id": judged.proposal_id,
            "ledger_head_ref": f"{flow.dfid}:{entry.seq - 1}",
        },
        "decision": {
            "approver_id": entry.actor,
            "action": _ACTIONS[_action(entry, stated)],
            "justification": stated.get("justification", stated.get("question", "")),
            "conditions": list(stated.get("conditions", ())),
            "modifications": changed,
        },
        "evidence": {
            "signature": said["signature"],
            "signing_key_id": said["key_id"],
            "ledger_event_id": flow.event_id(entry),
            "evidence_snapshot_hash": said["evidence_hash"],
        },
    }


def approval_id(entry: Entry) -> str:
    """The escalation, and the number of the decision or (after a q) of the question."""
    said = entry.payload
    number = f"q{said['number']}" if entry.kind == Kind.INFORMATION_REQUESTED else said.get("sequence", 1)
    return f"{said['escalation_id']}:{number}"


def _find(flow: Flow, wanted: Wanted) -> Entry:
    """The newest of what was decided: a first decision counts once its words may be seen."""
    found = [
        entry
        for entry in list_in_effect(flow)
        if wanted.id in ("", entry.payload["escalation_id"])
        and wanted.part in ("", approval_id(entry).partition(":")[2])
    ]
    if not found:
        raise NotThereError("Nobody has decided yet.")
    return found[-1]


def list_in_effect(flow: Flow) -> Iterator[Entry]:
    """What people signed, but for what was taken back and what the second of two must not see."""
    taken_back = {_sequence(entry) for entry in flow.of(Kind.ESCALATION_REOPENED)}
    confirmed = {
        _sequence(entry)
        for entry in flow.of(Kind.ESCALATION_FIRST_ENDED)
        if entry.payload["state"] == "CONFIRMED"
    }
    for entry in flow.of(*_DECIDED):
        if entry.kind == Kind.ESCALATION_FIRST_DECIDED:
            second = _second(flow, entry)
            is_shown = str(entry.payload["statement_digest"]) in flow.kept.objects
            if is_shown and _sequence(entry) in confirmed and second and _sequence(second) not in taken_back:
                yield entry
        elif entry.kind == Kind.INFORMATION_REQUESTED or _sequence(entry) not in taken_back:
            yield entry


def _second(flow: Flow, first: Entry) -> Entry | None:
    """The decision that ended the escalation after the first of two."""
    escalation = first.payload["escalation_id"]
    later = (e for e in flow.of(Kind.ESCALATION_DECIDED) if e.seq > first.seq)
    return next((e for e in later if e.payload["escalation_id"] == escalation), None)


def _sequence(entry: Entry) -> tuple[object, object]:
    return entry.payload["escalation_id"], entry.payload.get("sequence", 1)


def _decided_on(flow: Flow, entry: Entry) -> Judged:
    opened = flow.of(Kind.ESCALATION_OPENED)
    escalation = next(e for e in opened if e.payload["escalation_id"] == entry.payload["escalation_id"])
    family = escalation.payload.get("family")
    judged = None if family in _NOT_OF_PROPOSALS else flow.judged_before(escalation)
    if judged is None:
        raise NotThereError("The decision was about the agent or its workflow, not about a proposal.")
    return judged


def _action(entry: Entry, stated: Mapping[str, Any]) -> str:
    is_question = entry.kind == Kind.INFORMATION_REQUESTED
    return "REQUEST_INFO" if is_question else str(entry.payload.get("action") or stated["action"])


def _modifications(judged: Judged, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a person set to other values than the agent had proposed."""
    asked = judged.asked["params"]
    return {
        name: value
        for name, value in (stated.get("params") or {}).items()
        if name not in asked or asked[name] != value
    }


_SIGNED = "`escalation:decided`, `escalation:first_decided`, `information:requested`"
_STATED = "the signed statement (object `statement_digest`)"
_JUDGED = "`proposal:submitted` before the escalation"

CONTRACT = Contract(
    name="hitl_decision",
    design="DARE",
    title="HITLDecisionRecord",
    about="What a person decided about what an agent asked for. The first of two decisions is shown once the "
    "second has confirmed it; what was taken back is not shown.",
    ids="the DFID (the newest decision or question); the id of an escalation, with `:N` its Nth decision, "
    "with `:qN` its Nth question",
    view=view,
    is_numbered=True,
    fields=(
        *envelope.CORRELATION,
        Field("approval_id", TEXT, f"{_SIGNED}: `escalation_id` and `sequence` or `number`"),
        Field("time", TIME, f"{_SIGNED}: `at`"),
        Field("request.tool_name", TEXT, f"{_JUDGED}: `policy_kind`"),
        Field("request.request_hash", HASH, f"{_JUDGED}: `proposal_digest`"),
        Field("request.amount_usd", INTEGER, "nothing"),
        Field("request.destination_ref", TEXT, "nothing"),
        Field("context.orm_risk_score", UNIT, "nothing"),
        Field("context.policy_decision_id", TEXT, f"{_JUDGED}: `proposal_id`"),
        Field("context.ledger_head_ref", TEXT, "computed: the id of the entry before"),
        Field("decision.approver_id", TEXT, f"{_SIGNED}: `actor`"),
        Field(
            "decision.action",
            one_of("approve", "deny", "modify", "request_more_info"),
            f"{_SIGNED}: `action`; deny for ABORT and STOP_AGENT, request_more_info for a question, "
            "else approve",
        ),
        Field("decision.justification", TEXT, f"{_STATED} `/justification`; of a question its words"),
        Field("decision.conditions", TEXTS, f"{_STATED} `/conditions`"),
        Field("decision.modifications", OBJECT, f"{_STATED} `/params` that are not those of the proposal"),
        Field("evidence.signature", TEXT, f"{_SIGNED}: `signature` (Ed25519, hexadecimal)"),
        Field("evidence.signing_key_id", TEXT, f"{_SIGNED}: `key_id`"),
        Field("evidence.ledger_event_id", TEXT, "computed: the id of the entry"),
        Field("evidence.evidence_snapshot_hash", HASH, f"{_SIGNED}: `evidence_hash`"),
    ),
)
