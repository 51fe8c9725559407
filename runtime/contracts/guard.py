"""Soft guards: what a pack says about one, what a guard answers, and the closed sets of a review.

A guard asks whether an agent's explanation fits what it proposes (DIR paper, 6.3). It decides nothing.
Confidence is a decimal text of at most four places, and basis points inside: never a float.
"""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from runtime.contracts.document import Contract, is_empty, is_none
from runtime.contracts.kind_types import KindName, TargetName
from runtime.contracts.states import Choice

WHOLE_BPS = 10_000
LEAST_STOP_BPS = 5_000
STOP_CONFIDENCE = "0.99"
DEFAULT_TIMEOUT_S = 5
MAX_MESSAGE_CHARS = 500

Confidence = Annotated[str, StringConstraints(pattern=r"^(0(\.[0-9]{1,4})?|1(\.0{1,4})?)$")]
GuardId = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
Path = Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._~/-]*$", max_length=200)]


class GuardKind(Choice):
    """`lexical` compares words, names and amounts itself; `webhook` asks a configured target."""

    LEXICAL = "lexical"
    WEBHOOK = "webhook"


class FindingCode(Choice):
    """What a guard can find. Permanent."""

    ACTION_REVERSED = "ACTION_REVERSED"
    ACTION_OPPOSED = "ACTION_OPPOSED"
    ACTION_NEGATED = "ACTION_NEGATED"
    ACTION_DOUBTFUL = "ACTION_DOUBTFUL"
    OTHER_CHOICE = "OTHER_CHOICE"
    OTHER_ID = "OTHER_ID"
    OTHER_SYMBOL = "OTHER_SYMBOL"
    AMOUNT_DIFFERS = "AMOUNT_DIFFERS"
    COUNT_DIFFERS = "COUNT_DIFFERS"
    TARGET_SAYS = "TARGET_SAYS"


class GuardRunState(Choice):
    """A run waits, and ends once: nothing found, a flag, or no answer that could be used."""

    PENDING = "PENDING"
    CLEAR = "CLEAR"
    FLAGGED = "FLAGGED"
    FAILED = "FAILED"


class ReviewOrigin(Choice):
    """What asks for a review.

    A soft guard; a person, for an item of memory that the flow received; or a router of its workflow, which
    demanded another step when the flow had already proposed.
    """

    GUARD = "GUARD"
    MEMORY = "MEMORY"
    ROUTER = "ROUTER"


class ReviewState(Choice):
    """A flag waits for a person until one has looked."""

    OPEN = "OPEN"
    REVIEWED = "REVIEWED"


class ReviewResult(Choice):
    """What the person found: the guard was right, or it was not."""

    CONFIRMED = "CONFIRMED"
    FALSE_ALARM = "FALSE_ALARM"


class EmergencyStop(Choice):
    """What an emergency stop met in the flow: nothing was asked of it, or how the intent stood."""

    NOT_ASKED = "NOT_ASKED"
    HELD = "HELD"
    UNDER_WAY = "UNDER_WAY"
    ENDED = "ENDED"
    NO_INTENT = "NO_INTENT"


class GuardDocument(Contract):
    """A guard as a pack configures it: a deployment setting, outside every kind's hash.

    Without `policy_kinds` it looks at all. A webhook's call goes to `path` under its target's address.
    """

    id: GuardId
    guard: GuardKind
    target: TargetName | None = Field(default=None, exclude_if=is_none)
    path: Path | None = Field(default=None, exclude_if=is_none)
    policy_kinds: tuple[KindName, ...] = Field(default=(), exclude_if=is_empty)
    emergency_stop: bool = False
    stop_confidence: Confidence = STOP_CONFIDENCE
    timeout_s: Annotated[int, Field(ge=1, le=20)] | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.guard is GuardKind.WEBHOOK and self.target is None:
            raise ValueError("a webhook guard needs a target")
        if self.guard is GuardKind.LEXICAL and (self.target or self.path or self.timeout_s):
            raise ValueError("a lexical guard calls nobody: it has no target, path or timeout_s")
        if bps(self.stop_confidence) < LEAST_STOP_BPS:
            raise ValueError(f"stop_confidence must be at least {text(LEAST_STOP_BPS)}")
        return self


class GuardFinding(Contract):
    """One contradiction, in the guard's words; they may quote the agent, so they are shown escaped."""

    code: FindingCode
    message: Annotated[str, StringConstraints(max_length=MAX_MESSAGE_CHARS)]
    confidence: Confidence


class GuardResult(Contract):
    """What a run found, as it is stored; no finding where nothing contradicts."""

    findings: tuple[GuardFinding, ...]
    confidence: Confidence


class TargetAnswer(Contract):
    """The whole of what a webhook may answer."""

    flag: bool
    confidence: Confidence
    message: Annotated[str, StringConstraints(max_length=MAX_MESSAGE_CHARS)]


def bps(confidence: str) -> int:
    """A confidence in basis points: `"0.97"` is 9700."""
    whole, _, places = confidence.partition(".")
    return int(whole) * WHOLE_BPS + int(places.ljust(4, "0"))


def text(basis_points: int) -> str:
    """Basis points as a decimal text without idle zeros: 9700 is `"0.97"`."""
    whole, places = divmod(basis_points, WHOLE_BPS)
    return f"{whole}.{places:04}".rstrip("0").rstrip(".")
