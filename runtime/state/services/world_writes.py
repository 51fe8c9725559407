"""The one writer of facts: all that a transaction writes is one version of the world.

SQLite has one writer at a time, so the version is numbered at once. On PostgreSQL a counter in the
transaction would put all writers of a tenant in line: the sealer numbers what is committed, in the order in
which entries get their leaves (`number_sealed`). An entry is written after its facts are locked, so of two
writes of one fact the earlier has the lower number, and what commits later gets no number below.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.db import connection
from django.db.models import OuterRef, Subquery

from audit import canonical, events
from audit.events import Kind
from audit.live import hints
from audit.models import LedgerEntry
from runtime.contracts import api_schemas
from runtime.core import ids, transactions
from runtime.state.models import Fact, FactVersion, WorldVersion
from runtime.state.queries import world

# The stream of hints for who waits for the next version of the world. Nothing is written to it.
HINTS = "world"
_AT_ONCE = 200


@dataclass(kw_only=True)
class WorldWrite:
    """What one transaction writes; without a fact there is no version.

    `writer` is `feed:<name>`, `intent:<id>`, `agent:<id>`, `user:<pk>` or `system`.
    """

    tenant: str
    writer: str
    at: datetime

    def put(self, path: str, body: bytes, *, current: Fact | None) -> events.FactWritten:
        """Write the next version of a fact; the entry, which the caller appends once all facts are written.

        `current` is the fact's row, locked; None: there is none yet. `body` is canonical JSON. Raises
        `transactions.ConcurrentUpdateError` where another version came between.
        """
        made = self.version
        before = 0 if current is None else current.version
        row = {
            "version": before + 1,
            "value": body,
            "digest": canonical.digest(body),
            "writer": self.writer,
            "written_at": self.at if current is None else max(self.at, current.written_at),
        }
        if current is None:
            Fact.objects.create(tenant=self.tenant, path=path, **row)
        elif Fact.objects.filter(pk=current.pk, version=before).update(**row) != 1:
            raise transactions.ConcurrentUpdateError
        FactVersion.objects.create(
            tenant=self.tenant, path=path, write_id=made.write_id, world_version=made.version, **row
        )
        if current is not None and current.writer != self.writer:
            # Who waits for this fact listens to whoever wrote it last.
            hints.hint_after_commit(tenant=self.tenant, streams=[current.writer], seq=0)
        return events.FactWritten(
            path=path,
            version=before + 1,
            digest=canonical.digest(body),
            writer=self.writer,
            write_id=made.write_id,
        )

    @cached_property
    def version(self) -> WorldVersion:
        """The version of the world that this makes; its row is stored at the first fact."""
        number = world.last_version(self.tenant) + 1 if connection.vendor == "sqlite" else None
        if number is not None:
            hints.hint_after_commit(tenant=self.tenant, streams=[HINTS], seq=number)
        return WorldVersion.objects.create(
            tenant=self.tenant,
            write_id=ids.new_ulid(),
            version=number,
            writer=self.writer,
            written_at=self.at,
            toolchain=api_schemas.RUNTIME_VERSION,
        )


def number_sealed(entry_ids: Sequence[int]) -> None:
    """Number the writes whose entries have just got these leaves, in their order.

    In the sealer's transaction, which holds the tree, so one process at a time does this.
    """
    if connection.vendor == "sqlite":
        return
    written = LedgerEntry.objects.filter(pk__in=entry_ids, kind=Kind.FACT_WRITTEN).only("pk", "body")
    place = {pk: at for at, pk in enumerate(entry_ids)}
    ordered = (entry.payload.get("write_id") for entry in sorted(written, key=lambda entry: place[entry.pk]))
    waiting = list(dict.fromkeys(write_id for write_id in ordered if write_id is not None))
    last = dict[str, int]()
    for at in range(0, len(waiting), _AT_ONCE):
        part = waiting[at : at + _AT_ONCE]
        found = {row.write_id: row for row in WorldVersion.objects.filter(write_id__in=part, version=None)}
        rows = [found[write_id] for write_id in part if write_id in found]
        for row in rows:
            if row.tenant not in last:
                last[row.tenant] = world.last_version(row.tenant)
            last[row.tenant] += 1
            row.version = last[row.tenant]
        WorldVersion.objects.bulk_update(rows, ["version"])
        numbers = WorldVersion.objects.filter(write_id=OuterRef("write_id")).values("version")[:1]
        FactVersion.objects.filter(write_id__in=found).update(world_version=Subquery(numbers))
    for tenant, number in last.items():
        hints.hint_after_commit(tenant=tenant, streams=[HINTS], seq=number)
