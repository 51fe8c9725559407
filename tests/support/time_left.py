"""A run that has to end in time, on a slow machine too: what has not begun by then is left out, and counted.

`.ci/run` sets both variables, `make test` and `make verify` neither: they ask everything.
"""

import os
import time

import pytest

END = "DIR_TESTS_END"  # Unix time in seconds, after which no test begins
TURN = "DIR_TESTS_TURN"  # any number, another for each commit: where in the order of files a run begins

LEFT_OUT = "no time left in this run"


def leave_out_late() -> None:
    """Skip a test that would begin too late; called before its fixtures are made."""
    end = os.environ.get(END)
    if end and time.time() > float(end):
        pytest.skip(LEFT_OUT)


def take_turns(items: list[pytest.Item]) -> None:
    """Begin with another file at each commit, so that it is not always the same files that are left out."""
    turn = os.environ.get(TURN)
    files = list(dict.fromkeys(item.path for item in items))
    if not turn or not files:
        return
    first = int(turn) % len(files)
    order = {file: (place - first) % len(files) for place, file in enumerate(files)}
    items.sort(key=lambda item: order[item.path])


def count_left_out(reporter: pytest.TerminalReporter) -> None:
    """Say how many were left out, since a summary counts them among all that were skipped."""
    left_out = [report for report in reporter.stats.get("skipped", []) if LEFT_OUT in str(report.longrepr)]
    if left_out:
        reporter.write_line(f"{len(left_out)} tests were left out, since the time of this run was over")
