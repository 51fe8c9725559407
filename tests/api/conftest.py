"""Fixtures of the API's tests."""

import pytest

from runtime.services import agents
from tests.api import ground


@pytest.fixture(autouse=True)
def _fresh_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals recorded by one test do not use up another's share of the minute."""
    monkeypatch.setattr(agents, "_shares", agents._Shares())


@pytest.fixture
def desk(db: None) -> None:
    """The pack of `ground`, loaded and in force."""
    ground.load_pack()


@pytest.fixture
def trader(desk: None) -> ground.Caller:
    """A session of the agent `trader`."""
    return ground.session()


@pytest.fixture
def stranger(desk: None) -> ground.Caller:
    """A session of another agent of the same tenant."""
    return ground.session(ground.OTHER)
