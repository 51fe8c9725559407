"""What was found in the tables that is not what the ledger recorded."""

from audit.events.base import Event, Id, Kind, Text


class RowMismatched(Event):
    """Stored bytes were about to be used and do not have the digest that was recorded: they were not used.

    `row` names table and column, `row_id` the row; `recorded_digest` is empty where no entry is about it.
    """

    kind = Kind.ROW_MISMATCHED
    row: Text
    row_id: Id
    recorded_digest: str
    found_digest: str
