"""Facts that are read once for several readers: each gets what a read of its own would have found."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.state.queries import visible_facts
from runtime.state.queries.visible_facts import LiveFacts
from tests.support import factories

PATHS = ("cash.a", "price.A", "price.AB", "price.a", "pricey.A", "market.state")
SELECTORS = st.lists(
    st.sampled_from([*PATHS, "price.", "pricey.", "cash.", "nothing.", "nothing.a", ""]), max_size=4
)


@pytest.fixture
def world() -> None:
    for path in PATHS:
        factories.write(path, path)


@pytest.mark.django_db
@pytest.mark.usefixtures("world")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=SELECTORS, other=SELECTORS)
def test_what_is_read_for_two_is_for_each_what_it_would_have_read(one: list[str], other: list[str]) -> None:
    both = visible_facts.read_live(tenant=factories.TENANT, selected=frozenset([*one, *other]))
    for selected in (one, other):
        assert both.under(selected) == visible_facts.read_live(tenant=factories.TENANT, selected=selected)


def test_nothing_is_under_nothing() -> None:
    found = LiveFacts(values={"price.A": 1}, versions={"price.A": 1}, world_version=3)
    assert found.under(()) == LiveFacts()
    assert found.under([""]) == found
