"""The walk of an intent through its steps: forward in order, backwards over what was done (DIR paper, 7.3).

Steps are counted from 0. What is done and undone is known from rows, not from the position: a step may be
left out on the way, and only what took effect is undone, the newest first.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from itertools import count, takewhile

from runtime.contracts.states import Direction, StepState


@dataclass(frozen=True, kw_only=True)
class Position:
    """The call that is next or under way."""

    step: int
    direction: Direction


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Which steps have taken effect, and which of those were undone again.

    `harmless` are steps that have no effect in the world when they are done: the checks of people.
    """

    done: frozenset[int] = frozenset()
    undone: frozenset[int] = frozenset()
    harmless: frozenset[int] = frozenset()

    @property
    def standing(self) -> frozenset[int]:
        """The steps whose effect is in the world."""
        return self.done - self.undone - self.harmless


class End(StrEnum):
    """How the walk ends: every step done, or every effect undone."""

    COMPLETED = "COMPLETED"
    CONVERGED = "CONVERGED"


def after(
    position: Position, *, steps: int, progress: Progress, fallbacks: Collection[int] = ()
) -> Position | End:
    """What follows the call at `position`, which `progress` counts already. `fallbacks` are passed over."""
    if position.direction is Direction.COMPENSATE:
        return turn_back(progress) or End.CONVERGED
    following = next((step for step in range(position.step + 1, steps) if step not in fallbacks), None)
    if following is None:
        return End.COMPLETED
    return Position(step=following, direction=Direction.FORWARD)


def fallback_candidates(position: Position, *, fallbacks: Collection[int]) -> tuple[int, ...]:
    """The fallback steps that may run in place of the one at `position`: those that stand right after it.

    Only ever further on, so that falling back comes to an end, and never while the walk turns back.
    """
    if position.direction is Direction.COMPENSATE:
        return ()
    return tuple(takewhile(lambda step: step in fallbacks, count(position.step + 1)))


def turn_back(progress: Progress) -> Position | None:
    """The first step to undo; None where nothing stands, so that the walk may simply end."""
    if not progress.standing:
        return None
    return Position(step=max(progress.standing), direction=Direction.COMPENSATE)


def first_not_done(position: Position, progress: Progress) -> int:
    """The step at `position`, or the one behind it where it is done by now."""
    return position.step + (position.step in progress.done)


def states(
    position: Position,
    *,
    steps: int,
    progress: Progress,
    is_live: bool,
    fallbacks: Collection[int] = (),
) -> tuple[StepState, ...]:
    """The state of each step, in order, for people. `is_live` says that the walk has not ended."""
    goes_on = is_live and position.direction is Direction.FORWARD
    waiting = frozenset(range(position.step + 1, steps) if goes_on else ()) - frozenset(fallbacks)
    here = position.step if is_live else None

    def state(step: int) -> StepState:
        if step in progress.undone:
            return StepState.UNDONE
        if step in progress.done:
            undoing = step == here and position.direction is Direction.COMPENSATE
            return StepState.UNDOING if undoing else StepState.DONE
        if step == here:
            return StepState.RUNNING
        return StepState.WAITING if step in waiting else StepState.NOT_DONE

    return tuple(state(step) for step in range(steps))
