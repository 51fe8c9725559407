"""Words, icons and tones of guards and reviews."""

from collections.abc import Mapping

from runtime.contracts.guard import (
    EmergencyStop,
    FindingCode,
    GuardKind,
    GuardRunState,
    ReviewResult,
    ReviewState,
)
from runtime.views.presenters import Badge

F, S = FindingCode, EmergencyStop

NEEDS_REVIEW = Badge("warn", "high", "Needs review", "A soft guard has flagged it. It blocks nothing.")
REVIEW_STATES: Mapping[str, Badge] = {
    ReviewState.OPEN: Badge("warn", "clock", "Open"),
    ReviewState.REVIEWED: Badge("idle", "check", "Reviewed"),
}
RESULTS: Mapping[str, Badge] = {
    ReviewResult.CONFIRMED: Badge("danger", "check", "Confirmed"),
    ReviewResult.FALSE_ALARM: Badge("idle", "cross", "False alarm"),
}
RUN_STATES: Mapping[str, Badge] = {
    GuardRunState.PENDING: Badge("info", "clock", "Pending"),
    GuardRunState.CLEAR: Badge("ok", "check", "Clear"),
    GuardRunState.FLAGGED: Badge("warn", "high", "Flagged"),
    GuardRunState.FAILED: Badge("danger", "cross", "No answer"),
}
GUARD_KINDS: Mapping[str, str] = {
    GuardKind.LEXICAL: "compares words, names and amounts",
    GuardKind.WEBHOOK: "asks a target",
}
FINDINGS: Mapping[str, str] = {
    F.ACTION_REVERSED: "The opposite action",
    F.ACTION_OPPOSED: "The opposite action",
    F.ACTION_NEGATED: "The action is denied",
    F.ACTION_DOUBTFUL: "Perhaps another action",
    F.OTHER_CHOICE: "Another value",
    F.OTHER_ID: "Another id",
    F.OTHER_SYMBOL: "Perhaps another symbol",
    F.AMOUNT_DIFFERS: "Another amount",
    F.COUNT_DIFFERS: "Another number",
    F.TARGET_SAYS: "The target says",
}
STOPS: Mapping[str, str] = {
    S.NOT_ASKED: "",
    S.HELD: "Nobody had claimed the intent, so it is not called while the agent is suspended.",
    S.UNDER_WAY: "The intent was claimed, or called, before the stop: that call was not touched.",
    S.ENDED: "The intent of this flow had ended before the stop.",
    S.NO_INTENT: "This flow had nothing to execute.",
}
