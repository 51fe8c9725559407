"""Ledger entries and the heads of the streams that have no row of their own."""

from typing import Any

from django.db import models
from django.db.models.functions import Length
from django.db.models.lookups import Exact

from audit import canonical
from audit.models.expressions import CurrentTransactionId
from audit.quick_rows import QuickRow

_HASH_LENGTH = 32


class LedgerEntry(QuickRow):
    """One entry; append only, by triggers (`audit.verification.triggers`). No foreign keys: it outlives all.

    `body` is the canonical JSON of every other column and the payload (see `audit.chain.body_bytes`).
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.TextField()
    stream = models.TextField()
    seq = models.BigIntegerField()
    kind = models.TextField()
    at = models.DateTimeField()
    actor = models.TextField()
    body = models.BinaryField()
    prev_hash = models.BinaryField()
    hash = models.BinaryField()
    xact = models.BigIntegerField(null=True, editable=False, db_default=CurrentTransactionId())

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "stream", "seq"), name="entry_once_per_place"),
            models.CheckConstraint(condition=models.Q(seq__gte=1), name="entry_seq_from_one"),
            models.CheckConstraint(condition=Exact(Length("hash"), _HASH_LENGTH), name="entry_hash_length"),
            models.CheckConstraint(
                condition=Exact(Length("prev_hash"), _HASH_LENGTH), name="entry_prev_hash_length"
            ),
            models.CheckConstraint(
                condition=~models.Q(tenant="")
                & ~models.Q(stream="")
                & ~models.Q(kind="")
                & ~models.Q(actor=""),
                name="entry_names_not_empty",
            ),
        )
        indexes = (
            models.Index(fields=("tenant", "kind", "id"), name="entry_recent_of_kind"),
            # Without it SQLite sorts every entry of the tenant to find the newest.
            models.Index(fields=("tenant", "id"), name="entry_recent"),
            # A rare kind in a long stream, as of a feed: else the whole stream is read for it.
            models.Index(fields=("tenant", "stream", "kind", "seq"), name="entry_kind_in_stream"),
            # What auditors search by: who acted, when, and a hash of which they have the beginning.
            models.Index(fields=("tenant", "actor", "id"), name="entry_by_actor"),
            models.Index(fields=("tenant", "at", "id"), name="entry_by_time"),
            models.Index(fields=("tenant", "hash"), name="entry_by_hash"),
        )

    def __str__(self) -> str:
        return f"{self.stream} #{self.seq} {self.kind}"

    @property
    def payload(self) -> dict[str, Any]:
        """The payload as it was recorded, read from the stored bytes."""
        payload: dict[str, Any] = canonical.decode(bytes(self.body))["payload"]
        return payload


class StreamHead(models.Model):
    """The end of a stream that is not a flow: `agent:<id>`, `feed:<name>`, `user:<pk>`, `system`."""

    id = models.BigAutoField(primary_key=True)
    tenant = models.TextField()
    stream = models.TextField()
    seq = models.BigIntegerField(default=0)
    hash = models.BinaryField(default=bytes(_HASH_LENGTH))
    at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "stream"), name="head_once_per_stream"),
            models.CheckConstraint(condition=models.Q(seq__gte=0), name="head_seq_not_negative"),
            models.CheckConstraint(condition=Exact(Length("hash"), _HASH_LENGTH), name="head_hash_length"),
            models.CheckConstraint(
                condition=models.Q(seq=0, at__isnull=True) | models.Q(seq__gt=0, at__isnull=False),
                name="head_time_once_written",
            ),
        )

    def __str__(self) -> str:
        return f"{self.stream} at {self.seq}"
