"""The walk of an intent: in order forward, newest first backwards, and never past what took effect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts.states import Direction, StepState
from runtime.kernel import saga
from runtime.kernel.saga import End, Position, Progress

F, C = Direction.FORWARD, Direction.COMPENSATE
S = StepState


def at(step: int, direction: Direction = F) -> Position:
    return Position(step=step, direction=direction)


def progress(done: str = "", undone: str = "") -> Progress:
    return Progress(done=frozenset(map(int, done)), undone=frozenset(map(int, undone)))


@pytest.mark.parametrize(
    ("here", "known", "following"),
    [
        (at(0), progress("0"), at(1)),
        (at(2), progress("012"), End.COMPLETED),
        (at(1, C), progress("01", "1"), at(0, C)),
        (at(0, C), progress("01", "01"), End.CONVERGED),
        (at(2, C), progress("02", "2"), at(0, C)),
    ],
)
def test_what_follows_a_finished_call(here: Position, known: Progress, following: Position | End) -> None:
    assert saga.after(here, steps=3, progress=known) == following


def test_a_step_to_fall_back_to_is_passed_over() -> None:
    after = saga.after(at(0), steps=4, progress=progress("0"), fallbacks={1, 3})
    assert after == at(2)
    assert saga.after(at(1), steps=4, progress=progress("1"), fallbacks={1, 3}) == at(2)
    assert saga.after(at(2), steps=4, progress=progress("02"), fallbacks={1, 3}) == End.COMPLETED


def test_what_stands_right_after_a_step_may_stand_in_for_it() -> None:
    assert saga.fallback_candidates(at(0), fallbacks={1, 2, 4}) == (1, 2)
    assert saga.fallback_candidates(at(1), fallbacks={1, 2, 4}) == (2,)
    assert saga.fallback_candidates(at(3), fallbacks={1, 2, 4}) == (4,)
    assert saga.fallback_candidates(at(3), fallbacks={1, 2}) == ()
    assert saga.fallback_candidates(at(0, C), fallbacks={1, 2}) == ()


def test_a_walk_turns_back_to_the_newest_effect_that_stands() -> None:
    assert saga.turn_back(progress("01")) == at(1, C)
    assert saga.turn_back(progress("01", "1")) == at(0, C)
    assert saga.turn_back(progress()) is None


@given(steps=st.integers(1, 10), data=st.data())
def test_a_walk_that_fails_anywhere_undoes_all_that_was_done_once(steps: int, data: st.DataObject) -> None:
    failing = data.draw(st.integers(0, steps - 1))
    done: frozenset[int] = frozenset()
    here: Position | End | None = at(0)
    while here != at(failing):
        assert isinstance(here, Position)
        done |= {here.step}
        here = saga.after(here, steps=steps, progress=Progress(done=done))
    undone: list[int] = []
    here = saga.turn_back(Progress(done=done))
    while isinstance(here, Position):
        undone.append(here.step)
        here = saga.after(here, steps=steps, progress=Progress(done=done, undone=frozenset(undone)))
    assert undone == sorted(done, reverse=True)
    assert here is (End.CONVERGED if done else None)


@pytest.mark.parametrize(
    ("here", "known", "is_live", "states"),
    [
        (at(1), progress("0"), True, (S.DONE, S.RUNNING, S.WAITING)),
        (at(2), progress("012"), False, (S.DONE, S.DONE, S.DONE)),
        (at(0), progress(), False, (S.NOT_DONE, S.NOT_DONE, S.NOT_DONE)),
        (at(1, C), progress("01"), True, (S.DONE, S.UNDOING, S.NOT_DONE)),
        (at(0, C), progress("01", "1"), True, (S.UNDOING, S.UNDONE, S.NOT_DONE)),
        (at(0, C), progress("01", "1"), False, (S.DONE, S.UNDONE, S.NOT_DONE)),
    ],
)
def test_the_states_that_people_see(
    here: Position, known: Progress, is_live: bool, states: tuple[StepState, ...]
) -> None:
    assert saga.states(here, steps=3, progress=known, is_live=is_live) == states


def test_a_step_that_stands_in_for_another_waits_for_nothing() -> None:
    known = progress("0")
    assert saga.states(at(1), steps=4, progress=known, fallbacks={2}, is_live=True) == (
        *(S.DONE, S.RUNNING),
        *(S.NOT_DONE, S.WAITING),
    )
    assert saga.states(at(2), steps=4, progress=known, fallbacks={2}, is_live=True) == (
        *(S.DONE, S.NOT_DONE),
        *(S.RUNNING, S.WAITING),
    )


def test_a_walk_that_turns_back_names_the_first_step_that_was_not_done() -> None:
    assert saga.first_not_done(at(1), progress("0")) == 1
    assert saga.first_not_done(at(1), progress("01")) == 2
