"""The memory and artifact layers, as far as one agent may see them."""

from datetime import datetime
from typing import Final

from django.db.models import Q, QuerySet

from audit import canonical, statements
from runtime.contracts import api_schemas, timestamps
from runtime.contracts.context import ArtifactRef, Remembered
from runtime.contracts.manifest import MemoryAccess
from runtime.flows.models import Flow
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.state.models import Artifact, FactVersion, MemoryItem
from runtime.state.queries import visible_facts

_READING = (MemoryAccess.READ, MemoryAccess.READ_WRITE)
_WRITING = (MemoryAccess.WRITE, MemoryAccess.READ_WRITE)
SHOWN = 200
MAX_DIGITS = 16


def readable(agent: Agent) -> frozenset[str]:
    """The scopes that the agent's active manifest lets it read."""
    return _scopes(agent, _READING)


def writable(agent: Agent) -> frozenset[str]:
    """The scopes that the agent's active manifest lets it write."""
    return _scopes(agent, _WRITING)


def list_readable(*, agent: Agent, at: datetime, limit: int) -> list[Remembered]:
    """The newest items active at `at` that the agent may read; nothing that is in quarantine."""
    scopes = readable(agent)
    if not scopes:
        return []
    rows = _in_force(agent.tenant, at).filter(scope__in=scopes).order_by("-written_at", "-pk")[:limit]
    return [remembered(row) for row in rows]


def get_item(*, tenant: str, scope: str, key: str, at: datetime) -> MemoryItem | None:
    """The active item of a key at `at`."""
    return _in_force(tenant, at).filter(scope=scope, key=key).first()


def is_quarantined(*, tenant: str, scope: str, key: str) -> bool:
    """Whether a value of the key is kept back until an admin has looked at it."""
    return MemoryItem.objects.of(tenant).filter(scope=scope, key=key, quarantined=True).exists()


def remembered(row: MemoryItem) -> Remembered:
    """An item as an agent reads it."""
    return Remembered(
        scope=row.scope,
        key=row.key,
        version=row.version,
        value=canonical.decode(bytes(row.value)),
        source=row.source,
        writer=row.writer.agent_id,
        written_at=timestamps.iso(row.written_at),
        expires_at=None if row.expires_at is None else timestamps.iso(row.expires_at),
    )


def is_known(*, agent: Agent, source: str) -> bool:
    """Whether the runtime itself can vouch that the source exists and that the agent could know it.

    `agent` is its own conclusion, `flow:<dfid>` one of its flows, `fact:<path>@<version>` a version of a fact
    that it may see. All else comes from outside.
    """
    kind, _, name = source.partition(":")
    match kind:
        case "agent":
            return not name
        case "flow":
            dfid = api_schemas.uuid_of(name)
            return dfid is not None and Flow.objects.filter(dfid=dfid, agent=agent).exists()
        case "fact":
            path, _, version = name.partition("@")
            if not version.isdecimal() or len(version) >= MAX_DIGITS:
                return False
            kinds = granted_kinds.list_active(tenant=agent.tenant, names=granted_kinds.granted(agent))
            selected = visible_facts.selectors(agent=agent, kinds=kinds)
            if not any(path.startswith(one) if one.endswith(".") else path == one for one in selected):
                return False
            rows = FactVersion.objects.of(agent.tenant).filter(path=path, version=int(version))
            return rows.exists()
        case _:
            return False


def list_quarantined(*, tenant: str) -> list[MemoryItem]:
    """What waits for an admin, oldest first."""
    rows = MemoryItem.objects.of(tenant).filter(quarantined=True).select_related("writer")
    return list(rows.order_by("written_at", "pk")[:SHOWN])


def list_artifacts(*, agent: Agent, limit: int) -> list[ArtifactRef]:
    """The agent's newest artifacts, oldest first."""
    rows = _ARTIFACTS.rows(limit, agent_pk=agent.pk)
    return [
        ArtifactRef(
            digest=row.digest,
            media_type=row.media_type,
            size_bytes=row.size_bytes,
            location=row.location,
            title=row.title,
        )
        for row in reversed(rows)
    ]


def _artifacts(limit: int, *, agent_pk: int) -> QuerySet[Artifact]:
    return Artifact.objects.filter(agent=agent_pk).order_by("-pk")[:limit]


_ARTIFACTS: Final = statements.Read(_artifacts)


def _in_force(tenant: str, at: datetime) -> QuerySet[MemoryItem]:
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=at)
    return MemoryItem.objects.of(tenant).filter(alive, current=True).select_related("writer")


def _scopes(agent: Agent, access: tuple[MemoryAccess, ...]) -> frozenset[str]:
    manifest = granted_kinds.manifest_of(agent)
    granted = () if manifest is None else manifest.memory_scopes
    return frozenset(item.scope for item in granted if item.access in access)
