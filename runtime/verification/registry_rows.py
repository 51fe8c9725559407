"""The rows of the registry against the entries about them, for `verify_ledger`.

Manifests and kinds are compared by their digests; what may change (statuses, owners, what is active, keys,
buckets) with the last entry about it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from audit import actors, canonical, cells
from audit.chain import time_text
from audit.events import Kind
from audit.verification.row_checks import Entry, Found, NotProved
from runtime.contracts.states import AgentStatus, AutonomyLevel
from runtime.registry.models import Agent, Key, Manifest, PolicyKind, Ruleset
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.models.ontologies import Ontology
from runtime.verification.last_entries import LastEntryRows, Subjects

_SUBJECTS: Subjects = {
    Kind.AGENT_REGISTERED: [("agent", ("agent_id",)), ("profile", ("agent_id",)), ("owner", ("agent_id",))],
    Kind.AGENT_EDITED: [("profile", ("agent_id",)), ("owner", ("agent_id",))],
    Kind.AGENT_OWNER_CHANGED: [("owner", ("agent_id",))],
    Kind.AGENT_STATUS_CHANGED: [("status", ("agent_id",))],
    Kind.AGENT_AUTONOMY_CHANGED: [("autonomy", ("agent_id",))],
    Kind.AGENT_STOPPED: [("stopped", ("agent_id",))],
    Kind.AGENT_RESUMED: [("stopped", ("agent_id",))],
    Kind.MANIFEST_REGISTERED: [("manifest", ("agent_id", "version"))],
    Kind.MANIFEST_ACTIVATED: [("manifest end", ("agent_id", "version")), ("manifest now", ("agent_id",))],
    Kind.MANIFEST_DISCARDED: [("manifest end", ("agent_id", "version"))],
    Kind.KIND_REGISTERED: [("kind", ("policy_kind", "version"))],
    Kind.KIND_ACTIVATED: [("kind end", ("policy_kind", "version")), ("kind now", ("policy_kind",))],
    Kind.KIND_DISCARDED: [("kind end", ("policy_kind", "version"))],
    Kind.RULESET_REGISTERED: [("ruleset", ("ruleset", "version"))],
    Kind.RULESET_ACTIVATED: [("ruleset end", ("ruleset", "version")), ("ruleset now", ("ruleset",))],
    Kind.RULESET_DISCARDED: [("ruleset end", ("ruleset", "version"))],
    Kind.ONTOLOGY_REGISTERED: [("ontology", ("version",))],
    Kind.ONTOLOGY_ACTIVATED: [("ontology end", ("version",)), ("ontology now", ())],
    Kind.ONTOLOGY_DISCARDED: [("ontology end", ("version",))],
    Kind.CALIBRATION_DRAFTED: [("map", ("agent_id", "version"))],
    Kind.CALIBRATION_ACTIVATED: [
        ("map end", ("agent_id", "version")),
        ("map now", ("agent_id", "policy_kind", "impact")),
    ],
    Kind.CALIBRATION_DISCARDED: [("map end", ("agent_id", "version"))],
    Kind.CALIBRATION_RETIRED: [
        ("map retired", ("agent_id", "version")),
        ("map now", ("agent_id", "policy_kind", "impact")),
    ],
    Kind.KEY_ISSUED: [("key", ("key_id",))],
    Kind.KEY_REVOKED: [("key end", ("key_id",))],
    Kind.BUDGET_SPENT: [("bucket", ("agent_id",))],
    Kind.BUDGET_REFILLED: [("bucket", ("agent_id",))],
}


class RegistryRowCheck(LastEntryRows):
    """Agents, manifests, kinds, rulesets, the ontology, calibration maps and keys."""

    kinds = frozenset(_SUBJECTS)
    kept_by = _SUBJECTS
    not_proved = (
        NotProved("runtime_agent", ("mission", "review_on"), "as given at registration"),
        NotProved("runtime_agent", ("locked_from", "locked_from_reason"), "its state before it was locked"),
        NotProved("runtime_agent", ("bucket_at",), "a later time only leaves the agent fewer tokens"),
        NotProved("runtime_agent", ("last_seen_at", "watched_from"), "written with every call"),
        NotProved("runtime_key", ("last_used_at",), "written with every call"),
    )

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """What compares each table."""
        return {
            "agents": self._agents,
            "manifests": self._manifests,
            "kinds": self._kinds,
            "rulesets": self._rulesets,
            "ontologies": self._ontologies,
            "maps": self._maps,
            "keys": self._keys,
        }

    def _agents(self, found: Found) -> None:
        columns = ("tenant", "agent_id", "role", "owner", "mission", "review_on", "status", "status_reason")
        further = ("stopped_at", "stopped_by", "stop_reason", "created_at")
        rows = Agent.objects.values(*columns, *further, *_AUTONOMY, "escalation_millitokens", "bucket_at")
        named = ((row["tenant"], (row["agent_id"],), row) for row in rows)
        owners, profiles, statuses, stops, buckets = (
            self.of(word) for word in ("owner", "profile", "status", "stopped", "bucket")
        )
        levels = self.of("autonomy")
        for entry, row in self.rows(found, "agent", named):
            key = (row["tenant"], (row["agent_id"],))
            found.same(entry, "agent.role", entry.payload["role"], row["role"])
            owner = owners[key]
            told = owner.payload
            found.same(owner, "agent.owner", told.get("owner_after", told.get("owner")), row["owner"])
            profile = profiles[key]
            if profile.kind != Kind.AGENT_REGISTERED:
                review = None if row["review_on"] is None else row["review_on"].isoformat()
                found.same(profile, "agent.mission", profile.payload["mission_after"], row["mission"])
                found.same(profile, "agent.review_on", profile.payload["review_after"], review)
            status = statuses.get(key)
            said = status.payload["to_status"] if status else AgentStatus.ACTIVE.value
            found.same(status or entry, "agent.status", said, row["status"])
            if status is not None:
                found.same(status, "agent.status_reason", status.payload["reason"], row["status_reason"])
            _compare_autonomy(found, entry, levels.get(key), row)
            stop = stops.get(key)
            is_stopped = stop is not None and stop.kind == Kind.AGENT_STOPPED
            stopped = stop if is_stopped else None
            found.by_then(stopped, stop or entry, "agent.stopped_at", row["stopped_at"])
            found.same(stop or entry, "agent.stopped_by", stopped.actor if stopped else "", row["stopped_by"])
            why = stopped.payload["reason"] if stopped else ""
            found.same(stop or entry, "agent.stop_reason", why, row["stop_reason"])
            found.by_then(entry, entry, "agent.created_at", row["created_at"])
            bucket = buckets.get(key)
            if bucket is None:
                found.same(entry, "agent.bucket_at", None, row["bucket_at"])
                found.same(entry, "agent.escalation_millitokens", 0, row["escalation_millitokens"])
                continue
            # It is written when it is spent from or filled; what time fills is worked out from there.
            spent = bucket.kind == Kind.BUDGET_SPENT
            held = bucket.payload["tokens_left_milli"] if spent else bucket.payload["tokens"] * 1000
            found.same(bucket, "agent.escalation_millitokens", held, row["escalation_millitokens"])
            if row["bucket_at"] is None or row["bucket_at"] < bucket.at:
                found.same(bucket, "agent.bucket_at", bucket.at, row["bucket_at"])

    def _manifests(self, found: Found) -> None:
        rows = Manifest.objects.values(
            "agent__tenant", "agent__agent_id", "version", "body", "digest", *_STATE
        )
        named = ((row["agent__tenant"], (row["agent__agent_id"], row["version"]), row) for row in rows)
        ends = self.of("manifest end")
        for entry, row in self.rows(found, "manifest", named):
            _compare_version(found, "manifest", entry, row)
            end = ends.get((entry.tenant, (row["agent__agent_id"], row["version"])))
            _compare_state(found, "manifest", entry, end, row)
        now = self.of("manifest now")
        names = ("active_manifest__version", "active_manifest__agent__agent_id")
        for tenant, agent_id, version, holder in Agent.objects.values_list("tenant", "agent_id", *names):
            last = now.get((tenant, (agent_id,)))
            if last is not None:
                found.same(last, "agent.active_manifest", last.payload["version"], version)
                # A manifest of another agent may have the same version.
                found.same(last, "agent.active_manifest", agent_id, holder)
            elif version is not None:
                found.without_entry(tenant, actors.agent(agent_id), f"the active manifest {version}")

    def _kinds(self, found: Found) -> None:
        rows = PolicyKind.objects.values(
            "tenant", "kind", "version", "body", "digest", "title", "risk_tier", "active", *_STATE
        )
        named = [(row["tenant"], (row["kind"], row["version"]), row) for row in rows]
        ends, now = self.of("kind end"), self.of("kind now")
        for entry, row in self.rows(found, "kind", named):
            _compare_version(found, "policykind", entry, row)
            # The columns that lists show are copies of the document's.
            if cells.digest_of(row["body"]) == entry.payload["digest"]:
                document = canonical.decode(bytes(row["body"]))
                for name in ("title", "risk_tier"):
                    found.same(entry, f"policykind.{name}", document.get(name, ""), row[name])
            end = ends.get((entry.tenant, (row["kind"], row["version"])))
            _compare_state(found, "policykind", entry, end, row)
            last = now.get((entry.tenant, (row["kind"],)))
            is_active = last is not None and last.payload["version"] == row["version"]
            found.same(
                last or entry, f"policykind.active of {row['version']}", is_active, bool(row["active"])
            )

    def _rulesets(self, found: Found) -> None:
        rows = Ruleset.objects.values("tenant", "ruleset", "version", "body", "digest", "active", *_STATE)
        named = [(row["tenant"], (row["ruleset"], row["version"]), row) for row in rows]
        ends, now = self.of("ruleset end"), self.of("ruleset now")
        for entry, row in self.rows(found, "ruleset", named):
            _compare_version(found, "ruleset", entry, row)
            end = ends.get((entry.tenant, (row["ruleset"], row["version"])))
            _compare_state(found, "ruleset", entry, end, row)
            last = now.get((entry.tenant, (row["ruleset"],)))
            is_active = last is not None and last.payload["version"] == row["version"]
            found.same(last or entry, f"ruleset.active of {row['version']}", is_active, bool(row["active"]))

    def _ontologies(self, found: Found) -> None:
        rows = Ontology.objects.values("tenant", "version", "body", "digest", "active", *_STATE)
        named = [(row["tenant"], (row["version"],), row) for row in rows]
        ends, now = self.of("ontology end"), self.of("ontology now")
        for entry, row in self.rows(found, "ontology", named):
            _compare_version(found, "ontology", entry, row)
            _compare_state(found, "ontology", entry, ends.get((entry.tenant, (row["version"],))), row)
            last = now.get((entry.tenant, ()))
            is_active = last is not None and last.payload["version"] == row["version"]
            found.same(last or entry, f"ontology.active of {row['version']}", is_active, bool(row["active"]))

    def _maps(self, found: Found) -> None:
        columns = ("version", "policy_kind", "impact", "pairs", "body", "digest", "active")
        rows = CalibrationMap.objects.values(
            "agent__tenant", "agent__agent_id", *columns, "retired_at", "retired_by", *_STATE
        )
        named = ((row["agent__tenant"], (row["agent__agent_id"], str(row["version"])), row) for row in rows)
        ends, retirements, now = (self.of(word) for word in ("map end", "map retired", "map now"))
        for entry, row in self.rows(found, "map", named):
            _compare_version(found, "calibrationmap", entry, row)
            for name in ("policy_kind", "impact", "pairs"):
                found.same(entry, f"calibrationmap.{name}", entry.payload[name], row[name])
            place = (row["agent__agent_id"], str(row["version"]))
            end, retired = ends.get((entry.tenant, place)), retirements.get((entry.tenant, place))
            _compare_state(found, "calibrationmap", entry, end, row)
            found.then(retired, entry, "calibrationmap.retired_at", row["retired_at"])
            by = "" if retired is None else retired.actor
            found.same(retired or entry, "calibrationmap.retired_by", by, row["retired_by"])
            last = now.get((entry.tenant, (place[0], row["policy_kind"], row["impact"])))
            is_active = (
                last is not None
                and last.kind == Kind.CALIBRATION_ACTIVATED
                and last.payload["version"] == place[1]
            )
            column = f"calibrationmap.active of {place[1]}"
            found.same(last or entry, column, is_active, bool(row["active"]))

    def _keys(self, found: Found) -> None:
        rows = Key.objects.values(
            "tenant",
            "key_id",
            "agent__agent_id",
            "feed",
            "auditor",
            "created_at",
            "revoked_at",
            "secret_hash",
            "fact_prefix",
            "environment",
            "issuer",
            "subject",
        )
        ends = self.of("key end")
        for entry, row in self.rows(found, "key", ((row["tenant"], (row["key_id"],), row) for row in rows)):
            found.same(entry, "key belongs to", entry.payload["subject"], _holder(row))
            if entry.payload.get("secret_digest") is not None:
                held = canonical.digest(row["secret_hash"].encode())
                found.same(entry, "key.secret_hash", entry.payload["secret_digest"], held)
                found.same(entry, "key.fact_prefix", entry.payload["fact_prefix"], row["fact_prefix"])
            found.same(entry, "key.environment", entry.payload.get("environment") or "", row["environment"])
            for name in ("issuer", "subject"):
                found.same(entry, f"key.{name}", entry.payload.get(f"token_{name}") or "", row[name])
            end = ends.get((row["tenant"], (row["key_id"],)))
            found.by_then(entry, entry, "key.created_at", row["created_at"])
            found.by_then(end, entry, "key.revoked_at", row["revoked_at"])


def _compare_autonomy(found: Found, entry: Entry, last: Entry | None, row: Mapping[str, Any]) -> None:
    """The level of an agent, as its last change left it; without one it is AUTONOMOUS."""
    told: Mapping[str, Any] = {"to_level": AutonomyLevel.AUTONOMOUS.value, "score": 0, "reason": ""}
    told = told if last is None else last.payload
    about = last or entry
    found.same(about, "agent.autonomy", told["to_level"], row["autonomy"])
    found.same(about, "agent.autonomy_score", told["score"], row["autonomy_score"])
    found.same(about, "agent.autonomy_reason", told["reason"], row["autonomy_reason"])
    found.same(about, "agent.autonomy_by", last.actor if last else "", row["autonomy_by"])
    found.same(about, "agent.autonomy_at", last.at if last else None, row["autonomy_at"])
    since = row["autonomy_counts_from"]
    found.same(
        about,
        "agent.autonomy_counts_from",
        told.get("counts_from"),
        None if since is None else time_text(since),
    )


def _holder(row: Mapping[str, Any]) -> str:
    if row["feed"]:
        return actors.feed(row["feed"])
    return actors.auditor(row["auditor"]) if row["auditor"] else actors.agent(row["agent__agent_id"])


_AUTONOMY = (
    "autonomy",
    "autonomy_score",
    "autonomy_at",
    "autonomy_by",
    "autonomy_reason",
    "autonomy_counts_from",
)
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


_DISCARDED = frozenset(
    {
        Kind.MANIFEST_DISCARDED,
        Kind.KIND_DISCARDED,
        Kind.RULESET_DISCARDED,
        Kind.CALIBRATION_DISCARDED,
    }
)


def _compare_version(found: Found, table: str, entry: Entry, row: Mapping[str, Any]) -> None:
    found.bytes(entry, f"{table}.body", entry.payload["digest"], row["body"])
    found.same(entry, f"{table}.digest", entry.payload["digest"], row["digest"])
    found.same(entry, f"{table}.created_by", entry.actor, row["created_by"])
    found.by_then(entry, entry, f"{table}.created_at", row["created_at"])


def _compare_state(found: Found, table: str, entry: Entry, end: Entry | None, row: Mapping[str, Any]) -> None:
    """Whether a version was ever activated or discarded, when, by whom and why."""
    is_discarded = end is not None and end.kind in _DISCARDED
    activated_by = "" if end is None or is_discarded else end.actor
    found.same(end or entry, f"{table}.activated_by", activated_by, row["activated_by"])
    discarded = end if is_discarded else None
    found.then(None if is_discarded else end, entry, f"{table}.activated_at", row["activated_at"])
    found.then(discarded, entry, f"{table}.discarded_at", row["discarded_at"])
    found.same(
        end or entry, f"{table}.discarded_by", discarded.actor if discarded else "", row["discarded_by"]
    )
    found.same(end or entry, f"{table}.reason", end.payload.get("reason", "") if end else "", row["reason"])
    solo = end is not None and not is_discarded and end.payload.get("solo", False)
    found.same(end or entry, f"{table}.solo", solo, bool(row["solo"]))
