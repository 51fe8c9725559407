"""The steps of an intent with several, as pages show them: from rows, or from stored evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from audit import actors
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
    """Return the current steps."""
    return [
        StepRow(
            step=step.step,
            target=step.target,
            badge=labels.badge(labels.STEP_STATES, step.state),
            is_current=step.is_current,
            has_undo=step.has_undo,
            at=step.recorded_at,
            by=_person(step.recorded_by, names),
        )
        for step in steps
    ]


def of_evidence(operational: Mapping[str, Any]) -> list[StepRow]:
    """Return the steps at the time of escalation; none in the evidence of a single step."""
    return [
        StepRow(
            step=item["step"],
            target=item["target"],
            badge=labels.badge(labels.STEP_STATES, item["state"]),
            is_current=item["is_current"],
            has_undo=item["has_undo"],
            at=parse_datetime(item["recorded_at"]) if item["recorded_at"] else None,
            by=_person(item["recorded_by"], {}),
        )
        for item in operational.get("steps", ())
    ]


def aim(attempt: Mapping[str, Any]) -> str:
    """Return the purpose of an attempt, if it did not execute its step."""
    undoing = attempt.get("direction") == "COMPENSATE"
    if attempt.get("purpose") == "PROBE":
        return "checks whether it was undone" if undoing else "checks whether it was done"
    return "undoes it" if undoing else ""


def _person(actor: str, names: Mapping[str, str]) -> str:
    return labels.actor_words(actor, names) if actors.is_user(actor) else ""
