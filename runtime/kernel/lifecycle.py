"""The lifecycle of a flow as one table of allowed moves (DIR paper, 4.3 and 9.1)."""

from runtime.contracts.states import FlowState

S = FlowState

MOVES: dict[FlowState, tuple[FlowState, ...]] = {
    S.CREATED: (S.ACTIVE, S.VALIDATING, S.ESCALATED, S.CLOSED, S.ABORTED),
    S.ACTIVE: (S.VALIDATING, S.ESCALATED, S.CLOSED, S.ABORTED),
    S.VALIDATING: (S.ACTIVE, S.ACCEPTED, S.ESCALATED, S.ABORTED),
    S.ACCEPTED: (S.EXECUTING, S.ESCALATED, S.CLOSED, S.ABORTED),
    S.EXECUTING: (S.CLOSED, S.ACCEPTED, S.PARTIAL_SUCCESS_DIRTY, S.ESCALATED, S.ABORTED),
    S.PARTIAL_SUCCESS_DIRTY: (S.COMPENSATING, S.ESCALATED),
    S.COMPENSATING: (S.ESCALATED, S.ABORTED),
    S.ESCALATED: (
        S.ACTIVE,
        S.ACCEPTED,
        S.EXECUTING,
        S.PARTIAL_SUCCESS_DIRTY,
        S.COMPENSATING,
        S.CLOSED,
        S.ABORTED,
    ),
    S.CLOSED: (),
    S.ABORTED: (),
}


def allows(before: FlowState, after: FlowState) -> bool:
    """Whether a flow may move from `before` to `after`."""
    return after in MOVES[before]


def ended(state: FlowState) -> bool:
    """Whether nothing can follow `state`."""
    return not MOVES[state]
