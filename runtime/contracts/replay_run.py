"""A run that replays every flow of a period: its states, and what it keeps of a flow."""

from typing import Final

from runtime.contracts.states import Choice


class ReplayRunState(Choice):
    """DONE: every flow was replayed. CANCELLED: a person ended it before that."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    CANCELLED = "CANCELLED"


class FindingResult(Choice):
    """Why a flow is listed: it differs, or its replay ended with an error of the console."""

    DIFFERENT = "DIFFERENT"
    FAILED = "FAILED"


# Of a run with more findings these first ones are kept; all are counted.
MOST_FINDINGS: Final = 1000
LONGEST_VALUE: Final = 500
