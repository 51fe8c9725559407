"""A paper broker per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.paper import PaperBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PaperBroker]:
    """A broker without a secret, its market open."""
    paper = PaperBroker(db=tmp_path / "broker.sqlite3")
    paper.start()
    yield paper
    paper.stop()
