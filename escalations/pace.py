"""When a person is asked once more before a decision counts: pure rules against rubber-stamping.

They hold for forms of the page, which say when it was shown. Stopping, and asking the agent, is never slowed.
"""

from collections.abc import Collection, Sequence
from statistics import median_low

from escalations.contracts import Action
from runtime.contracts.states import Choice

# The reasons that a new one is compared with: the person's own last ones.
LAST_REASONS = 5
# With fewer measured decisions nothing is known of how long a kind is usually read.
LEAST_MEASURED = 10
LAST_MEASURED = 50
# What people do in less time than this says nothing of how long reading takes.
LEAST_USUAL_MS = 3000
PAUSE_AFTER = 10
LEAST_ANSWER_CHARS = 10


class CheckQuestion(Choice):
    """Why the person is asked what they checked."""

    SAME_REASON = "SAME_REASON"
    READ_FAST = "READ_FAST"

    @property
    def words(self) -> str:
        """The question as the page asks it, and as the statement records it."""
        if self is CheckQuestion.SAME_REASON:
            return "You gave this reason before. What did you check this time?"
        return "This was decided faster than it is usually read. What did you check?"


def question_for(
    action: Action,
    justification: str,
    *,
    last_reasons: Collection[str],
    shown_ms: int,
    usual_ms: int | None,
) -> CheckQuestion | None:
    """Return the question that this decision costs, or None. Times are in milliseconds."""
    if action.spec.stops or action.spec.asks:
        return None
    if _plain(justification) in {_plain(reason) for reason in last_reasons}:
        return CheckQuestion.SAME_REASON
    if usual_ms is not None and shown_ms < usual_ms:
        return CheckQuestion.READ_FAST
    return None


def usual_reading_ms(kind_s: int | None, measured_ms: Sequence[int]) -> int | None:
    """Return how long a kind takes to read: its own time, else half of the median of the last decisions."""
    if kind_s is not None:
        return kind_s * 1000
    if len(measured_ms) < LEAST_MEASURED:
        return None
    half_ms = median_low(measured_ms) // 2
    return half_ms if half_ms >= LEAST_USUAL_MS else None


def answer_missing(answer: str, justification: str) -> str | None:
    """Return what is missing in the answer, or None: it says more than the reason does."""
    if len(answer.strip()) < LEAST_ANSWER_CHARS:
        return f"Answer in at least {LEAST_ANSWER_CHARS} characters."
    return "The answer repeats the reason. Say what you checked." if _same(answer, justification) else None


def is_pause_due(last_actions: Sequence[str]) -> bool:
    """Return whether the last decisions since a pause, the newest first, were overrides only."""
    newest = last_actions[:PAUSE_AFTER]
    return len(newest) == PAUSE_AFTER and set(newest) == {Action.OVERRIDE.value}


def _same(one: str, other: str) -> bool:
    return _plain(one) == _plain(other)


def _plain(text: str) -> str:
    """The text without what does not tell two reasons apart: case, white space, a full stop at the end."""
    return " ".join(text.casefold().split()).rstrip(".!")
