"""Fixtures of the API's tests."""

from collections.abc import Callable
from datetime import datetime

import pytest

from runtime.core import clock, refusals
from runtime.registry.services import agents
from tests.api import ground
from tests.support import worlds


@pytest.fixture(autouse=True)
def _fresh_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals recorded by one test do not use up another's share of the minute."""
    monkeypatch.setattr(agents, "_shares", refusals._Shares())


_loaded = worlds.shared(ground.load_pack)


@pytest.fixture
def desk(_loaded: None, db: None) -> None:
    """The pack of `ground`, loaded and in force."""


@pytest.fixture
def trader(desk: None) -> ground.Caller:
    """A session of the agent `trader`."""
    return ground.session()


@pytest.fixture
def stranger(desk: None) -> ground.Caller:
    """A session of another agent of the same tenant."""
    return ground.session(ground.OTHER)


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Stops the one port of time at a moment; on PostgreSQL the database's clock cannot be moved."""

    def stop_at(moment: datetime) -> None:
        monkeypatch.setattr(clock, "now", lambda: moment)

    return stop_at
