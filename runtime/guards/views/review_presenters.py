"""Labels, icons and tones of guards and reviews."""

from collections.abc import Mapping

from runtime.contracts.guard import (
    EmergencyStop,
    FindingCode,
    GuardKind,
    GuardRunState,
    ReviewResult,
    ReviewState,
)
from runtime.core.views.labels import Badge

F, S = FindingCode, EmergencyStop

NEEDS_REVIEW = Badge(
    "warn", "high", "Needs review", "Flagged by a soft guard or a person. This does not block the flow."
)
REVIEW_STATES: Mapping[str, Badge] = {
    ReviewState.OPEN: Badge("warn", "clock", "Open"),
    ReviewState.REVIEWED: Badge("idle", "check", "Reviewed"),
}
RESULTS: Mapping[str, Badge] = {
    ReviewResult.CONFIRMED: Badge("danger", "check", "Confirmed"),
    ReviewResult.FALSE_ALARM: Badge("idle", "cross", "False alarm"),
}
# What a person chooses, and the key that chooses it.
ANSWERS: Mapping[ReviewResult, tuple[str, str]] = {
    ReviewResult.CONFIRMED: ("Confirmed: they do not match", "y"),
    ReviewResult.FALSE_ALARM: ("False alarm", "n"),
}
# The same for a flow that received an item of memory.
MEMORY_ANSWERS: Mapping[ReviewResult, tuple[str, str]] = {
    ReviewResult.CONFIRMED: ("Confirmed: the memory affected this flow", "y"),
    ReviewResult.FALSE_ALARM: ("False alarm: it did not", "n"),
}
# The same for a flow that a router would have led elsewhere.
ROUTE_ANSWERS: Mapping[ReviewResult, tuple[str, str]] = {
    ReviewResult.CONFIRMED: ("Confirmed: this matters to what was proposed", "y"),
    ReviewResult.FALSE_ALARM: ("False alarm: it does not", "n"),
}
RUN_STATES: Mapping[str, Badge] = {
    GuardRunState.PENDING: Badge("info", "clock", "Pending"),
    GuardRunState.CLEAR: Badge("ok", "check", "Clear"),
    GuardRunState.FLAGGED: Badge("warn", "high", "Flagged"),
    GuardRunState.FAILED: Badge("danger", "cross", "No answer"),
}
GUARD_KINDS: Mapping[str, str] = {
    GuardKind.LEXICAL: "compares words, names and amounts",
    GuardKind.WEBHOOK: "calls a target",
}
FINDINGS: Mapping[str, str] = {
    F.ACTION_REVERSED: "Opposite action",
    F.ACTION_OPPOSED: "Opposite action",
    F.ACTION_NEGATED: "Action negated",
    F.ACTION_DOUBTFUL: "Possibly a different action",
    F.OTHER_CHOICE: "Different value",
    F.OTHER_ID: "Different ID",
    F.OTHER_SYMBOL: "Possibly a different symbol",
    F.AMOUNT_DIFFERS: "Different amount",
    F.COUNT_DIFFERS: "Different number",
    F.TARGET_SAYS: "Reported by the target",
}
STOPS: Mapping[str, str] = {
    S.NOT_ASKED: "",
    S.HELD: "The intent had not been claimed by a worker, so it is not called while the agent is suspended.",
    S.UNDER_WAY: "The intent was already claimed or called before the stop: that call was not cancelled.",
    S.ENDED: "The intent of this flow had ended before the stop.",
    S.NO_INTENT: "This flow had nothing to execute.",
}
