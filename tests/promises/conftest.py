"""One console for each test, with a target that counts; people who decide."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from runtime.core import refusals
from runtime.registry.services import agents
from tests.adapters import targets
from tests.promises import console
from tests.promises.console import Console, Person
from tests.properties.lifecycle_ground import Broker


@pytest.fixture(autouse=True)
def _fresh_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals recorded by one test do not use up another's share of the minute."""
    monkeypatch.setattr(agents, "_shares", refusals._Shares())


@pytest.fixture
def broker(settings: Settings) -> Broker:
    """How the target behaves, and what it has done."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    return Broker()


@pytest.fixture
def target(broker: Broker) -> Iterator[targets.StandIn]:
    """The running target."""
    with targets.stand_in(broker) as running:
        yield running


@pytest.fixture
def desk(db: None, broker: Broker, target: targets.StandIn) -> Console:
    """A console in the test's own transaction."""
    return console.opened(broker, target)


@pytest.fixture
def racing_desk(real_db: str, broker: Broker, target: targets.StandIn) -> Console:
    """A console with real commits, for real threads."""
    return console.opened(broker, target)


@pytest.fixture
def olivia(db: None) -> Person:
    """An operator."""
    return console.person()
