"""Words, icons and tones of memory: where an item stands, its source, and why it waits."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from audit import canonical
from audit.verification.verify import UNREADABLE
from runtime.contracts.memory import QuarantineReason, SourceCheck, SourcePlace
from runtime.core.views import labels
from runtime.core.views.labels import Badge
from runtime.kernel import memory_checks
from runtime.kernel.memory_checks import Pattern
from runtime.state.models import MemoryItem

WAITS: Final = Badge("warn", "clock", "In quarantine", "No context includes it")
ACTIVE: Final = Badge("ok", "check", "Active", "Contexts of agents with access to its scope include it")
EXPIRED: Final = Badge("idle", "clock", "Expired", "Its time is over: no context includes it")
DISCARDED: Final = Badge("idle", "cross", "Discarded", "No context ever includes it")
INACTIVE: Final = Badge("idle", "layers", "Not active", "A later version has replaced it")

C, R = SourceCheck, QuarantineReason
CHECKS: Mapping[str, Badge] = {
    C.OWN_CLAIM: Badge("idle", "thought", "Own claim", "The agent's conclusion: there is nothing to compare"),
    C.MATCHED: Badge("ok", "check", "Matched", "The recorded bytes of the source hold this value"),
    C.MISMATCHED: Badge("danger", "cross", "Not found there", "The source does not hold this value"),
    C.NOT_PROVED: Badge("danger", "high", "Not provable", "The source is erased or differs from the ledger"),
    C.NOT_FOUND: Badge("danger", "help", "No such source", "The agent has no such flow or fact"),
    C.OUTSIDE: Badge("warn", "next", "Outside", "The runtime has no bytes of it"),
    C.UNLABELLED: Badge("warn", "help", "Unlabelled", "The source has none of the known labels"),
    "": Badge("idle", "clock", "Not checked", "Written before sources were compared"),
}
PLACES: Mapping[str, str] = {
    SourcePlace.FACT: "in the version of the fact",
    SourcePlace.TRIGGER: "in what the flow was opened with",
    SourcePlace.RECEIPT: "in a receipt of the flow",
    SourcePlace.STEP_OUTPUT: "in the output of a step that the agent reported",
}
REASONS: Mapping[str, str] = {
    R.OUTSIDE_SOURCE: "It comes from outside the runtime.",
    R.UNLABELLED_SOURCE: "Its source has none of the known labels.",
    R.SOURCE_NOT_FOUND: "The agent has no such flow, or may see no such version of a fact.",
    R.SOURCE_NOT_PROVED: "The source is erased, or differs from what the ledger recorded.",
    R.SOURCE_MISMATCH: "The value is not in the recorded bytes of the source that it names.",
    R.INSTRUCTIONS: "Its text addresses the model that reads it",
    R.HIDDEN_CHARACTERS: "It has characters that a reader does not see.",
    R.MASS_WRITE: "The agent wrote more within a minute than it may",
    R.CONTRADICTION: "It contradicts an active value with a stronger source, version",
}
PATTERNS: Mapping[str, str] = {
    Pattern.IGNORES_RULES: "tells it to ignore rules",
    Pattern.NEW_INSTRUCTIONS: "gives new instructions",
    Pattern.NEW_ROLE: "gives it another role",
    Pattern.SYSTEM_PROMPT: "speaks of its system prompt",
    Pattern.HIDES_FROM_PEOPLE: "tells it to hide something from people",
    Pattern.ORDERS_AN_ACTION: "orders it to act",
    Pattern.ASKS_FOR_SECRETS: "asks for secrets",
    Pattern.WITHOUT_APPROVAL: "asks to act without approval",
    Pattern.ALWAYS_APPROVE: "asks to approve always",
    Pattern.FROM_NOW_ON: "sets what holds from now on",
    Pattern.CHAT_MARKUP: "imitates the markup of a chat",
}


def state_of(row: MemoryItem, *, at: datetime) -> Badge:
    """Where an item stands at `at`."""
    if row.quarantined:
        return WAITS
    if row.discarded_by:
        return DISCARDED
    if row.expires_at is not None and row.expires_at <= at:
        return EXPIRED
    return ACTIVE if row.current else INACTIVE


def reasons_of(row: MemoryItem) -> list[dict[str, str]]:
    """Why an item was put in quarantine: the code and a sentence of each reason."""
    try:
        stored = [memory_checks.read_finding(text) for text in canonical.decode(bytes(row.reasons))]
    except UNREADABLE:  # a finding of verify_ledger
        return []
    return [{"code": code, "words": _sentence(code, detail)} for code, detail in stored]


def _sentence(code: str, detail: str) -> str:
    words = REASONS.get(code, code)
    match code:
        case R.INSTRUCTIONS:
            return f"{words}: it {PATTERNS.get(detail, detail)}."
        case R.MASS_WRITE:
            count, _, at_most = detail.partition(">")
            return f"{words}: {count}, of {at_most} that are allowed."
        case R.CONTRADICTION:
            return f"{words} {detail}."
        case _:
            return words


def shown(row: MemoryItem, *, at: datetime) -> dict[str, Any]:
    """An item as a row of a list."""
    return {
        "row": row,
        "state": state_of(row, at=at),
        "value": labels.visible_lines(labels.stored_value(row.value)),
        "agent_id": row.writer.agent_id,
        "check": labels.badge(CHECKS, row.source_check),
        "place": PLACES.get(row.source_place, ""),
        "reasons": reasons_of(row),
    }
