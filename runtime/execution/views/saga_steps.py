"""The steps of an intent with several, as pages show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from audit import actors
from runtime.contracts.states import Direction, Purpose
from runtime.core.views import labels
from runtime.core.views.labels import Badge
from runtime.flows.queries.saga_progress import StepShown


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step; `by` is empty if the runtime recorded it."""

    step: str
    target: str
    badge: Badge
    is_current: bool
    has_undo: bool
    at: datetime | None
    by: str


def of_intent(steps: Sequence[StepShown], *, names: Mapping[str, str]) -> list[StepRow]:
    """Return the steps, as they are or as evidence shows them; `names` are those of people, by actor."""
    return [
        StepRow(
            step=step.step,
            target=step.target,
            badge=labels.badge(labels.STEP_STATES, step.state),
            is_current=step.is_current,
            has_undo=step.has_undo,
            at=step.recorded_at,
            by=labels.actor_words(step.recorded_by, names) if actors.is_user(step.recorded_by) else "",
        )
        for step in steps
    ]


def aim(*, direction: str, purpose: str) -> str:
    """Return the purpose of an attempt, if it did not execute its step; "" also where neither is known."""
    undoing = direction == Direction.COMPENSATE
    if purpose == Purpose.PROBE:
        return "checks whether it was undone" if undoing else "checks whether it was done"
    return "undoes it" if undoing else ""
