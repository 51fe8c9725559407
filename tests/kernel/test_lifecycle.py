from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts.states import ENDED, OPEN_TO_PROPOSALS, FlowState
from runtime.kernel import lifecycle

STATES = st.sampled_from(list(FlowState))


def reachable(start: FlowState) -> set[FlowState]:
    seen, front = set(), [start]
    while front:
        state = front.pop()
        if state not in seen:
            seen.add(state)
            front.extend(lifecycle.MOVES[state])
    return seen


def test_every_state_has_its_row() -> None:
    assert set(lifecycle.MOVES) == set(FlowState)


def test_every_state_is_reached_from_the_first() -> None:
    assert reachable(FlowState.CREATED) == set(FlowState)


@pytest.mark.parametrize("state", list(FlowState))
def test_a_flow_can_always_end(state: FlowState) -> None:
    ends = {FlowState(value) for value in ENDED}
    assert ends & reachable(state)
    assert lifecycle.ended(state) == (state in ends)


@given(walk=st.lists(STATES, min_size=1, max_size=30))
def test_a_walk_by_the_table_never_leaves_an_end(walk: list[FlowState]) -> None:
    state = FlowState.CREATED
    for wanted in walk:
        if lifecycle.allows(state, wanted):
            assert not lifecycle.ended(state)
            state = wanted


def test_nothing_is_executed_without_an_accepting_verdict() -> None:
    into = {
        before
        for before, after in product(FlowState, FlowState)
        if lifecycle.allows(before, after) and after is FlowState.EXECUTING
    }
    assert into == {FlowState.ACCEPTED, FlowState.ESCALATED}
    into_accepted = {before for before in FlowState if lifecycle.allows(before, FlowState.ACCEPTED)}
    assert into_accepted == {FlowState.VALIDATING, FlowState.ESCALATED, FlowState.EXECUTING}


def test_a_flow_in_execution_takes_no_proposal() -> None:
    assert FlowState.EXECUTING.value not in OPEN_TO_PROPOSALS
    assert not lifecycle.allows(FlowState.EXECUTING, FlowState.ACTIVE)
