"""Capacities as packs and people set them: never under what is in use."""

import pytest

from audit.models import LedgerEntry
from runtime.contracts.problem import Problem
from runtime.packs.services import packs
from runtime.resources.models import Resource
from runtime.resources.services import resources
from tests.support import resources_pack, trading_desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> trading_desk.Desk:
    return resources_pack.open_desk(monkeypatch)


def load(text: str) -> packs.Loaded | packs.PackRefused:
    with_target = text.replace("BASE_URL", "http://127.0.0.1:1").replace("BY_WHOM", "http")
    return packs.load(text=with_target, source="trial.yaml", activate=True, actor="system")


def with_capacity(units: int) -> str:
    return resources_pack.pack().replace("capacity: 100", f"capacity: {units}")


def entries() -> list[str]:
    rows = LedgerEntry.objects.filter(stream="system", kind="resource:configured").order_by("seq")
    return list(rows.values_list("kind", flat=True))


def test_a_pack_brings_its_resources(desk: trading_desk.Desk) -> None:
    row = Resource.objects.get(name="units")
    assert (row.capacity, row.reserved, row.committed, row.unit) == (100, 0, 0, "units")
    assert len(entries()) == 2
    again = load(with_capacity(100))
    assert isinstance(again, packs.Loaded)
    assert not again.changed
    assert again.warnings == ()


def test_a_pack_may_raise_a_capacity_and_lower_it_to_what_is_in_use(desk: trading_desk.Desk) -> None:
    desk.accept()
    for capacity in (200, 60):
        assert isinstance(load(with_capacity(capacity)), packs.Loaded)
        assert Resource.objects.get(name="units").capacity == capacity
    assert resources_pack.used() == (60, 0)


def test_a_pack_never_lowers_it_under_what_is_in_use(desk: trading_desk.Desk) -> None:
    desk.accept()
    refused = load(with_capacity(59))
    assert isinstance(refused, packs.PackRefused)
    assert "units has 60 units in use" in refused.problems[0]
    assert Resource.objects.get(name="units").capacity == 100


def test_a_capacity_that_a_person_set_is_left_as_it_is(desk: trading_desk.Desk) -> None:
    answer = set_capacity(300)
    assert isinstance(answer, Resource)
    loaded = load(with_capacity(200))
    assert isinstance(loaded, packs.Loaded)
    assert "was set by a person to 300" in loaded.warnings[0]
    assert Resource.objects.get(name="units").capacity == 300


def set_capacity(capacity: int, name: str = "units") -> Resource | Problem:
    return resources.set_capacity(tenant="default", name=name, capacity=capacity, actor="user:1")


def test_a_person_never_lowers_it_under_what_is_in_use(desk: trading_desk.Desk) -> None:
    desk.accept()
    for capacity in (59, -1, 2**53):
        refused = set_capacity(capacity)
        assert isinstance(refused, Problem)
        assert refused.code == "CAPACITY_IN_USE"
    assert isinstance(set_capacity(1, "nothing"), Problem)
    before = len(entries())
    assert isinstance(set_capacity(100), Resource)
    assert len(entries()) == before
    assert isinstance(set_capacity(60), Resource)
    assert len(entries()) == before + 1
