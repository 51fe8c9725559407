"""What the owner of a database can do: change entries with the triggers out of the way."""

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction

from audit import triggers


def execute(sql: str, params: Sequence[Any] = ()) -> None:
    """Run a statement on the ledger with its triggers switched off; the test's rollback brings them back."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # As the owner of the table, which is what the product itself is: no superuser is needed.
            cursor.execute("ALTER TABLE audit_ledgerentry DISABLE TRIGGER USER")
        else:
            for name in triggers.WANTED["sqlite"]:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        cursor.execute(sql, params)
