"""Fixtures of the API's tests."""

from collections.abc import Callable
from datetime import datetime

import pytest

from runtime.core import clock
from tests.support import api_client, worlds

_loaded = worlds.shared(api_client.load_pack)


@pytest.fixture
def desk(_loaded: None, db: None) -> None:
    """The pack of `ground`, loaded and in force."""


@pytest.fixture
def trader(desk: None) -> api_client.Caller:
    """A session of the agent `trader`."""
    return api_client.session()


@pytest.fixture
def stranger(desk: None) -> api_client.Caller:
    """A session of another agent of the same tenant."""
    return api_client.session(api_client.OTHER)


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Stops the one port of time at a moment; on PostgreSQL the database's clock cannot be moved."""

    def stop_at(moment: datetime) -> None:
        monkeypatch.setattr(clock, "now", lambda: moment)

    return stop_at
