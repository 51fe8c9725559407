"""A paper broker per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.paper import PaperBroker, ThreadBroker
from tests.faults.processes import Process
from tests.support.console_shell import ConsoleShell


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ThreadBroker]:
    """A broker in a thread, without a secret, its market open."""
    paper = ThreadBroker(db=tmp_path / "broker.sqlite3")
    yield paper
    paper.stop()


@pytest.fixture
def broker_process(tmp_path: Path) -> Iterator[PaperBroker]:
    """The same in a process that can be killed."""
    paper = PaperBroker(db=tmp_path / "broker.sqlite3")
    paper.start()
    yield paper
    paper.stop()


@pytest.fixture
def shell(world: Process) -> Iterator[ConsoleShell]:
    """A shell in the environment of a running console, which the module calls its `world`."""
    opened = ConsoleShell(world.env)
    yield opened
    opened.close()
