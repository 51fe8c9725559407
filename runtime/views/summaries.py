"""One title and one line of words for each kind of ledger entry."""

from collections.abc import Callable, Mapping
from typing import Any

from audit.events import Kind

Payload = Mapping[str, Any]

TITLES: Mapping[Kind, str] = {
    Kind.FLOW_OPENED: "Flow opened",
    Kind.FLOW_MOVED: "Flow moved",
    Kind.CONTEXT_COMPILED: "Context compiled",
    Kind.STEP_REPORTED: "Step reported",
    Kind.USAGE_REPORTED: "Usage reported",
    Kind.PROPOSAL_SUBMITTED: "Proposal submitted",
    Kind.VERDICT_GIVEN: "Verdict given",
    Kind.REVIEW_FLAGGED: "Flagged for review",
    Kind.ESCALATION_OPENED: "Escalated to a person",
    Kind.ESCALATION_REVISED: "Evidence revised",
    Kind.ESCALATION_CLAIMED: "Claimed",
    Kind.ESCALATION_RELEASED: "Claim released",
    Kind.ESCALATION_REFUSED: "Decision refused",
    Kind.ESCALATION_DECIDED: "Decided",
    Kind.ESCALATION_EXPIRED: "Deadline passed",
    Kind.INFORMATION_REQUESTED: "Question to the agent",
    Kind.INFORMATION_ANSWERED: "Answer from the agent",
    Kind.INTENT_CREATED: "Intent created",
    Kind.INTENT_CANCELLED: "Intent cancelled",
    Kind.INTENT_BLOCKED: "Intent blocked",
    Kind.INTENT_HELD: "Intent held by a stop",
    Kind.INTENT_IN_DOUBT: "In doubt",
    Kind.INTENT_RESUMED: "Intent resumed",
    Kind.ATTEMPT_STARTED: "Attempt started",
    Kind.ATTEMPT_FINISHED: "Attempt finished",
    Kind.ATTEMPT_REPORTED_LATE: "Late report",
    Kind.OUTCOME_RECORDED: "Outcome recorded",
    Kind.RESOURCE_CONFIGURED: "Resource configured",
    Kind.RESOURCE_RESERVED: "Resource reserved",
    Kind.RESOURCE_COMMITTED: "Resource committed",
    Kind.RESOURCE_RELEASED: "Resource released",
    Kind.AGENT_REGISTERED: "Agent registered",
    Kind.AGENT_STATUS_CHANGED: "Agent status changed",
    Kind.AGENT_STOPPED: "Agent stopped",
    Kind.AGENT_RESUMED: "Agent resumed",
    Kind.MANIFEST_REGISTERED: "Manifest registered",
    Kind.MANIFEST_ACTIVATED: "Manifest activated",
    Kind.SESSION_OPENED: "Session opened",
    Kind.KEY_ISSUED: "Key issued",
    Kind.KEY_REVOKED: "Key revoked",
    Kind.KIND_REGISTERED: "Policy kind registered",
    Kind.KIND_ACTIVATED: "Policy kind activated",
    Kind.PACK_LOADED: "Pack loaded",
    Kind.TARGET_CONFIGURED: "Target configured",
    Kind.FACT_WRITTEN: "Fact written",
    Kind.BUDGET_SPENT: "Escalation token spent",
    Kind.SYSTEM_STOPPED: "Everything stopped",
    Kind.SYSTEM_RESUMED: "Everything resumed",
    Kind.REQUEST_REFUSED: "Request refused",
    Kind.USER_ADDED: "User added",
    Kind.USER_ROLES_CHANGED: "Roles changed",
    Kind.USER_DEACTIVATED: "User deactivated",
    Kind.PAYLOAD_ERASED: "Payload erased",
}


def title(kind: str, payload: Payload) -> str:
    """The entry's headline; a kind that this version does not know is shown as it stands."""
    match kind:
        case Kind.FLOW_MOVED:
            return f"{_word(payload, 'from_state')} → {_word(payload, 'to_state')}"
        case Kind.VERDICT_GIVEN:
            return f"Verdict: {_word(payload, 'verdict')}"
        case Kind.ESCALATION_DECIDED:
            return f"Decided: {_word(payload, 'action')}"
        case Kind.ATTEMPT_STARTED | Kind.ATTEMPT_FINISHED:
            return f"Attempt {payload.get('number', '?')} {kind.partition(':')[2]}"
        case _:
            return TITLES[Kind(kind)] if kind in TITLES else kind


def summary(kind: str, payload: Payload) -> str:
    """What the entry adds, in one line; numbers and codes stand as recorded."""
    made = _SUMMARIES.get(kind)
    return made(payload) if made else _rest(payload)


def tone(kind: str, payload: Payload) -> str:
    """A tone where the entry is good or bad news; otherwise the lane's own."""
    said = str(payload.get("verdict") or payload.get("status") or payload.get("result") or payload.get("to_state"))
    if kind in _BAD or said in ("REJECT", "FAILED", "ABORTED", "UNKNOWN"):
        return "danger"
    if said in ("ACCEPT", "SUCCEEDED", "CLOSED"):
        return "ok"
    if said in ("ESCALATE", "ESCALATED", "HELD"):
        return "warn"
    return ""


_BAD = frozenset(
    {
        Kind.INTENT_BLOCKED,
        Kind.INTENT_HELD,
        Kind.INTENT_IN_DOUBT,
        Kind.ESCALATION_REFUSED,
        Kind.ESCALATION_EXPIRED,
        Kind.REQUEST_REFUSED,
        Kind.SYSTEM_STOPPED,
        Kind.AGENT_STOPPED,
    }
)


def _word(payload: Payload, name: str) -> str:
    return str(payload.get(name) or "?")


def _reasons(payload: Payload) -> str:
    found = payload.get("reasons") or ()
    codes = [str(item.get("code")) for item in found if isinstance(item, dict)]
    return ", ".join(codes) if codes else "every check passed"


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _rest(payload: Payload) -> str:
    """Short scalar fields, for kinds without words of their own; ids and digests are in the raw entry."""
    shown = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in payload.items()
        if value not in (None, "", 0) and len(str(value)) <= 40 and isinstance(value, str | int)
    ]
    return _joined(*shown[:4])


_SUMMARIES: Mapping[str, Callable[[Payload], str]] = {
    Kind.FLOW_OPENED: lambda p: "" if not p.get("parent_dfid") else f"child of {p['parent_dfid']}",
    Kind.FLOW_MOVED: lambda p: str(p.get("reason") or ""),
    Kind.CONTEXT_COMPILED: lambda p: f"{p.get('fact_count', 0)} facts, frozen as {_word(p, 'context_ref')[:12]}",
    Kind.PROPOSAL_SUBMITTED: lambda p: f"{_word(p, 'policy_kind')} {_word(p, 'policy_version')}",
    Kind.VERDICT_GIVEN: _reasons,
    Kind.ESCALATION_OPENED: lambda p: _joined(_word(p, "reason"), _word(p, "impact"), f"revision {p.get('revision')}"),
    Kind.ESCALATION_REVISED: lambda p: _joined(f"revision {p.get('revision')}", str(p.get("why") or "")),
    Kind.ESCALATION_REFUSED: lambda p: _joined(_word(p, "action"), _word(p, "code")),
    Kind.ESCALATION_DECIDED: lambda p: f"on evidence revision {p.get('revision')}, signed by {_word(p, 'key_id')[:16]}",
    Kind.INTENT_CREATED: lambda p: "steps " + ", ".join(str(step) for step in p.get("step_ids") or ()),
    Kind.ATTEMPT_STARTED: lambda p: f"step {_word(p, 'step')}",
    Kind.ATTEMPT_FINISHED: lambda p: _joined(
        _word(p, "result"),
        f"HTTP {p['status_code']}" if p.get("status_code") else "",
        str(p.get("error_category") or ""),
        "tried again later" if p.get("next_at") else "",
    ),
    Kind.OUTCOME_RECORDED: lambda p: _joined(
        _word(p, "status"), f"{p['deviations']} deviations from what was expected" if p.get("deviations") else ""
    ),
    Kind.BUDGET_SPENT: lambda p: f"{int(p.get('tokens_left_milli') or 0) / 1000:g} left",
}
