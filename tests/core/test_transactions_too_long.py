"""PostgreSQL ends a statement that takes too long and a transaction that stands still; both are counted."""

import select

import pytest
from django.db import DatabaseError, InterfaceError, connection

from runtime.core import transactions

pytestmark = [
    pytest.mark.usefixtures("real_db"),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no such timeouts"),
]


def _too_long() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 50")
        cursor.execute("SELECT pg_sleep(5)")


def _standing_still() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 50")
        # Until the server hangs up, and no longer.
        assert select.select([connection.connection.fileno()], [], [], 10)[0]
        cursor.execute("SELECT 1")


@pytest.mark.parametrize("work", [_too_long, _standing_still])
def test_a_transaction_that_takes_too_long_is_ended_and_counted(work: object) -> None:
    before = transactions.ended_count()
    with pytest.raises((DatabaseError, InterfaceError)):
        transactions.retry_on_conflict(work)  # type: ignore[arg-type]
    assert transactions.ended_count() == before + 1
    connection.close()
    assert transactions.retry_on_conflict(lambda: 1) == 1
