"""A paper broker per test, on a port of this folder's own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.paper import PaperBroker

PORT = int(os.environ.get("DIR_TEST_BROKER_PORT", "8260"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PaperBroker]:
    """A broker without a secret, its market open."""
    paper = PaperBroker(port=PORT, db=tmp_path / "broker.sqlite3")
    paper.start()
    yield paper
    paper.stop()
