"""One console for each test, with a target that counts; people who decide."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from tests.properties.lifecycle_ground import Broker
from tests.support import end_to_end, misbehaving_targets
from tests.support.end_to_end import Console, Person


@pytest.fixture
def broker(settings: Settings) -> Broker:
    """How the target behaves, and what it has done."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    return Broker()


@pytest.fixture
def target(broker: Broker) -> Iterator[misbehaving_targets.StandIn]:
    """The running target."""
    with misbehaving_targets.stand_in(broker) as running:
        yield running


@pytest.fixture
def desk(db: None, broker: Broker, target: misbehaving_targets.StandIn) -> Console:
    """A console in the test's own transaction."""
    return end_to_end.opened(broker, target)


@pytest.fixture
def racing_desk(real_db: str, broker: Broker, target: misbehaving_targets.StandIn) -> Console:
    """A console with real commits, for real threads."""
    return end_to_end.opened(broker, target)


@pytest.fixture
def olivia(db: None) -> Person:
    """An operator."""
    return end_to_end.person()
