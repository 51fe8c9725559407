"""What an intent runs: the requests that were rendered at its ACCEPT, read once and passed along."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from runtime.contracts.kind_steps import ExecutorKind
from runtime.contracts.outcome import RenderedIntent
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.redaction import Redaction
from runtime.contracts.states import Direction
from runtime.contracts.verdict import StepRequest
from runtime.flows.models import Intent
from runtime.kernel import saga
from runtime.kernel.saga import Position


@dataclass(frozen=True, kw_only=True)
class CurrentCall:
    """The call that is next or under way, and what follows where its result is unknown."""

    step: StepRequest
    on_unknown: OnUnknown


@dataclass(frozen=True, kw_only=True)
class IntentPlan:
    """The steps of an intent, in order; which of them is next is in its row, and changes.

    Where the stored requests cannot be read there are no steps: nothing can be called, and nothing is retried
    forever. `is_followed` says that routes or writes of the kind may follow a result. `redact` is what is
    replaced in a receipt before anything reads it, and `labels` what the results are labelled with.
    """

    steps: tuple[StepRequest, ...] = ()
    expected: tuple[Any, ...] = ()
    on_unknown: OnUnknown = OnUnknown.PERSON
    is_followed: bool = False
    redact: tuple[Redaction, ...] = ()
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, intent: Intent) -> "IntentPlan":
        """Read the plan of an intent, once per transaction."""
        requests: object = intent.requests
        # A database can hold a text where bytes belong; what wrote it was not the runtime.
        return UNREADABLE if isinstance(requests, str) else _parse(bytes(intent.requests))

    def current(self, intent: Intent) -> CurrentCall | None:
        """The call at the intent's position and in its direction; None where nothing can be called."""
        if intent.position >= len(self.steps):
            return None
        step = self.steps[intent.position]
        call = step.compensation if intent.direction == Direction.COMPENSATE else step
        if call is None:
            return None
        # Without a path to ask by, only a person can know.
        unasked = self.on_unknown is OnUnknown.PROBE and call.probe is None
        return CurrentCall(step=call, on_unknown=OnUnknown.PERSON if unasked else self.on_unknown)

    def step_id(self, position: int) -> str:
        """The id of a step; its number where the requests cannot be read."""
        return self.steps[position].step if position < len(self.steps) else str(position)

    def step_ids(self, positions: Collection[int]) -> tuple[str, ...]:
        """The ids of some steps, in order."""
        return tuple(self.step_id(at) for at in sorted(positions))

    def target_at(self, position: int) -> str:
        """The target of a step and of what undoes it."""
        return self.steps[position].target if position < len(self.steps) else ""

    @property
    def fallbacks(self) -> frozenset[int]:
        """The places of the steps that only a route runs."""
        return frozenset(at for at, step in enumerate(self.steps) if step.fallback)

    def fallback_candidates(self, intent: Intent) -> dict[str, int]:
        """The steps that a route may run in place of the one at the intent's position, with their places."""
        places = saga.fallback_candidates(position_of(intent), fallbacks=self.fallbacks)
        return {self.step_id(at): at for at in places}

    @property
    def harmless(self) -> frozenset[int]:
        """The places of the steps that people carry out and that have no effect in the world."""
        human = ExecutorKind.HUMAN.value
        return frozenset(
            at for at, step in enumerate(self.steps) if step.executor == human and step.compensation is None
        )

    @property
    def undoable(self) -> dict[str, int]:
        """The steps that have a compensation, with their places."""
        return {step.step: at for at, step in enumerate(self.steps) if step.compensation is not None}


UNREADABLE = IntentPlan()


def position_of(intent: Intent) -> Position:
    """Where the intent has come to: the step, and whether that is being done or undone."""
    return Position(step=intent.position, direction=Direction(intent.direction))


@lru_cache(maxsize=256)
def _parse(requests: bytes) -> IntentPlan:
    try:
        rendered = RenderedIntent.from_bytes(requests)
    except ValidationError:
        return UNREADABLE
    return IntentPlan(
        steps=rendered.steps,
        expected=rendered.expected,
        on_unknown=rendered.on_unknown,
        is_followed=rendered.followed,
        redact=rendered.redact,
        labels=rendered.labels,
    )
