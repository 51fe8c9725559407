"""The stored forms of the ledger."""

from audit.models.entries import LedgerEntry, StreamHead
from audit.models.payloads import Payload

__all__ = ["LedgerEntry", "Payload", "StreamHead"]
