"""The rows of the registry and the world against the entries about them, for `verify_ledger`.

Versions (manifests, kinds, facts, memory, artifacts, packs) are compared by their digests; what may change
(statuses, owners, what is active, targets, capacities, buckets, stops) with the last entry about it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.db.models import Count, Max, Q, Sum

from audit import canonical, row_checks
from audit.chain import Break
from audit.events import Kind
from audit.row_checks import Entry, Found, NotProved
from runtime.contracts.states import STANDING, AgentStatus, ReservationState
from runtime.models import (
    Agent,
    Artifact,
    Fact,
    FactVersion,
    Guard,
    Key,
    Manifest,
    MemoryItem,
    Pack,
    PolicyKind,
    Reservation,
    Resource,
    Stop,
    Target,
)
from runtime.queries import recorded

VERSIONS_AT_ONCE = 500
Name = tuple[str, ...]

# Which fields name the subject of an entry, and under which word its last entry is kept.
_SUBJECTS: Mapping[Kind, Sequence[tuple[str, tuple[str, ...]]]] = {
    Kind.AGENT_REGISTERED: [("agent", ("agent_id",)), ("profile", ("agent_id",)), ("owner", ("agent_id",))],
    Kind.AGENT_EDITED: [("profile", ("agent_id",)), ("owner", ("agent_id",))],
    Kind.AGENT_OWNER_CHANGED: [("owner", ("agent_id",))],
    Kind.AGENT_STATUS_CHANGED: [("status", ("agent_id",))],
    Kind.AGENT_STOPPED: [("stopped", ("agent_id",))],
    Kind.AGENT_RESUMED: [("stopped", ("agent_id",))],
    Kind.MANIFEST_REGISTERED: [("manifest", ("agent_id", "version"))],
    Kind.MANIFEST_ACTIVATED: [("manifest end", ("agent_id", "version")), ("manifest now", ("agent_id",))],
    Kind.MANIFEST_DISCARDED: [("manifest end", ("agent_id", "version"))],
    Kind.KIND_REGISTERED: [("kind", ("policy_kind", "version"))],
    Kind.KIND_ACTIVATED: [("kind end", ("policy_kind", "version")), ("kind now", ("policy_kind",))],
    Kind.KIND_DISCARDED: [("kind end", ("policy_kind", "version"))],
    Kind.KEY_ISSUED: [("key", ("key_id",))],
    Kind.KEY_REVOKED: [("key end", ("key_id",))],
    Kind.TARGET_CONFIGURED: [("target", ("name",))],
    Kind.RESOURCE_CONFIGURED: [("resource", ("resource",))],
    Kind.GUARD_CONFIGURED: [("guard", ("guard_id",))],
    Kind.GUARD_SWITCHED: [("guard switch", ("guard_id",))],
    Kind.SYSTEM_STOPPED: [("stop", ())],
    Kind.SYSTEM_RESUMED: [("stop", ())],
    Kind.MEMORY_WRITTEN: [("memory", ("scope", "key", "version"))],
    Kind.MEMORY_RELEASED: [("memory end", ("scope", "key", "version"))],
    Kind.MEMORY_DISCARDED: [("memory end", ("scope", "key", "version"))],
    Kind.PACK_LOADED: [("pack", ("pack", "version", "digest"))],
    Kind.BUDGET_SPENT: [("bucket", ("agent_id",))],
    Kind.BUDGET_REFILLED: [("bucket", ("agent_id",))],
}
_KINDS = frozenset({*_SUBJECTS, Kind.FACT_WRITTEN, Kind.ARTIFACT_REGISTERED})


class RegistryRowCheck(row_checks.LastingRows):
    """Agents, manifests, kinds, keys, targets, facts, memory, resources, guards and stops."""

    kinds = _KINDS
    not_proved = (
        NotProved("runtime_agent", ("mission", "review_on"), "as they were said at the registration"),
        NotProved("runtime_agent", ("locked_from", "locked_from_reason"), "what it was before it was locked"),
        NotProved("runtime_agent", ("bucket_at",), "a later one gives no tokens that time would not have"),
        NotProved("runtime_agent", ("last_seen_at", "watched_from"), "written with every call"),
        NotProved("runtime_key", ("last_used_at",), "written with every call"),
        NotProved(
            "runtime_memoryitem", ("expires_at", "current"), "which version of an item agents are given"
        ),
        NotProved(
            "runtime_stop",
            (),
            "who stopped and resumed everything is in the entries; whether it is stopped now is compared",
        ),
    )

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, Name], Entry] = {}
        self._facts: dict[tuple[str, str], Entry] = {}
        self._versions: list[Entry] = []

    def see(self, entry: Entry) -> Iterator[Break]:
        """Keep the last entry about each subject; compare versions of facts as they pass."""
        self.take(entry)
        if entry.kind == Kind.FACT_WRITTEN:
            self._versions.append(entry)
            if len(self._versions) >= VERSIONS_AT_ONCE:
                yield from self._compare_versions()

    def finish(self) -> Iterator[Break]:
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
        elif entry.kind == Kind.ARTIFACT_REGISTERED:
            self._last[entry.tenant, "artifact", (entry.stream, said["digest"])] = entry
        else:
            for word, fields in _SUBJECTS[Kind(entry.kind)]:
                place = (entry.tenant, word, tuple(str(said[name]) for name in fields))
                held = self._last.get(place)
                if held is None or _is_later(entry, held):
                    self._last[place] = entry

    def _of(self, word: str) -> dict[tuple[str, Name], Entry]:
        return {(tenant, name): entry for (tenant, held, name), entry in self._last.items() if held == word}

    def _compare_versions(self) -> list[Break]:
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
            if row is None:
                found.missing(entry, f"version {said['version']} of {said['path']}")
                continue
            found.bytes(entry, "factversion.value", said["digest"], row[0])
            found.same(entry, "factversion.digest", said["digest"], row[1])
            found.same(entry, "factversion.writer", said["writer"], row[2])
            found.then(entry, entry, "factversion.written_at", row[3])
        return found.breaks

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """What compares each table, or a few of them."""
        return {
            "agents": self._agents,
            "manifests": self._manifests,
            "kinds": self._kinds,
            "keys": self._keys,
            "deployment": self._deployment,
            "world": self._world,
            "memory": self._memory,
            "packs": self._packs,
            "resources": self._resources,
        }

    def _rows(
        self, found: Found, word: str, rows: Iterable[tuple[str, Name, Any]], *, stream: str = "system"
    ) -> Iterator[tuple[Entry, Any]]:
        """Each row with the entry about it; a row or an entry alone is a finding."""
        entries = self._of(word)
        for tenant, name, row in rows:
            entry = entries.pop((tenant, name), None)
            if entry is None:
                found.without_entry(tenant, stream, f"the {word} {' '.join(name)}")
            else:
                yield entry, row
        for (_, name), entry in entries.items():
            found.missing(entry, f"the {word} {' '.join(name)}")

    def _agents(self, found: Found) -> None:
        columns = ("tenant", "agent_id", "role", "owner", "mission", "review_on", "status", "status_reason")
        further = ("stopped_at", "stopped_by", "stop_reason", "created_at")
        rows = Agent.objects.values(*columns, *further, "escalation_millitokens", "bucket_at")
        named = ((row["tenant"], (row["agent_id"],), row) for row in rows)
        owners, profiles, statuses, stops, buckets = (
            self._of(word) for word in ("owner", "profile", "status", "stopped", "bucket")
        )
        for entry, row in self._rows(found, "agent", named):
            key = (row["tenant"], (row["agent_id"],))
            found.same(entry, "agent.role", entry.payload["role"], row["role"])
            owner = owners[key]
            told = owner.payload
            found.same(owner, "agent.owner", told.get("owner_after", told.get("owner")), row["owner"])
            _compare_profile(found, profiles[key], row)
            status = statuses.get(key)
            said = status.payload["to_status"] if status else AgentStatus.ACTIVE.value
            found.same(status or entry, "agent.status", said, row["status"])
            if status is not None:
                found.same(status, "agent.status_reason", status.payload["reason"], row["status_reason"])
            stop = stops.get(key)
            is_stopped = stop is not None and stop.kind == Kind.AGENT_STOPPED
            stopped = stop if is_stopped else None
            found.then(stopped, stop or entry, "agent.stopped_at", row["stopped_at"])
            found.same(stop or entry, "agent.stopped_by", stopped.actor if stopped else "", row["stopped_by"])
            why = stopped.payload["reason"] if stopped else ""
            found.same(stop or entry, "agent.stop_reason", why, row["stop_reason"])
            found.then(entry, entry, "agent.created_at", row["created_at"])
            _compare_bucket(found, buckets.get(key), entry, row)

    def _manifests(self, found: Found) -> None:
        rows = Manifest.objects.values(
            "agent__tenant", "agent__agent_id", "version", "body", "digest", *_STATE
        )
        named = ((row["agent__tenant"], (row["agent__agent_id"], row["version"]), row) for row in rows)
        ends = self._of("manifest end")
        for entry, row in self._rows(found, "manifest", named):
            _compare_version(found, "manifest", entry, row)
            end = ends.get((entry.tenant, (row["agent__agent_id"], row["version"])))
            _compare_state(found, "manifest", entry, end, row)
        now = self._of("manifest now")
        active = Agent.objects.values_list("tenant", "agent_id", "active_manifest__version")
        for tenant, agent_id, version in active:
            last = now.get((tenant, (agent_id,)))
            if last is not None:
                found.same(last, "agent.active_manifest", last.payload["version"], version)
            elif version is not None:
                found.without_entry(tenant, f"agent:{agent_id}", f"the active manifest {version}")

    def _kinds(self, found: Found) -> None:
        rows = PolicyKind.objects.values(
            "tenant", "kind", "version", "body", "digest", "title", "risk_tier", "active", *_STATE
        )
        named = [(row["tenant"], (row["kind"], row["version"]), row) for row in rows]
        ends, now = self._of("kind end"), self._of("kind now")
        for entry, row in self._rows(found, "kind", named):
            _compare_version(found, "policykind", entry, row)
            _compare_copies(found, entry, row)
            end = ends.get((entry.tenant, (row["kind"], row["version"])))
            _compare_state(found, "policykind", entry, end, row)
            last = now.get((entry.tenant, (row["kind"],)))
            is_active = last is not None and last.payload["version"] == row["version"]
            found.same(
                last or entry, f"policykind.active of {row['version']}", is_active, bool(row["active"])
            )

    def _keys(self, found: Found) -> None:
        rows = Key.objects.values(
            "tenant",
            "key_id",
            "agent__agent_id",
            "feed",
            "created_at",
            "revoked_at",
            "secret_hash",
            "fact_prefix",
        )
        ends = self._of("key end")
        for entry, row in self._rows(found, "key", ((row["tenant"], (row["key_id"],), row) for row in rows)):
            subject = f"feed:{row['feed']}" if row["feed"] else f"agent:{row['agent__agent_id']}"
            found.same(entry, "key belongs to", entry.payload["subject"], subject)
            if entry.payload.get("secret_digest") is not None:
                held = canonical.digest(row["secret_hash"].encode())
                found.same(entry, "key.secret_hash", entry.payload["secret_digest"], held)
                found.same(entry, "key.fact_prefix", entry.payload["fact_prefix"], row["fact_prefix"])
            end = ends.get((row["tenant"], (row["key_id"],)))
            found.then(entry, entry, "key.created_at", row["created_at"])
            found.then(end, entry, "key.revoked_at", row["revoked_at"])

    def _deployment(self, found: Found) -> None:
        targets = ((row.tenant, (row.name,), row) for row in Target.objects.all())
        for entry, row in self._rows(found, "target", targets):
            for name, told, stored in recorded.configured_columns(entry.payload, row):
                found.same(entry, f"target.{name}", told, stored)
            found.then(entry, entry, "target.configured_at", row.configured_at)
        guards = Guard.objects.all()
        switches = self._of("guard switch")
        for entry, row in self._rows(found, "guard", ((r.tenant, (r.guard_id,), r) for r in guards)):
            found.bytes(entry, "guard.body", entry.payload["digest"], row.body)
            found.same(entry, "guard.digest", entry.payload["digest"], row.digest)
            found.same(entry, "guard.kind", entry.payload["guard"], row.kind)
            found.then(entry, entry, "guard.configured_at", row.configured_at)
            switch = switches.get((row.tenant, (row.guard_id,)))
            enabled = switch.payload["enabled"] if switch else True
            found.same(switch or entry, "guard.enabled", enabled, bool(row.enabled))
            found.same(switch or entry, "guard.switched_by", switch.actor if switch else "", row.switched_by)
            found.then(switch, entry, "guard.switched_at", row.switched_at)
            why = switch.payload["reason"] if switch else ""
            found.same(switch or entry, "guard.switch_reason", why, row.switch_reason)
        stopped = set(Stop.objects.filter(lifted_at__isnull=True).values_list("tenant", flat=True))
        for (tenant, _), entry in self._of("stop").items():
            is_stopped = entry.kind == Kind.SYSTEM_STOPPED
            found.same(entry, "everything is stopped", is_stopped, tenant in stopped)

    def _world(self, found: Found) -> None:
        facts = dict(self._facts)
        columns = ("tenant", "path", "version", "value", "digest", "writer", "written_at")
        rows = Fact.objects.values_list(*columns)
        for tenant, path, version, value, digest, writer, at in rows.iterator(chunk_size=VERSIONS_AT_ONCE):
            entry = facts.pop((tenant, path), None)
            if entry is None:
                found.without_entry(tenant, "system", f"the fact {path}")
                continue
            found.same(entry, "fact.version", entry.payload["version"], version)
            found.bytes(entry, "fact.value", entry.payload["digest"], value)
            found.same(entry, "fact.digest", entry.payload["digest"], digest)
            found.same(entry, "fact.writer", entry.payload["writer"], writer)
            found.then(entry, entry, "fact.written_at", at)
        for entry in facts.values():
            found.missing(entry, f"the fact {entry.payload['path']}")
        counted = FactVersion.objects.order_by().values_list("tenant", "path")
        for tenant, path, newest, count in counted.annotate(newest=Max("version"), count=Count("pk")):
            last = self._facts.get((tenant, path))
            version = last.payload["version"] if last else 0
            if (newest, count) != (version, version):
                found.without_entry(tenant, last.stream if last else "system", f"all versions of {path}")

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
        )
        ends = self._of("memory end")
        named = ((row[0], (row[1], row[2], str(row[3])), row) for row in rows)
        for entry, row in self._rows(found, "memory", named):
            found.bytes(entry, "memoryitem.value", entry.payload["digest"], row[4])
            found.same(entry, "memoryitem.digest", entry.payload["digest"], row[5])
            found.same(entry, "memoryitem.source", entry.payload["source"], row[6])
            end = ends.get((row[0], (row[1], row[2], str(row[3]))))
            held = entry.payload["quarantined"] and end is None
            found.same(end or entry, "memoryitem.quarantined", held, bool(row[7]))
            found.then(entry, entry, "memoryitem.written_at", row[8])
            found.same(entry, "memoryitem.writer", entry.actor, f"agent:{row[9]}")
            found.same(end or entry, "memoryitem.released_by", end.actor if end else "", row[10])
        artifacts = Artifact.objects.values_list(
            "tenant", "agent__agent_id", "digest", "media_type", "size_bytes"
        )
        named_artifacts = ((row[0], (f"agent:{row[1]}", row[2]), row) for row in artifacts)
        for entry, row in self._rows(found, "artifact", named_artifacts):
            found.same(entry, "artifact.media_type", entry.payload["media_type"], row[3])
            found.same(entry, "artifact.size_bytes", entry.payload["size_bytes"], row[4])

    def _packs(self, found: Found) -> None:
        rows = Pack.objects.values_list("tenant", "name", "version", "digest", "loaded_at", "loaded_by")
        for entry, row in self._rows(found, "pack", ((row[0], row[1:4], row) for row in rows)):
            found.then(entry, entry, "pack.loaded_at", row[4])
            found.same(entry, "pack.loaded_by", entry.actor, row[5])

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
        for entry, row in self._rows(found, "resource", ((row[0], (row[1],), row) for row in rows)):
            found.same(entry, "resource.capacity", entry.payload["capacity"], row[3])
            found.same(entry, "resource.unit", entry.payload["unit"], row[4])
            found.then(entry, entry, "resource.configured_at", row[5])
            found.same(entry, "resource.configured_by", entry.actor, row[6])
            found.same(entry, "resource.reserved and committed", sums.get(row[2], (0, 0)), row[7:])


_STATE = (
    "created_at",
    "created_by",
    "activated_at",
    "activated_by",
    "discarded_at",
    "discarded_by",
    "reason",
    "solo",
)


def _is_later(entry: Entry, held: Entry) -> bool:
    if entry.stream == held.stream:
        return entry.seq >= held.seq
    return (entry.at, entry.stream) >= (held.at, held.stream)


def _compare_profile(found: Found, entry: Entry, row: Mapping[str, Any]) -> None:
    if entry.kind == Kind.AGENT_REGISTERED:
        return
    review = None if row["review_on"] is None else row["review_on"].isoformat()
    found.same(entry, "agent.mission", entry.payload["mission_after"], row["mission"])
    found.same(entry, "agent.review_on", entry.payload["review_after"], review)


def _compare_bucket(found: Found, last: Entry | None, agent: Entry, row: Mapping[str, Any]) -> None:
    """The bucket is written when it is spent from or filled; what time fills is worked out from there."""
    if last is None:
        found.same(agent, "agent.bucket_at", None, row["bucket_at"])
        return
    spent = last.kind == Kind.BUDGET_SPENT
    held = last.payload["tokens_left_milli"] if spent else last.payload["tokens"] * 1000
    found.same(last, "agent.escalation_millitokens", held, row["escalation_millitokens"])
    if row["bucket_at"] is None or row["bucket_at"] < last.at:
        found.same(last, "agent.bucket_at", last.at, row["bucket_at"])


def _compare_version(found: Found, table: str, entry: Entry, row: Mapping[str, Any]) -> None:
    found.bytes(entry, f"{table}.body", entry.payload["digest"], row["body"])
    found.same(entry, f"{table}.digest", entry.payload["digest"], row["digest"])
    found.same(entry, f"{table}.created_by", entry.actor, row["created_by"])
    found.then(entry, entry, f"{table}.created_at", row["created_at"])


def _compare_copies(found: Found, entry: Entry, row: Mapping[str, Any]) -> None:
    """The columns of a kind that lists show are copies of its document's."""
    if row_checks.digest_of(row["body"]) == entry.payload["digest"]:
        document = canonical.decode(bytes(row["body"]))
        for name in ("title", "risk_tier"):
            found.same(entry, f"policykind.{name}", document.get(name, ""), row[name])


def _compare_state(found: Found, table: str, entry: Entry, end: Entry | None, row: Mapping[str, Any]) -> None:
    """Whether a version was ever put in force, or discarded, when, by whom and why."""
    is_discarded = end is not None and end.kind in (Kind.MANIFEST_DISCARDED, Kind.KIND_DISCARDED)
    activated_by = "" if end is None or is_discarded else end.actor
    found.same(end or entry, f"{table}.activated_by", activated_by, row["activated_by"])
    discarded = end if is_discarded else None
    found.then(None if is_discarded else end, entry, f"{table}.activated_at", row["activated_at"])
    found.then(discarded, entry, f"{table}.discarded_at", row["discarded_at"])
    found.same(
        end or entry, f"{table}.discarded_by", discarded.actor if discarded else "", row["discarded_by"]
    )
    found.same(end or entry, f"{table}.reason", end.payload.get("reason", "") if end else "", row["reason"])
    if end is not None and not is_discarded:
        found.same(end, f"{table}.solo", end.payload.get("solo", False), bool(row["solo"]))
