"""Sealing beside writers and other sealers, with real threads and commits: no entry is missed or doubled."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

from django.db import connection, transaction

from audit import ledger
from audit.events import SystemStopped
from audit.models import Checkpoint, Leaf, LedgerEntry, Tree, UnsealedEntry
from audit.sealing import proofs, sealer
from audit.verification.tree_check import TreeCheck
from runtime.core import clock, transactions
from runtime.maintenance.services import sealing
from tests.support import racing

WRITERS, SEALERS, ROUNDS = 4, 3, 15


def append(stream: str) -> None:
    ledger.append_to(
        tenant="default",
        stream=stream,
        actor="system",
        at=clock.now(),
        events=[SystemStopped(reason="one"), SystemStopped(reason="two")],
    )


def append_and_commit(stream: str) -> None:
    transactions.retry_on_conflict(partial(append, stream))


def is_whole() -> bool:
    """Every entry has one leaf, streams keep their order, and checkpoints fit."""
    assert list(TreeCheck("default").run()) == []
    assert not UnsealedEntry.objects.exists()
    places = dict(Leaf.objects.values_list("entry_id", "index"))
    rows = LedgerEntry.objects.order_by("stream", "seq").values_list("stream", "id")
    in_order = sorted(((stream, places[pk]) for stream, pk in rows))
    return [(stream, places[pk]) for stream, pk in rows] == in_order and len(places) == len(rows)


def test_writers_and_sealers_beside_each_other_leave_one_whole_tree(real_db: str) -> None:
    def work(number: int) -> int:
        sealed = 0
        for turn in range(ROUNDS):
            if number < WRITERS:
                append_and_commit(f"writer {number} {turn % 3}")
            else:
                sealed += sealing.seal_now()
        return sealed

    sealed = sum(racing.race(WRITERS + SEALERS, work)) + sealing.seal_now()
    assert sealed == LedgerEntry.objects.count() == WRITERS * ROUNDS * 2 + 1
    assert is_whole()


@contextmanager
def held_open(stream: str) -> Iterator[None]:
    """Another connection has written to the stream, and commits at the end."""
    written, may_commit = threading.Event(), threading.Event()

    def write() -> None:
        try:
            with transaction.atomic():
                append(stream)
                written.set()
                assert may_commit.wait(timeout=60)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        writing = pool.submit(write)
        assert written.wait(timeout=60)
        try:
            yield
        finally:
            may_commit.set()
        writing.result()


def test_an_entry_that_is_committed_late_is_not_missed(real_db: str) -> None:
    """Its number is lower than those that were sealed meanwhile."""
    if connection.vendor == "sqlite":
        # One writer at a time: whoever writes first commits first.
        with held_open("late"):
            pass
        append_and_commit("early")
        assert sealing.seal_now() == 5
        assert is_whole()
        return
    with held_open("late"):
        append_and_commit("early")
        assert sealing.seal_now() == 3
    assert sealing.seal_now() == 2
    late, early = (
        set(LedgerEntry.objects.filter(stream=name).values_list("id", flat=True))
        for name in ("late", "early")
    )
    assert max(late) < min(early)
    assert is_whole()


def test_a_sealer_that_dies_before_its_commit_leaves_everything_to_the_next(real_db: str) -> None:
    append_and_commit("drill")
    with transaction.atomic():
        assert sealer.seal(tenant="default", now=clock.now).leaves == 3
        transaction.set_rollback(True)
    assert not Leaf.objects.exists()
    assert not Tree.objects.exists()
    assert UnsealedEntry.objects.count() == 2
    assert sealing.seal_now() == 3
    assert is_whole()


def test_an_outage_of_the_sealer_is_caught_up_with_in_one_checkpoint(real_db: str) -> None:
    sealing.seal_now()
    for number in range(30):
        append_and_commit(f"flow {number}")
    assert sealing.seal_now() == 60
    newest = proofs.latest()
    assert newest is not None
    assert newest.checkpoint.size == 61
    assert Checkpoint.objects.count() == 3
    assert is_whole()
    assert not sealer.is_due(newest.checkpoint.time + timedelta(seconds=1))
