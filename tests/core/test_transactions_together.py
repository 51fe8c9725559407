"""Several works in one commit: all of them stand, or nothing has happened."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from runtime.core import transactions
from runtime.core.transactions import run_together
from runtime.registry.models import Bundle
from tests.support.logged import levels_of

pytestmark = pytest.mark.usefixtures("real_db")


def store(letter: str) -> str:
    """A row in a transaction of its own; its letter."""

    def write() -> str:
        Bundle.objects.create(digest=letter * 64, body=b"{}", created_at="2026-01-01T00:00:00Z")
        return letter

    return transactions.retry_on_conflict(write)


def stored() -> list[str]:
    return sorted(digest[0] for digest in Bundle.objects.values_list("digest", flat=True))


def may_stand(result: str) -> bool:
    return result != "f"


def test_all_stand_after_one_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    connection.ensure_connection()
    commits: list[None] = []
    database: Any = connection
    commit = database._commit

    def counted() -> None:
        commits.append(None)
        commit()

    monkeypatch.setattr(connection, "_commit", counted)
    told: list[str] = []

    def telling(letter: str) -> str:
        transaction.on_commit(partial(told.append, letter))
        assert not told
        return store(letter)

    assert run_together([partial(telling, letter) for letter in "abc"], may_stand=may_stand) == [
        "a",
        "b",
        "c",
    ]
    assert (stored(), told, len(commits)) == (["a", "b", "c"], ["a", "b", "c"], 1)


def fail_in_a_statement() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT nothing FROM nowhere")
    return "e"


def spoil() -> str:
    """Leave a transaction that only can be rolled back."""
    transaction.set_rollback(True)
    return "e"


def crash() -> str:
    raise RuntimeError("a bug")


@pytest.mark.parametrize("bad", [crash, fail_in_a_statement, spoil, partial(store, "f")])
@pytest.mark.parametrize("place", range(3))
def test_nothing_has_happened_where_one_fails(bad: Callable[[], str], place: int) -> None:
    works: list[Callable[[], str]] = [partial(store, letter) for letter in "ab"]
    works.insert(place, bad)
    assert run_together(works, may_stand=may_stand) is None
    assert stored() == []


def test_nothing_has_happened_where_the_commit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    connection.ensure_connection()

    def full() -> None:
        raise DatabaseError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(connection, "_commit", full)
        assert run_together([partial(store, letter) for letter in "ab"], may_stand=may_stand) is None
    assert stored() == []


def test_what_stands_is_told_even_if_a_hint_after_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    def hinting() -> str:
        transaction.on_commit(crash)
        return store("a")

    assert run_together([hinting, partial(store, "b")], may_stand=may_stand) == ["a", "b"]
    assert stored() == ["a", "b"]
    assert levels_of(caplog, transactions) == ["ERROR"]


def test_a_lost_race_of_one_is_run_again_among_the_others() -> None:
    lost: list[None] = []

    def losing() -> str:
        if not lost:
            lost.append(None)
            raise transactions.ConcurrentUpdateError
        return "c"

    def work() -> str:
        return transactions.retry_on_conflict(losing)

    assert run_together([partial(store, "a"), work, partial(store, "b")], may_stand=may_stand) == [
        "a",
        "c",
        "b",
    ]
    assert stored() == ["a", "b"]
