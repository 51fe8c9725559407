"""Versions of the world beside many writers: no gap, none too early, and each reads as it was served."""

import threading
from collections import defaultdict
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit import ledger
from audit.verification import findings
from runtime.core import clock, transactions
from runtime.maintenance.services import sealing
from runtime.state.models import FactVersion, WorldVersion
from runtime.state.queries import sight, world
from runtime.state.queries.world import World
from runtime.state.services import facts
from runtime.state.services.world_writes import WorldWrite
from tests.support import factories, racing

WRITERS, WRITES = 4, 6
PATHS = ("price.A", "price.B", "price.C")
SIGHT = sight.of_all(factories.TENANT)


def served(version: int) -> dict[str, Any]:
    """The facts at a version, with the versions that they then had."""
    seen = world.read(sight=SIGHT, version=version)
    assert isinstance(seen, World)
    return {path: (row.version, bytes(row.value)) for path, row in seen.facts.items()}


def write_together(paths: list[str], value: object, *, writer: str = "feed:x") -> None:
    """One transaction that writes several facts, locked in the order given."""

    def work() -> None:
        write = WorldWrite(tenant=factories.TENANT, writer=writer, at=clock.now())
        entries = []
        for path in paths:
            current = facts.lock(tenant=factories.TENANT, path=path)
            entries.append(write.put(path, str(value).encode(), current=current))
        ledger.append_to(tenant=factories.TENANT, stream=writer, actor=writer, at=clock.now(), events=entries)

    racing.patiently(lambda: transactions.retry_on_conflict(work))


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    plans=st.lists(
        st.lists(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3), min_size=1, max_size=WRITES),
        min_size=2,
        max_size=WRITERS,
    )
)
def test_the_world_at_a_version_is_what_was_served_then(real_db: str, plans: list[list[list[str]]]) -> None:
    seen = defaultdict[int, list[Any]](list)
    begun = world.last_version(factories.TENANT)

    def work(number: int) -> None:
        if number == len(plans):
            while working:
                racing.patiently(sealing.seal_now)
                version = world.last_version(factories.TENANT)
                seen[version].append(served(version))
            return
        for at, paths in enumerate(plans[number]):
            write_together(paths, f"{number}{at}", writer=f"feed:{number}")
        working.discard(number)

    working = set(range(len(plans)))
    racing.race(len(plans) + 1, work)
    while sealing.seal_now():
        pass
    writes = sum(len(plan) for plan in plans)
    numbers = list(WorldVersion.objects.order_by("version").values_list("version", flat=True))
    assert numbers == list(range(1, begun + writes + 1))
    assert not FactVersion.objects.filter(world_version=None).exists()
    for version, answers in seen.items():
        assert all(answer == served(version) for answer in answers)
    assert findings.verify_all().findings == []


def test_what_commits_later_is_never_numbered_before(real_db: str) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    written, may_commit = threading.Event(), threading.Event()

    def work(number: int) -> None:
        if number == 0:
            with transaction.atomic():
                at = clock.now()
                slow = WorldWrite(tenant=factories.TENANT, writer="feed:slow", at=at)
                entry = slow.put("price.SLOW", b"1", current=None)
                ledger.append_to(
                    tenant=factories.TENANT, stream="feed:slow", actor="feed:slow", at=at, events=[entry]
                )
                written.set()
                assert may_commit.wait(timeout=30)
            return
        assert written.wait(timeout=30)
        try:
            # It began later, has higher ids, and commits first.
            for value in (1, 2):
                factories.write("price.FAST", value)
                sealing.seal_now()
            seen.append((world.last_version(factories.TENANT), served(2)))
        finally:
            may_commit.set()

    seen: list[Any] = []
    racing.race(2, work)
    sealing.seal_now()
    rows = WorldVersion.objects.order_by("version").values_list("version", "writer")
    assert list(rows) == [(1, "feed:prices"), (2, "feed:prices"), (3, "feed:slow")]
    assert seen == [(2, served(2))]
    assert sorted(served(3)) == ["price.FAST", "price.SLOW"]


def test_a_fact_that_two_writes_share_has_the_order_of_its_versions(real_db: str) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    factories.write("price.A", 0)
    has_first, may_go_on = threading.Event(), threading.Event()

    def work(number: int) -> None:
        if number == 0:
            with transaction.atomic():
                at = clock.now()
                early = WorldWrite(tenant=factories.TENANT, writer="feed:early", at=at)
                entries = [early.put("price.OWN", b"1", current=None)]
                has_first.set()
                assert may_go_on.wait(timeout=30)
                held = facts.lock(tenant=factories.TENANT, path="price.A")
                entries.append(early.put("price.A", b"1", current=held))
                ledger.append_to(
                    tenant=factories.TENANT, stream="feed:early", actor="feed:early", at=at, events=entries
                )
            return
        assert has_first.wait(timeout=30)
        factories.write("price.A", 2)
        may_go_on.set()

    racing.race(2, work)
    sealing.seal_now()
    shared = FactVersion.objects.filter(path="price.A").order_by("version")
    assert list(shared.values_list("version", "world_version")) == [(1, 1), (2, 2), (3, 3)]
    assert served(2)["price.A"][0] == 2
