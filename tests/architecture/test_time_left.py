"""What a run that has to end in time leaves out, asked of pytest itself."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.architecture import tree
from tests.support import time_left

HOOKS = """
from tests.support import time_left

def pytest_collection_modifyitems(items):
    time_left.take_turns(items)

def pytest_runtest_setup(item):
    time_left.leave_out_late()

def pytest_terminal_summary(terminalreporter):
    time_left.count_left_out(terminalreporter)
"""


@pytest.fixture
def three_files(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(HOOKS)
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text("def test_first(): pass\ndef test_second(): pass\n")
    return tmp_path


def _run(folder: Path, **variables: str) -> str:
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:django", "-p", "no:cacheprovider", str(folder)]
    known = {name: value for name, value in os.environ.items() if name not in {time_left.END, time_left.TURN}}
    environment = {**known, "PYTHONPATH": str(tree.ROOT), **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def _order(output: str) -> str:
    lines = [line for line in output.splitlines() if "::" in line]
    return "".join(line.split("::")[0].removeprefix("test_").removesuffix(".py") for line in lines)


def test_without_a_limit_everything_is_asked_in_the_usual_order(three_files: Path) -> None:
    output = _run(three_files)
    assert "6 passed" in output
    assert _order(output) == "aabbcc"
    assert "left out" not in output


def test_before_its_end_a_run_leaves_nothing_out(three_files: Path) -> None:
    output = _run(three_files, DIR_TESTS_END=str(time.time() + 3_600))
    assert "6 passed" in output
    assert "left out" not in output


def test_after_its_end_no_test_begins_and_the_summary_says_how_many(three_files: Path) -> None:
    output = _run(three_files, DIR_TESTS_END=str(time.time() - 1))
    assert "6 skipped" in output
    assert "6 tests were left out, since the time of this run was over" in output


@pytest.mark.parametrize(("turn", "order"), [("0", "aabbcc"), ("1", "bbccaa"), ("302", "ccaabb")])
def test_each_turn_begins_with_another_file(three_files: Path, turn: str, order: str) -> None:
    assert _order(_run(three_files, DIR_TESTS_TURN=turn)) == order
