"""Fixtures of topic tests: a broker for all of a file's tests, emptied for each."""

from collections.abc import Callable, Iterator

import pytest
from pytest_django.fixtures import Settings

from dir_console.topics.intake import TopicIntake
from tests.support import topic_broker
from tests.support.topic_broker import TopicBroker


@pytest.fixture(scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicBroker]:
    with topic_broker.running(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def broker(_server: TopicBroker, settings: Settings) -> TopicBroker:
    """An empty broker, which the settings name."""
    _server.client.flushall()
    settings.DIR_TOPIC_URL = _server.url
    return _server


@pytest.fixture
def new_intake(broker: TopicBroker) -> Callable[[], TopicIntake]:
    """Makes consumers of the topics; each counts as one process."""
    return lambda: TopicIntake(broker.client)
