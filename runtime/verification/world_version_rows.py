"""Versions of the world against the entries of what was written, and their order against the tree.

The number of a version is the place of its write among all writes of the tenant, in the order of their
leaves: so the signed tree says which facts belong to which version.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from django.db.models import Max, Q

from audit import actors
from audit.chain import BreakKind, ChainBreak
from audit.events import Kind
from audit.models import Leaf, LedgerEntry
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found, NotProved
from runtime.state.models import FactVersion, WorldVersion

ENTRIES_AT_ONCE: Final = 500
_ROWS_AT_ONCE: Final = 2_000
# Of a version whose entry has no leaf yet, or none of its own.
_NO_LEAF: Final = -1


class WorldVersionCheck(row_checks.LastingRows):
    """Each write of facts has one version of the world, they have no gap, and the tree has their order."""

    kinds = frozenset({Kind.FACT_WRITTEN})
    not_proved: Sequence[NotProved] = (
        NotProved("runtime_worldversion", ("toolchain",), "the console's version is in no entry of a write"),
    )

    def __init__(self) -> None:
        self._waiting: list[Entry] = []
        # The last write of each stream: entries of one write stand together there.
        self._last: dict[tuple[str, str], str | None] = {}
        self._writes: Counter[str] = Counter()
        self._has_older: set[str] = set()
        self._leaves: dict[str, array[int]] = {}

    def see(self, entry: Entry) -> Iterator[ChainBreak]:
        """Keep the entry, and compare some hundred at a time."""
        self._waiting.append(entry)
        if len(self._waiting) >= ENTRIES_AT_ONCE:
            yield from self._compare()

    def finish(self) -> Iterator[ChainBreak]:
        """Compare what is left, and then all versions with one another."""
        yield from self._compare()
        yield from super().finish()

    def take(self, entry: Entry) -> None:
        """Nothing: entries are compared as they pass."""

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """The chain of versions of each tenant."""
        return {"versions of the world": self._chain}

    def _compare(self) -> list[ChainBreak]:
        passed, self._waiting = self._waiting, []
        if not passed:
            return []
        worlds = {
            row.write_id: row
            for row in WorldVersion.objects.filter(
                write_id__in={entry.payload.get("write_id") for entry in passed} - {None}
            )
        }
        begun = {row.tenant: row for row in WorldVersion.objects.filter(version=1)}
        stored, leaves, found = _versions(passed), _leaves(passed), Found()
        for entry in passed:
            said = entry.payload
            write_id = said.get("write_id")
            world = begun.get(entry.tenant) if write_id is None else worlds.get(write_id)
            row = stored.get((entry.tenant, said["path"], said["version"]))
            if world is None or world.tenant != entry.tenant:
                found.missing(entry, f"the version of the world with {said['path']} {said['version']}")
                continue
            if row is not None:  # else it was deleted, or is missing: another check says so
                found.same(entry, "factversion.write_id", world.write_id, row[0])
                found.same(entry, "factversion.world_version", world.version, row[1])
            if write_id is None:
                self._has_older.add(entry.tenant)
                continue
            found.same(entry, "worldversion.writer", said["writer"], world.writer)
            found.by_then(entry, entry, "worldversion.written_at", world.written_at)
            place = (entry.tenant, entry.stream)
            if self._last.get(place) != write_id:
                self._last[place] = write_id
                self._writes[entry.tenant] += 1
                leaf = leaves.get((entry.tenant, entry.stream, entry.seq), _NO_LEAF)
                self._keep(entry.tenant, world.version, leaf)
                if leaf != _NO_LEAF and world.version is None:
                    found.same(entry, "worldversion.version", "the next number", None)
        return found.breaks

    def _keep(self, tenant: str, version: int | None, leaf: int) -> None:
        if version is None:
            return
        leaves = self._leaves.setdefault(tenant, array("q"))
        # A version far above all others is a finding of the chain, and no reason to make room for it.
        room = min(version, self._writes[tenant] + _ROWS_AT_ONCE) + 1 - len(leaves)
        if room > 0:
            leaves.extend([_NO_LEAF] * room)
        if version < len(leaves):
            leaves[version] = leaf

    def _chain(self, found: Found) -> None:
        stored = WorldVersion.objects.order_by().values_list("tenant").annotate(last=Max("version"))
        lasts = {tenant: last or 0 for tenant, last in stored}
        for tenant in sorted(lasts.keys() | self._writes.keys()):
            rows = WorldVersion.objects.of(tenant)
            if rows.exclude(version=None).count() != lasts.get(tenant, 0):
                _wrong(found, tenant, "versions of the world have a gap")
            if rows.count() != self._writes[tenant] + (tenant in self._has_older):
                found.without_entry(tenant, actors.SYSTEM, "every version of the world")
            before = _NO_LEAF
            for version, leaf in enumerate(self._leaves.get(tenant, ())):
                if leaf == _NO_LEAF:
                    continue
                if leaf < before:
                    _wrong(
                        found, tenant, f"version {version} of the world is before one that the tree has later"
                    )
                    break
                before = leaf


def _wrong(found: Found, tenant: str, detail: str) -> None:
    found.breaks.append(ChainBreak(tenant, actors.SYSTEM, 0, BreakKind.ROW_MISMATCH, detail))


def _versions(entries: Sequence[Entry]) -> dict[tuple[str, str, int], tuple[str, int | None]]:
    """The write and the version of the world of each version of a fact that the entries name."""
    named: dict[tuple[str, str], list[int]] = {}
    for entry in entries:
        named.setdefault((entry.tenant, entry.payload["path"]), []).append(entry.payload["version"])
    wanted = Q(pk__in=())
    for (tenant, path), versions in named.items():
        wanted |= Q(tenant=tenant, path=path, version__range=(min(versions), max(versions)))
    rows = FactVersion.objects.filter(wanted)
    return {
        (tenant, path, version): (write_id, world_version)
        for tenant, path, version, write_id, world_version in rows.values_list(
            "tenant", "path", "version", "write_id", "world_version"
        )
    }


def _leaves(entries: Sequence[Entry]) -> dict[tuple[str, str, int], int]:
    """The leaf of each entry that has one."""
    streams: dict[tuple[str, str], list[int]] = {}
    for entry in entries:
        streams.setdefault((entry.tenant, entry.stream), []).append(entry.seq)
    wanted = Q(pk__in=())
    for (tenant, stream), seqs in streams.items():
        wanted |= Q(tenant=tenant, stream=stream, seq__in=seqs)
    places = {
        pk: (tenant, stream, seq)
        for pk, tenant, stream, seq in LedgerEntry.objects.filter(wanted).values_list(
            "pk", "tenant", "stream", "seq"
        )
    }
    rows = Leaf.objects.filter(entry_id__in=places).values_list("entry_id", "index")
    return {places[pk]: index for pk, index in rows}
