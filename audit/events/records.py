"""What a flow came to, at a checkpoint or at its end."""

from audit.events.base import Event, Id, Kind, Text


class RecordEmitted(Event):
    """A signed DecisionRecord over all entries before this one.

    `fold_version` is that of `audit.records.fold`; `signature` is over its DSSE statement.
    """

    kind = Kind.RECORD_EMITTED
    record_id: Id
    status: Text
    terminal: bool
    record_hash: str
    fold_version: str
    signature: str
    key_id: str
