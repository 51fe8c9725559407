"""The rows of facts, memory and targets against the entries about them, for `verify_ledger`.

Facts, memory, artifacts and packs are compared by their digests; what may change (targets, guards, stops,
capacities) with the last entry about it.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.db.models import Count, Max, Q, Sum

from audit import actors, canonical, cells, chain
from audit.chain import BreakKind, ChainBreak
from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification.row_checks import Entry, Found, NotProved
from audit.verification.verify import UNREADABLE
from runtime.contracts.states import STANDING, ReservationState
from runtime.guards.models import Guard
from runtime.registry.models import Pack, Stop, Target, Workflow
from runtime.registry.models.tools import ToolServer, UpstreamTool
from runtime.registry.queries import recorded_targets, tool_pins
from runtime.resources.models import Reservation, Resource
from runtime.state.models import Artifact, Fact, FactVersion, MemoryItem
from runtime.verification.last_entries import LastEntryRows, Subjects

VERSIONS_AT_ONCE = 500

_SUBJECTS: Subjects = {
    Kind.TARGET_CONFIGURED: [("target", ("name",))],
    Kind.TOOL_FOUND: [("tool", ("server", "tool"))],
    Kind.TOOL_PINNED: [("tool", ("server", "tool"))],
    Kind.TOOL_QUARANTINED: [("tool", ("server", "tool"))],
    Kind.TOOL_SERVER_SWITCHED: [("MCP server", ("server",))],
    Kind.RESOURCE_CONFIGURED: [("resource", ("resource",))],
    Kind.GUARD_CONFIGURED: [("guard", ("guard_id",))],
    Kind.GUARD_SWITCHED: [("guard switch", ("guard_id",))],
    Kind.SYSTEM_STOPPED: [("stop", ())],
    Kind.SYSTEM_RESUMED: [("stop", ())],
    Kind.MEMORY_WRITTEN: [("memory", ("scope", "key", "version"))],
    Kind.MEMORY_RELEASED: [("memory end", ("scope", "key", "version"))],
    Kind.MEMORY_DISCARDED: [("memory end", ("scope", "key", "version"))],
    Kind.WORKFLOW_REGISTERED: [("workflow", ("workflow", "version"))],
    Kind.PACK_LOADED: [("pack", ("pack", "version", "digest"))],
}


class WorldRowCheck(LastEntryRows):
    """Facts, memory, artifacts, packs, resources, targets, guards and stops."""

    kinds = frozenset(
        {*_SUBJECTS, Kind.FACT_WRITTEN, Kind.FACTS_PRUNED, Kind.ARTIFACT_REGISTERED, Kind.MEMORY_READ}
    )
    kept_by = _SUBJECTS
    not_proved = (
        NotProved(
            "runtime_toolserver",
            ("checked_at", "trouble", "due_at"),
            "when a server was looked at, and why that failed: what was found is in entries",
        ),
        NotProved("runtime_memoryitem", ("current",), "which version of an item agents receive"),
        NotProved(
            "runtime_stop",
            (),
            "who stopped and resumed everything is in the entries; whether it is stopped now is compared",
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self._facts: dict[tuple[str, str], Entry] = {}
        self._versions: list[Entry] = []
        # By tenant, the last version of each fact that an entry says was deleted: read beforehand, since the
        # entry comes later.
        self._pruned: dict[str, dict[str, int]] = {}
        # One read of each version that was given, and one of each other digest under its name.
        self._reads: dict[tuple[str, tuple[str, ...], str], Entry] = {}

    def see(self, entry: Entry) -> Iterator[ChainBreak]:
        """Keep the last entry about each subject; compare versions of facts as they pass."""
        self.take(entry)
        if entry.kind == Kind.FACT_WRITTEN:
            self._versions.append(entry)
            if len(self._versions) >= VERSIONS_AT_ONCE:
                yield from self._compare_versions()

    def finish(self) -> Iterator[ChainBreak]:
        """Compare the versions that are left, and every row with the last entry about it."""
        yield from self._compare_versions()
        yield from super().finish()

    def take(self, entry: Entry) -> None:
        """Keep the last entry about each subject."""
        said = entry.payload
        if entry.kind == Kind.FACT_WRITTEN:
            key = (entry.tenant, said["path"])
            if key not in self._facts or self._facts[key].payload["version"] <= said["version"]:
                self._facts[key] = entry
        elif entry.kind == Kind.FACTS_PRUNED:
            pass  # what it says is read beforehand
        elif entry.kind == Kind.MEMORY_READ:
            if said["version"] is not None:
                item = (said["scope"], said["key"], str(said["version"]))
                self._reads.setdefault((entry.tenant, item, said["digest"]), entry)
        elif entry.kind == Kind.ARTIFACT_REGISTERED:
            self.keep("artifact", (entry.stream, said["digest"]), entry)
        else:
            super().take(entry)

    def _compare_versions(self) -> list[ChainBreak]:
        """The versions of facts that have passed, in one query with a range for each path."""
        passed, self._versions = self._versions, []
        ranges: dict[tuple[str, str], list[int]] = {}
        for entry in passed:
            ranges.setdefault((entry.tenant, entry.payload["path"]), []).append(entry.payload["version"])
        wanted = Q(pk__in=())
        for (tenant, path), versions in ranges.items():
            wanted |= Q(tenant=tenant, path=path, version__range=(min(versions), max(versions)))
        rows = FactVersion.objects.filter(wanted) if passed else FactVersion.objects.none()
        stored = {
            (tenant, path, version): cells
            for tenant, path, version, *cells in rows.values_list(
                "tenant", "path", "version", "value", "digest", "writer", "written_at"
            )
        }
        found = Found()
        for entry in passed:
            said = entry.payload
            row = stored.get((entry.tenant, said["path"], said["version"]))
            if said["version"] <= self._pruned_through(entry.tenant, said["path"]):
                if row is not None:
                    detail = f"version {said['version']} of {said['path']} is there, but was deleted"
                    found.breaks.append(entry.wrong(BreakKind.ROW_MISMATCH, detail))
                continue
            if row is None:
                found.missing(entry, f"version {said['version']} of {said['path']}")
                continue
            found.bytes(entry, "factversion.value", said["digest"], row[0])
            found.same(entry, "factversion.digest", said["digest"], row[1])
            found.same(entry, "factversion.writer", said["writer"], row[2])
            found.by_then(entry, entry, "factversion.written_at", row[3])
        return found.breaks

    def _pruned_through(self, tenant: str, path: str) -> int:
        if tenant not in self._pruned:
            through = self._pruned[tenant] = {}
            for entry in LedgerEntry.objects.filter(tenant=tenant, kind=Kind.FACTS_PRUNED).order_by("id"):
                with contextlib.suppress(*UNREADABLE):  # a finding of the walk
                    through |= {fact["path"]: int(fact["through"]) for fact in entry.payload["pruned"]}
        return self._pruned[tenant].get(path, 0)

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """What compares each table, or a few of them."""
        return {
            "deployment": self._deployment,
            "tools": self._tools,
            "world": self._world,
            "memory": self._memory,
            "packs": self._packs,
            "workflows": self._workflows,
            "resources": self._resources,
        }

    def _deployment(self, found: Found) -> None:
        targets = ((row.tenant, (row.name,), row) for row in Target.objects.all())
        for entry, row in self.rows(found, "target", targets):
            for name, told, stored in recorded_targets.configured_columns(entry.payload, row):
                found.same(entry, f"target.{name}", told, stored)
            found.by_then(entry, entry, "target.configured_at", row.configured_at)
        guards = Guard.objects.all()
        switches = self.of("guard switch")
        for entry, row in self.rows(found, "guard", ((r.tenant, (r.guard_id,), r) for r in guards)):
            found.bytes(entry, "guard.body", entry.payload["digest"], row.body)
            found.same(entry, "guard.digest", entry.payload["digest"], row.digest)
            found.same(entry, "guard.kind", entry.payload["guard"], row.kind)
            found.by_then(entry, entry, "guard.configured_at", row.configured_at)
            switch = switches.get((row.tenant, (row.guard_id,)))
            enabled = switch.payload["enabled"] if switch else True
            found.same(switch or entry, "guard.enabled", enabled, bool(row.enabled))
            found.same(switch or entry, "guard.switched_by", switch.actor if switch else "", row.switched_by)
            found.by_then(switch, entry, "guard.switched_at", row.switched_at)
            why = switch.payload["reason"] if switch else ""
            found.same(switch or entry, "guard.switch_reason", why, row.switch_reason)
        stopped = set(Stop.objects.filter(lifted_at__isnull=True).values_list("tenant", flat=True))
        for (tenant, _), entry in self.of("stop").items():
            is_stopped = entry.kind == Kind.SYSTEM_STOPPED
            found.same(entry, "everything is stopped", is_stopped, tenant in stopped)

    def _tools(self, found: Found) -> None:
        tools = ((row.tenant, (row.server, row.name), row) for row in UpstreamTool.objects.all())
        for entry, row in self.rows(found, "tool", tools):
            recorded = tool_pins.recorded_by(entry.kind, entry.payload)
            for name, told, stored in tool_pins.columns(recorded, row):
                found.same(entry, f"upstreamtool.{name}", told, stored)
            for name, digest, cell in tool_pins.bodies(recorded, row):
                if digest:
                    found.bytes(entry, f"upstreamtool.{name}", digest, cell)
                else:
                    found.same(entry, f"upstreamtool.{name}", b"", cells.bytes_of(cell))
            found.same(entry, "upstreamtool.changed_by", entry.actor, row.changed_by)
            found.by_then(entry, entry, "upstreamtool.changed_at", row.changed_at)
        switches = self.of("MCP server")
        for row in ToolServer.objects.all():
            switch = switches.pop((row.tenant, (row.name,)), None)
            if switch is None:
                if row.switched_at is not None:
                    found.without_entry(row.tenant, actors.target(row.name), f"the switch of {row.name}")
                continue
            found.same(switch, "toolserver.enabled", switch.payload["enabled"], bool(row.enabled))
            found.same(switch, "toolserver.switched_by", switch.actor, row.switched_by)
            found.same(switch, "toolserver.switch_reason", switch.payload["reason"], row.switch_reason)
            found.by_then(switch, switch, "toolserver.switched_at", row.switched_at)
        for entry in switches.values():
            found.missing(entry, f"the MCP server {entry.payload['server']}")

    def _world(self, found: Found) -> None:
        facts = dict(self._facts)
        columns = ("tenant", "path", "version", "value", "digest", "writer", "written_at")
        rows = Fact.objects.values_list(*columns)
        for tenant, path, version, value, digest, writer, at in rows.iterator(chunk_size=VERSIONS_AT_ONCE):
            entry = facts.pop((tenant, path), None)
            if entry is None:
                found.without_entry(tenant, actors.SYSTEM, f"the fact {path}")
                continue
            found.same(entry, "fact.version", entry.payload["version"], version)
            found.bytes(entry, "fact.value", entry.payload["digest"], value)
            found.same(entry, "fact.digest", entry.payload["digest"], digest)
            found.same(entry, "fact.writer", entry.payload["writer"], writer)
            found.by_then(entry, entry, "fact.written_at", at)
        for entry in facts.values():
            found.missing(entry, f"the fact {entry.payload['path']}")
        counted = FactVersion.objects.order_by().values_list("tenant", "path")
        for tenant, path, newest, count in counted.annotate(newest=Max("version"), count=Count("pk")):
            last = self._facts.get((tenant, path))
            version = last.payload["version"] if last else 0
            if (newest, count) != (version, version - self._pruned_through(tenant, path)):
                found.without_entry(tenant, last.stream if last else actors.SYSTEM, f"all versions of {path}")

    def _memory(self, found: Found) -> None:
        rows = MemoryItem.objects.values_list(
            "tenant",
            "scope",
            "key",
            "version",
            "value",
            "digest",
            "source",
            "quarantined",
            "written_at",
            "writer__agent_id",
            "released_by",
            "source_check",
            "source_place",
            "reasons",
            "expires_at",
            "discarded_by",
            "decided_at",
            "decision_reason",
            "labels",
        )
        ends, written = self.of("memory end"), dict(self.of("memory"))
        for (tenant, item, digest), entry in self._reads.items():
            source = written.get((tenant, item))
            if source is None:
                found.missing(entry, f"version {item[2]} of memory {item[0]}/{item[1]}, which was read,")
            else:
                found.same(entry, "memoryitem.digest", source.payload["digest"], digest)
        named = ((row[0], (row[1], row[2], str(row[3])), row) for row in rows)
        for entry, row in self.rows(found, "memory", named):
            found.bytes(entry, "memoryitem.value", entry.payload["digest"], row[4])
            found.same(entry, "memoryitem.digest", entry.payload["digest"], row[5])
            found.same(entry, "memoryitem.source", entry.payload["source"], row[6])
            end = ends.get((row[0], (row[1], row[2], str(row[3]))))
            held = entry.payload["quarantined"] and end is None
            found.same(end or entry, "memoryitem.quarantined", held, bool(row[7]))
            found.by_then(entry, entry, "memoryitem.written_at", row[8])
            found.same(entry, "memoryitem.writer", entry.actor, actors.agent(row[9]))
            if end is None or end.kind == Kind.MEMORY_RELEASED:
                found.same(end or entry, "memoryitem.released_by", end.actor if end else "", row[10])
            self._firewall(found, entry, end, row[11:])
        artifacts = Artifact.objects.values_list(
            "tenant", "agent__agent_id", "digest", "media_type", "size_bytes"
        )
        named_artifacts = ((row[0], (actors.agent(row[1]), row[2]), row) for row in artifacts)
        for entry, row in self.rows(found, "artifact", named_artifacts):
            found.same(entry, "artifact.media_type", entry.payload["media_type"], row[3])
            found.same(entry, "artifact.size_bytes", entry.payload["size_bytes"], row[4])

    def _firewall(self, found: Found, entry: Entry, end: Entry | None, row: tuple[Any, ...]) -> None:
        """What was found of an item, and what a person decided; older entries hold nothing of it."""
        check, place, reasons, expires_at, discarded_by, decided_at, reason, labels = row
        said = entry.payload
        found.same(entry, "memoryitem.source_check", said.get("source_check", ""), check)
        found.same(entry, "memoryitem.source_place", said.get("source_place", ""), place)
        for name, cell in (("reasons", reasons), ("labels", labels)):
            recorded = canonical.encode(said.get(name, []))
            found.same(entry, f"memoryitem.{name}", recorded, cells.bytes_of(cell))
        if "rule" in said:
            ends = None if expires_at is None else chain.time_text(expires_at)
            found.same(entry, "memoryitem.expires_at", said.get("expires_at"), ends)
        decided = end if end is not None and "digest" in end.payload else None
        why = decided.payload.get("reason", "") if decided else ""
        found.same(decided or entry, "memoryitem.decision_reason", why, reason)
        found.by_then(decided, entry, "memoryitem.decided_at", decided_at)
        by = decided.actor if decided and decided.kind == Kind.MEMORY_DISCARDED else ""
        found.same(decided or entry, "memoryitem.discarded_by", by, discarded_by)

    def _packs(self, found: Found) -> None:
        rows = Pack.objects.values_list("tenant", "name", "version", "digest", "loaded_at", "loaded_by")
        for entry, row in self.rows(found, "pack", ((row[0], row[1:4], row) for row in rows)):
            found.by_then(entry, entry, "pack.loaded_at", row[4])
            found.same(entry, "pack.loaded_by", entry.actor, row[5])

    def _workflows(self, found: Found) -> None:
        rows = ((row.tenant, (row.workflow, row.version), row) for row in Workflow.objects.all())
        for entry, row in self.rows(found, "workflow", rows):
            found.bytes(entry, "workflow.body", entry.payload["digest"], row.body)
            found.same(entry, "workflow.digest", entry.payload["digest"], row.digest)
            found.same(entry, "workflow.created_by", entry.actor, row.created_by)
            found.by_then(entry, entry, "workflow.created_at", row.created_at)

    def _resources(self, found: Found) -> None:
        sums = {
            pk: (held or 0, used or 0)
            for pk, held, used in Reservation.objects.order_by()
            .values_list("resource")
            .annotate(
                held=Sum("amount", filter=Q(state__in=STANDING)),
                used=Sum("amount", filter=Q(state=ReservationState.COMMITTED)),
            )
        }
        rows = Resource.objects.values_list(
            "tenant",
            "name",
            "pk",
            "capacity",
            "unit",
            "configured_at",
            "configured_by",
            "reserved",
            "committed",
        )
        for entry, row in self.rows(found, "resource", ((row[0], (row[1],), row) for row in rows)):
            found.same(entry, "resource.capacity", entry.payload["capacity"], row[3])
            found.same(entry, "resource.unit", entry.payload["unit"], row[4])
            found.by_then(entry, entry, "resource.configured_at", row[5])
            found.same(entry, "resource.configured_by", entry.actor, row[6])
            found.same(entry, "resource.reserved and committed", sums.get(row[2], (0, 0)), row[7:])
