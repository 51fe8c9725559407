"""All that is kept of one flow, sealed or not, for what is made of it: contracts and the reasoning graph.

A view needs no proofs, so it is made of what is written now. An entry that does not match the hash chain
stops it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from audit import canonical, cells, chain
from audit.contracts.flow import Flow, NotThereError, Writes
from audit.events import Kind
from audit.models import LedgerEntry, Payload
from audit.packs import sources
from audit.packs.contents import Hidden
from audit.verification.verify import UNREADABLE

_DAMAGED: Final = "Entry {} does not match the hash chain, so nothing is made of it. Run verify_ledger."


class DamagedError(NotThereError):
    """An entry of the flow is not what was written."""


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """An entry as the stored bytes say it."""

    seq: int
    hash: bytes
    prev_hash: bytes
    said: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.said["kind"])

    @property
    def at(self) -> str:
        return str(self.said["at"])

    @property
    def actor(self) -> str:
        return str(self.said["actor"])

    @property
    def payload(self) -> Mapping[str, Any]:
        payload: Mapping[str, Any] = self.said["payload"]
        return payload


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadFlow:
    """What is kept of a flow, sealed or not."""

    tenant: str
    dfid: UUID
    entries: Sequence[ReadEntry]
    payloads: Mapping[str, Hidden]
    objects: Mapping[str, bytes]
    absent: Mapping[str, str]

    @property
    def writes(self) -> Writes:
        """Who wrote the versions of facts that the flow's contexts hold; looked up when it is asked for."""
        return _writes(self.tenant, self.entries, self.objects)


def read(*, tenant: str, dfid: UUID) -> Flow | None:
    """All that is kept of a flow now; None where no entry is about it.

    Raises DamagedError where an entry does not match the chain: nothing is shown as if it had been recorded.
    """
    rows = LedgerEntry.objects.filter(tenant=tenant, stream=str(dfid)).order_by("seq")
    try:
        entries = [entry_of(row) for row in rows]
    except UNREADABLE as error:
        raise DamagedError("An entry of the flow cannot be read. Run verify_ledger.") from error
    if not entries:
        return None
    previous, seq = chain.GENESIS_HASH, 0
    for entry in entries:
        if (entry.seq, entry.prev_hash) != (seq + 1, previous):
            raise DamagedError(_DAMAGED.format(entry.seq))
        previous, seq = entry.hash, entry.seq
    named = dict.fromkeys(name for each in entries for name in sources.list_named(each.kind, each.payload))
    found = sources.collect(tenant=tenant, dfid=dfid, wanted=list(named))
    payloads, without = _payloads(tenant, entries)
    return Flow(
        ReadFlow(
            tenant=tenant,
            dfid=dfid,
            entries=entries,
            payloads=payloads,
            objects=found.bodies,
            absent={**found.absent, **without},
        )
    )


def _writes(tenant: str, entries: Iterable[ReadEntry], objects: Mapping[str, bytes]) -> Writes:
    """Who wrote the versions of facts that the flow's contexts hold: the app that owns the rows looks."""
    wanted: set[tuple[str, int]] = set()
    for entry in entries:
        body = (
            objects.get(str(entry.payload.get("context_ref")))
            if entry.kind == Kind.CONTEXT_COMPILED
            else None
        )
        if body is not None:
            wanted |= set(canonical.decode(body)["versions"].items())
    find = import_string(settings.DIR_FACT_WRITES)
    return dict(find(tenant, wanted)) if wanted else {}


def entry_of(row: LedgerEntry) -> ReadEntry:
    """An entry that is what its hash says. Raises DamagedError where it is not."""
    body, prev_hash, held = (cells.bytes_of(cell) for cell in (row.body, row.prev_hash, row.hash))
    if body is None or prev_hash is None or held is None or chain.entry_hash(prev_hash, body) != held:
        raise DamagedError(_DAMAGED.format(row.seq))
    found = said(body)
    if found is None or (found["tenant"], found["stream"], found["seq"]) != (row.tenant, row.stream, row.seq):
        raise DamagedError(_DAMAGED.format(row.seq))
    return ReadEntry(seq=row.seq, hash=held, prev_hash=prev_hash, said=found)


def said(body: bytes) -> dict[str, Any] | None:
    """What the bytes of an entry say; None for bytes that are no entry's."""
    try:
        found = canonical.decode(body)
    except canonical.CanonicalError:
        return None
    is_entry = isinstance(found, dict) and isinstance(found.get("payload"), dict)
    return found if is_entry else None


def _payloads(tenant: str, entries: Iterable[ReadEntry]) -> tuple[dict[str, Hidden], dict[str, str]]:
    """What the commitments hide, and why others have nothing to show."""
    named = {value for entry in entries for _, value in sources.list_commitments(entry.payload)}
    rows = Payload.objects.filter(tenant=tenant, commitment__in=named)
    stored = {row.commitment: row.held for row in rows}
    shown: dict[str, Hidden] = {}
    absent: dict[str, str] = {}
    for name in named:
        salt, body = map(cells.bytes_of, stored.get(name, (None, None)))
        if stored.get(name) == (None, None):
            shown[name] = Hidden(None, None)
        elif salt is not None and body is not None and chain.commitment(salt, body) == name:
            shown[name] = Hidden(salt, body)
        else:
            absent[name] = sources.DIFFERENT if name in stored else sources.GONE
    return shown, absent
