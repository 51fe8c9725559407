"""Labels, icons and tones for every closed set: a state is never shown by colour alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from audit import canonical
from audit.verification.verify import UNREADABLE
from runtime.contracts import reasons, states
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.source_labels import LabelSource
from runtime.kernel import effects, units
from runtime.kernel.autonomy import Signal
from runtime.kernel.version_diff import Change

# The colours that the style sheet has for a badge.
Tone = Literal["accent", "danger", "idle", "info", "ok", "rose", "violet", "warn"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A word with an icon and a tone."""

    tone: Tone
    icon: str
    word: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class LimitWords:
    """The words before a value, between it and its limit, and after the limit: `Confidence 0.5; 0.7 needed`.

    `is_most`: the limit is a maximum, so that the share by which the value exceeds it says something.
    """

    joint: str
    after: str = ""
    before: str = ""
    is_most: bool = False


# Findings whose second value is not simply the most that is allowed.
LIMITS: Mapping[str, LimitWords] = {
    reasons.Reason.LOW_CONFIDENCE: LimitWords("; ", " needed", before="Confidence "),
    reasons.Reason.STALE_CONTEXT: LimitWords(", now "),
    reasons.Reason.EXPIRED: LimitWords(", valid until "),
    reasons.Reason.INSUFFICIENT_LIQUIDITY: LimitWords("; ", " available"),
    reasons.Reason.RESOURCE_CONTENTION: LimitWords("; ", " available"),
    reasons.Reason.ESCALATION_BUDGET_EXHAUSTED: LimitWords("; ", " left"),
}
MAXIMUM = LimitWords("; limit ", is_most=True)
DIFFERENT = "It differs from what was recorded."


def value_and_limit(code: str, value: str, limit: str, unit: str) -> tuple[str, str]:
    """Return the two values of a finding, as stored, in words: `4,733.82 USD`, `1,000.00 USD (373 % above)`.

    Either is empty if the finding has none.
    """
    words = LIMITS.get(code, MAXIMUM)
    shown = f"{words.before}{amount_in(value, unit)}" if value else ""
    most = amount_in(limit, unit)
    found, bound = units.number_in(value), units.number_in(limit)
    if words.is_most and found is not None and bound is not None:
        share = units.share_above(found, bound)
        most += f" ({share})" if share else ""
    return shown, most


def compared(code: str, value: str, limit: str) -> str:
    """Join the two texts of `value_and_limit`: `4,733.82 USD; limit 1,000.00 USD (373 % above)`.

    Without a limit, return the value alone.
    """
    words = LIMITS.get(code, MAXIMUM)
    return f"{value}{words.joint}{limit}{words.after}" if limit else value


IMPACTS: Mapping[str, Badge] = {
    states.Impact.LOW_IMPACT: Badge("idle", "low", "Low impact"),
    states.Impact.HIGH_IMPACT: Badge("danger", "high", "High impact"),
    states.Impact.CRITICAL: Badge("danger", "critical", "Critical", "Two different people must decide"),
}
FLOW_STATES: Mapping[str, Badge] = {
    states.FlowState.CREATED: Badge("idle", "flow", "Created"),
    states.FlowState.ACTIVE: Badge("info", "flow", "Active"),
    states.FlowState.VALIDATING: Badge("info", "shield", "Validating"),
    states.FlowState.ACCEPTED: Badge("accent", "check", "Accepted"),
    states.FlowState.EXECUTING: Badge("accent", "bolt", "Executing"),
    states.FlowState.PARTIAL_SUCCESS_DIRTY: Badge(
        "danger", "layers", "Partially executed", "Completed steps are not undone yet"
    ),
    states.FlowState.COMPENSATING: Badge("warn", "bolt", "Compensating"),
    states.FlowState.ESCALATED: Badge("warn", "refer", "Escalated"),
    states.FlowState.CLOSED: Badge("ok", "check", "Closed"),
    states.FlowState.ABORTED: Badge("danger", "cross", "Aborted"),
}
AGENT_STATUSES: Mapping[str, Badge] = {
    states.AgentStatus.ACTIVE: Badge("ok", "check", "Active"),
    states.AgentStatus.PASSIVE: Badge("warn", "clock", "Passive"),
    states.AgentStatus.LOCKED: Badge("warn", "lock", "Locked"),
    states.AgentStatus.SUSPENDED: Badge("danger", "stop", "Suspended"),
    states.AgentStatus.RETIRED: Badge("idle", "exit", "Retired"),
}
AUTONOMY_LEVELS: Mapping[str, Badge] = {
    states.AutonomyLevel.AUTONOMOUS: Badge("ok", "check", "Autonomous"),
    states.AutonomyLevel.SUPERVISED: Badge(
        "warn", "refer", "Supervised", "A person decides on all that has an effect"
    ),
    states.AutonomyLevel.READ_ONLY: Badge(
        "danger", "lock", "Read only", "Nothing that has an effect is accepted or called"
    ),
}
LABEL_SOURCES: Mapping[str, str] = {
    LabelSource.RESULT: "the result of a call",
    LabelSource.STEP: "a step that it reported",
    LabelSource.MESSAGE: "a message",
    LabelSource.PARENT: "the flow that delegated to it",
    LabelSource.MEMORY: "memory",
    LabelSource.PERSON: "a person",
}
SIGNALS: Mapping[str, str] = {
    Signal.REJECTIONS: "Rejected proposals",
    Signal.VARIATIONS: "Rejected again, varied",
    Signal.UNGRANTED_KINDS: "Kinds not granted",
    Signal.DEVIATIONS: "Deviations",
    Signal.OPEN_ESCALATIONS: "Open escalations",
    Signal.LABELS: "Labels of results",
}
LINT_SEVERITIES: Mapping[str, Badge] = {
    LintSeverity.ERROR: Badge("danger", "cross", "Error"),
    LintSeverity.WARNING: Badge("warn", "high", "Warning"),
    LintSeverity.INFO: Badge("info", "info", "Information"),
}
KIND_STATES: Mapping[str, Badge] = {
    states.KindState.DRAFT: Badge("info", "edit", "Draft"),
    states.KindState.ACTIVE: Badge("ok", "check", "Active"),
    states.KindState.SUPERSEDED: Badge("idle", "clock", "Superseded"),
    states.KindState.DISCARDED: Badge("idle", "cross", "Discarded"),
}
MANIFEST_STATES: Mapping[str, Badge] = {
    states.ManifestState.DRAFT: Badge("info", "edit", "Draft"),
    states.ManifestState.ACTIVE: Badge("ok", "check", "Active"),
    states.ManifestState.SUPERSEDED: Badge("idle", "clock", "Superseded"),
    states.ManifestState.DISCARDED: Badge("idle", "cross", "Discarded"),
}
CALIBRATION_STATES: Mapping[str, Badge] = {
    states.CalibrationState.DRAFT: Badge("info", "edit", "Draft"),
    states.CalibrationState.ACTIVE: Badge("ok", "check", "Active"),
    states.CalibrationState.SUPERSEDED: Badge("idle", "clock", "Superseded"),
    states.CalibrationState.RETIRED: Badge(
        "warn", "exit", "Retired", "Its kind or the model profile changed"
    ),
    states.CalibrationState.DISCARDED: Badge("idle", "cross", "Discarded"),
}
RESERVATIONS: Mapping[str, Badge] = {
    states.ReservationState.HELD: Badge("info", "clock", "Held"),
    states.ReservationState.PINNED: Badge("accent", "lock", "Pinned"),
    states.ReservationState.COMMITTED: Badge("ok", "check", "Used up"),
    states.ReservationState.RELEASED: Badge("idle", "exit", "Released"),
}
CHANGES: Mapping[str, Badge] = {
    Change.LOOSENED: Badge("danger", "high", "Loosened"),
    Change.GRANTED: Badge("danger", "high", "Granted", "A permission it did not have before"),
    Change.UNKNOWN: Badge("warn", "ask", "Unknown name", "Nothing has this name, so it has no effect"),
    Change.ADDED: Badge("info", "next", "Added"),
    Change.CHANGED: Badge("warn", "refer", "Changed"),
    Change.REMOVED: Badge("idle", "cross", "Removed"),
    Change.WITHDRAWN: Badge("ok", "lock", "Withdrawn", "A permission it no longer has"),
    Change.TIGHTENED: Badge("ok", "lock", "Tightened"),
}
VERDICTS: Mapping[str, Badge] = {
    states.Decision.ACCEPT: Badge("ok", "check", "Accepted"),
    states.Decision.REJECT: Badge("danger", "cross", "Rejected"),
    states.Decision.ESCALATE: Badge("warn", "refer", "Escalated"),
}
OUTCOMES: Mapping[str, Badge] = {
    states.OutcomeStatus.SUCCEEDED: Badge("ok", "check", "Succeeded"),
    states.OutcomeStatus.FAILED: Badge("danger", "cross", "Failed"),
    states.OutcomeStatus.EXPIRED: Badge("warn", "clock", "Expired"),
    states.OutcomeStatus.CANCELLED: Badge("idle", "cross", "Cancelled"),
    states.OutcomeStatus.COMPENSATED: Badge("warn", "check", "Compensated"),
}
CIRCUITS: Mapping[str, Badge] = {
    states.CircuitState.CLOSED: Badge("ok", "check", "Closed", "Calls are made"),
    states.CircuitState.OPEN: Badge("danger", "stop", "Open", "Not called for now: too many failures"),
    states.CircuitState.HALF_OPEN: Badge(
        "warn", "ask", "Half-open", "One trial call tests whether it works again"
    ),
}
TOOL_STATES: Mapping[str, Badge] = {
    states.ToolState.FOUND: Badge(
        "idle", "search", "Not pinned", "Nobody has looked at it: it is not called"
    ),
    states.ToolState.PINNED: Badge("ok", "lock", "Pinned", "Called while it is described as it was pinned"),
    states.ToolState.CHANGED: Badge(
        "danger", "stop", "Changed", "Quarantined: its server describes it otherwise"
    ),
    states.ToolState.VANISHED: Badge(
        "danger", "stop", "Vanished", "Quarantined: its server no longer lists it"
    ),
}
STEP_STATES: Mapping[str, Badge] = {
    states.StepState.WAITING: Badge("idle", "clock", "Waiting"),
    states.StepState.RUNNING: Badge("accent", "bolt", "Running"),
    states.StepState.DONE: Badge("ok", "check", "Done"),
    states.StepState.UNDOING: Badge("warn", "bolt", "Being undone"),
    states.StepState.UNDONE: Badge("idle", "prev", "Undone"),
    states.StepState.NOT_DONE: Badge("idle", "cross", "Not done"),
}
HALF_DONE = Badge("danger", "layers", "Partially executed")
MOST_DIGITS = 24
STOPPED = Badge("danger", "stop", "Stopped")


def badge(table: Mapping[str, Badge], value: str) -> Badge:
    """Return the badge of a stored value; an unknown value is shown as it is, never hidden."""
    return table.get(value) or Badge("idle", "help", value)


def meaning(code: str) -> str:
    """Return the meaning of a reason code in one sentence; empty for the id of a rule."""
    try:
        return reasons.MEANINGS[reasons.Reason(code)]
    except (ValueError, KeyError):
        return ""


def actor_words(actor: str, names: Mapping[str, str]) -> str:
    """Return an actor's display name: a username, an agent id, a feed, a guard, an auditor or the runtime."""
    kind, _, name = actor.partition(":")
    match kind:
        case "user":
            return names.get(actor, f"user {name}")
        case "agent":
            return name
        case "feed":
            return f"feed {name}"
        case "guard":
            return f"guard {name}"
        case "auditor":
            return f"auditor {name}"
        case _:
            return "Runtime"


def recorded_text(body: bytes | None) -> str:
    """Return the text behind a commitment, given as `audit.queries.list_bodies` has it."""
    if body == b"":
        return "erased"
    try:
        return DIFFERENT if body is None else str(canonical.decode(body))
    except ValueError:
        return DIFFERENT


def stored_value(cell: object) -> str:
    """Return a stored JSON value as text, or an error message if its bytes cannot be read."""
    try:
        return plain_value(canonical.decode(bytes(cell)))  # type: ignore[call-overload]
    except UNREADABLE:
        return "The stored value cannot be read. Run manage.py verify_ledger."


def plain_value(value: Any) -> str:
    """Format a JSON value on one line; text without quotes."""
    if isinstance(value, str):
        return value
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return canonical.encode(value).decode()


def visible_lines(text: str) -> str:
    """Keep line ends and escape every other invisible or direction-changing character."""
    return "\n".join(effects.visible(line) for line in text.splitlines())


def pretty(value: Any) -> str:
    """Format a JSON value indented, with invisible characters escaped."""
    return visible_lines(json.dumps(value, indent=2, ensure_ascii=False))


def number(value: Any) -> str:
    """Format an integer with separators; return anything else as it is."""
    text = str(value)
    digits = text.removeprefix("-")
    return f"{int(text):,}" if digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS else text


def amount(value: Any, unit: str) -> str:
    """Format a JSON value with the unit that its schema names; without one, or as no number, as it is."""
    found = units.number_of(value) if unit else None
    return plain_value(value) if found is None else units.write(found, unit)


def amount_in(text: str, unit: str) -> str:
    """Format a number that is stored as text, with its unit if it has one; what is no number, as it is."""
    found = units.number_in(text) if unit else None
    return number(text) if found is None else units.write(found, unit)
