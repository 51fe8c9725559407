"""A map from stated to observed confidence, as a version that admins activate."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from runtime.contracts.document import Contract, RuleDocument
from runtime.contracts.kind_types import KindName, Slug
from runtime.contracts.states import Impact

WHOLE_CONFIDENCE = 1_000_000
# Below this many pairs nothing is said: a number over a handful of pairs would be read as one over many.
LEAST_PAIRS = 30

_Millionths = Annotated[int, Field(ge=0, le=WHOLE_CONFIDENCE)]


class ConfidenceUse(StrEnum):
    """Which confidence the gate compares with the threshold: the stated one, or the smaller of it and the
    one that the active calibration map makes of it."""

    STATED = "stated"
    CALIBRATED = "calibrated"


def is_stated(value: object) -> bool:
    """For `Field(exclude_if=...)`: a manifest that never heard of maps is written as before."""
    return value is ConfidenceUse.STATED


@dataclass(frozen=True, slots=True)
class Knot:
    """From `stated` on, up to the next knot, the share that went well is `good`; both in millionths."""

    stated: _Millionths
    good: _Millionths


class CalibrationDocument(RuleDocument):
    """A map for one agent, policy kind and impact, with what it was made from.

    It counts only for the kind of `kind_digest` and for a manifest with this `model_profile`: another version
    of either is another author, of whom the pairs say nothing. Times are Unix milliseconds.
    """

    agent_id: str
    version: Annotated[int, Field(ge=1)]
    policy_kind: KindName
    impact: Impact
    kind_digest: str
    model_profile: Slug | None
    pairs: Annotated[int, Field(ge=LEAST_PAIRS)]
    good: Annotated[int, Field(ge=0)]
    # When the first and the last of its proposals came.
    first_ms: int
    last_ms: int
    map: Annotated[tuple[Knot, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _never_falls(self) -> Self:
        for knot, following in zip(self.map, self.map[1:], strict=False):
            if knot.stated >= following.stated or knot.good >= following.good:
                raise ValueError("a map rises from knot to knot")
        return self


class UsedConfidence(Contract):
    """What the gate compared, in millionths: `used` is the smaller of what was stated and what it maps to.

    `calibration` is the number of the map, and `pairs` how many it was made from.
    """

    stated: int
    mapped: int
    used: int
    calibration: int
    calibration_digest: str
    pairs: int
