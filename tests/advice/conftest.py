"""Fixtures of the tests of advice: the example of the documentation, and one ruleset bound to nothing."""

import pytest

from tests.support import api_client, underwriting, worlds

_loaded = worlds.shared(underwriting.load_packs)


@pytest.fixture
def desk(_loaded: None, db: None) -> None:
    """Both packs, loaded and active."""


@pytest.fixture
def agent(desk: None) -> api_client.Caller:
    """A session of the underwriter."""
    return api_client.session(underwriting.AGENT)


@pytest.fixture
def dfid(agent: api_client.Caller) -> str:
    """An open flow of the underwriter."""
    return agent.open_flow()
