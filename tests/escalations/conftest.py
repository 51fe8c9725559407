"""One agent at its desk, one person who decides, and the clock that they go by."""

from collections.abc import Callable
from datetime import datetime

import pytest
from django.contrib.auth.models import User

from escalations.models import Escalation
from runtime.core import clock
from tests.support import factories, gate_cases

SetClock = Callable[[datetime], None]


@pytest.fixture
def desk(db: None) -> factories.Desk:
    return factories.desk()


@pytest.fixture
def olivia(db: None) -> User:
    return factories.user("olivia")


@pytest.fixture
def mara(db: None) -> User:
    return factories.user("mara", "senior")


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Sets the one port of time."""
    return lambda at: monkeypatch.setattr(clock, "now", lambda: at)


@pytest.fixture
def critical(db: None) -> Escalation:
    """A proposal above its limit, of an impact that two people must decide on."""
    return factories.desk(kind=gate_cases.kind(impact="'CRITICAL'")).escalate()
