"""Lost races: a new transaction from the first read, three times, and then the caller hears of it."""

from collections.abc import Callable

import pytest
from django.db import IntegrityError, OperationalError, transaction

from audit import ledger
from audit.models import Payload
from runtime.core import transactions

pytestmark = pytest.mark.django_db


class Coded(Exception):
    """An error of a driver that carries a code."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


def coded(sqlstate: str) -> OperationalError:
    """Django's error around a driver's."""
    error = OperationalError("could not serialize access")
    error.__cause__ = Coded(sqlstate)
    return error


def loses(times: int, error: Exception) -> Callable[[], int]:
    """Work that loses so often and then answers how often it was asked."""
    asked = 0

    def work() -> int:
        nonlocal asked
        asked += 1
        if asked <= times:
            raise error
        return asked

    return work


LOST = [
    transactions.ConcurrentUpdateError(),
    IntegrityError("UNIQUE constraint failed"),
    coded("40001"),
    coded("40P01"),
    OperationalError("database table is locked: runtime_flow"),
]


@pytest.mark.parametrize("error", LOST, ids=str)
def test_a_lost_race_is_run_again(error: Exception) -> None:
    assert transactions.retry_on_conflict(loses(transactions.TRIES - 1, error)) == transactions.TRIES


@pytest.mark.parametrize("error", LOST, ids=str)
def test_three_lost_races_are_busy(error: Exception) -> None:
    with pytest.raises(transactions.BusyError) as busy:
        transactions.retry_on_conflict(loses(transactions.TRIES, error))
    assert busy.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("disk I/O error"),
        OperationalError("database is locked"),
        coded("57014"),
        coded("55P03"),
        ValueError("a bug"),
    ],
    ids=str,
)
def test_anything_else_is_raised_at_once(error: Exception) -> None:
    work = loses(1, error)
    with pytest.raises(type(error)):
        transactions.retry_on_conflict(work)
    assert work() == 2


def test_what_a_lost_try_wrote_is_gone() -> None:
    tries = loses(1, transactions.ConcurrentUpdateError())

    def work() -> int:
        ledger.commit_payload(tenant="default", data_class="people", body=b"{}")
        return tries()

    transactions.retry_on_conflict(work)
    assert Payload.objects.count() == 1


def test_work_runs_inside_a_transaction() -> None:
    assert transactions.retry_on_conflict(lambda: transaction.get_connection().in_atomic_block)
