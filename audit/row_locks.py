"""A row that is made by whoever needs it first, and locked by all who change it."""

from typing import Any, TypeVar

from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)


def lock_or_create(rows: QuerySet[Row], **columns: Any) -> Row:
    """Lock the only row of `rows` until the transaction ends; where there is none, create it of `columns`."""
    locked = rows.select_for_update()
    row = locked.first()
    if row is None:
        # ON CONFLICT DO NOTHING waits for a racing insert and then yields to it: no error, one row.
        rows.model._default_manager.bulk_create([rows.model(**columns)], ignore_conflicts=True)
        row = locked.get()
    return row
