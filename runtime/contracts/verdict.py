"""What the gate says: findings, and everything that follows from them without asking again."""

from enum import StrEnum
from typing import Any

from pydantic import Field

from runtime.contracts.calibration import UsedConfidence
from runtime.contracts.document import Contract, is_empty, is_false, is_none
from runtime.contracts.kind_steps import Meter, OnToolError, ResultAsked
from runtime.contracts.states import Decision, Impact


class FindingOutcome(StrEnum):
    """PASS holds; FAIL rejects; REFER asks for a person; LIFTED is a REFER that a person answered."""

    PASS = "PASS"  # noqa: S105  # a finding, not a password
    FAIL = "FAIL"
    REFER = "REFER"
    LIFTED = "LIFTED"


class Finding(Contract):
    """One answer of one check. Numbers compared are kept as text, so that no float enters the record.

    `subject` is the id of the limit, rule or condition that was asked, where a check asks several.
    """

    check: str
    outcome: FindingOutcome
    code: str = ""
    subject: str = ""
    message: str = ""
    proposed_value: str | None = None
    limit: str | None = None


class Difference(Contract):
    """A fact that the effect is expected to change."""

    fact: str
    current: Any
    proposed: Any


class FigureShown(Contract):
    """A parameter that the runtime worked out beside what was stated of it (None: nothing).

    `stated_text` and `live_text` are written as the effect sentence writes the parameter.
    """

    param: str
    stated: Any
    live: Any
    stated_text: str
    live_text: str


class Segment(Contract):
    """A piece of the effect sentence; `value` pieces were given by the agent and are shown isolated."""

    text: str
    value: bool


class StepRequest(Contract):
    """One call, rendered once: these bytes are sent at every attempt.

    `compensation` is the call that undoes it, under a key of its own; `probe` is the path that tells by the
    key whether the call has happened. A `fallback` is left out of the walk unless a route runs it. With
    `callback_s` the target may answer 202 and report the result for so many seconds; with `follow` it may
    answer 202, and is asked for the result where it says. `meter` reads from the answer what was used. Of a
    tool of an MCP server `path` is the name, and `body` the arguments.
    """

    step: str
    executor: str
    target: str
    method: str
    path: str
    body: Any
    key: str
    timeout_s: int
    compensation: "StepRequest | None" = Field(default=None, exclude_if=is_none)
    probe: str | None = Field(default=None, exclude_if=is_none)
    fallback: bool = Field(default=False, exclude_if=is_false)
    callback_s: int | None = Field(default=None, exclude_if=is_none)
    follow: ResultAsked | None = Field(default=None, exclude_if=is_none)
    meter: Meter | None = Field(default=None, exclude_if=is_none)
    # Only of a tool: what an error that it reports itself means.
    on_tool_error: OnToolError | None = Field(default=None, exclude_if=is_none)


class ResourceClaim(Contract):
    """An amount of a resource that an accepted proposal takes, in the resource's unit; never nothing."""

    resource: str
    amount: int


class VerdictDocument(Contract):
    """The whole answer of the gate; byte-identical for identical input."""

    gate_version: str
    decision: Decision
    findings: tuple[Finding, ...]
    impact: Impact
    effect: tuple[Segment, ...]
    predicted: tuple[Difference, ...]
    steps: tuple[StepRequest, ...]
    attempts_left: int
    exhausted: bool
    claims: tuple[ResourceClaim, ...] = Field(default=(), exclude_if=is_empty)
    figures: tuple[FigureShown, ...] = Field(default=(), exclude_if=is_empty)
    # Where an active calibration map was asked, whatever came of it.
    calibrated: UsedConfidence | None = Field(default=None, exclude_if=is_none)
    # From that of the proposal; none where that has none.
    salt: str | None = Field(default=None, exclude_if=is_none)

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """The findings that are not a pass, worst first."""
        worst = [f for f in self.findings if f.outcome is FindingOutcome.FAIL]
        return (*worst, *(f for f in self.findings if f.outcome is FindingOutcome.REFER))

    @property
    def effect_text(self) -> str:
        """The effect as plain text."""
        return "".join(segment.text for segment in self.effect)
