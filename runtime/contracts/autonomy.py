"""The rule by which an agent's level of autonomy follows from what was counted of it; in its manifest."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from runtime.contracts.document import Contract
from runtime.contracts.source_labels import Label

Points = Annotated[int, Field(ge=0, le=100)]
# A score is at most 100: at 101 a level is never reached.
Threshold = Annotated[int, Field(ge=1, le=101)]


class SignalWeight(Contract):
    """How many points each one counts, and how many all of them count at most."""

    points: Points
    most: Points


class LabelWeights(Contract):
    """How many points a result with a label counts, by label, and how many all of them count at most."""

    points: Annotated[dict[Label, Points], Field(max_length=50)] = Field(
        default_factory=lambda: {"untrusted": 1, "secret": 3}
    )
    most: Points = 20


class AutonomyRule(Contract):
    """What is counted in `window_s`, how much it counts, and the scores that lower the level.

    Points are never negative, so that more of a signal never lowers a score.
    """

    window_s: Annotated[int, Field(ge=60, le=604_800)] = 3600
    supervised_at: Threshold = 50
    read_only_at: Threshold = 80
    # Together these two stay below `supervised_at`: an agent that only errs, and mends it, is not lowered.
    rejections: SignalWeight = SignalWeight(points=1, most=20)
    variations: SignalWeight = SignalWeight(points=2, most=25)
    ungranted_kinds: SignalWeight = SignalWeight(points=10, most=40)
    deviations: SignalWeight = SignalWeight(points=15, most=60)
    open_escalations: SignalWeight = SignalWeight(points=2, most=20)
    labels: LabelWeights = Field(default_factory=LabelWeights)

    @model_validator(mode="after")
    def _levels_are_in_order(self) -> Self:
        if self.read_only_at < self.supervised_at:
            raise ValueError("read_only_at must not be below supervised_at")
        return self


DEFAULT_RULE = AutonomyRule()
