"""For how long what a person decided waits before it runs, so that the decision can be taken back."""

from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import Impact

LOW_S = 5
HIGH_S = 30
IRREVERSIBLE_S = 60
COOLING_S = 60
# A window that is shorter leaves no time to wait in.
LEAST_WINDOW_S = 20
LARGEST_SHARE = 4


def length_s(kind: KindDocument, *, impact: Impact, window_s: int, most_s: int) -> int:
    """Return the length of the undo window in whole seconds; 0 for none.

    The kind's own `undo_s` counts; without it, what cannot be undone waits longest, then what has a high
    impact. What is CRITICAL cools for the kind's `cooling_s` at least. Never longer than a quarter of the
    validity window (`window_s`), nor than `most_s`.
    """
    if window_s < LEAST_WINDOW_S:
        return 0
    if kind.undo_s is not None:
        wanted_s = kind.undo_s
    elif not kind.reversible:
        wanted_s = IRREVERSIBLE_S
    else:
        wanted_s = LOW_S if impact is Impact.LOW_IMPACT else HIGH_S
    if impact is Impact.CRITICAL:
        wanted_s = max(wanted_s, COOLING_S if kind.cooling_s is None else kind.cooling_s)
    return min(wanted_s, window_s // LARGEST_SHARE, most_s)
