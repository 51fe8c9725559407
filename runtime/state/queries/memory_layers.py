"""The memory and artifact layers, as far as one agent may see them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from django.db.models import Exists, Q, QuerySet

from audit import canonical, statements
from runtime.contracts import timestamps
from runtime.contracts.context import ArtifactRef, Remembered
from runtime.contracts.manifest import MemoryAccess, MemoryScope
from runtime.contracts.source_labels import UNREADABLE
from runtime.kernel.memory_checks import Active
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.state.models import Artifact, MemoryItem

_READING = (MemoryAccess.READ, MemoryAccess.READ_WRITE)
_WRITING = (MemoryAccess.WRITE, MemoryAccess.READ_WRITE)
SHOWN = 200
SHOWN_DECIDED = 20


def readable(agent: Agent) -> frozenset[str]:
    """The scopes that the agent's active manifest lets it read."""
    return _scopes(agent, _READING)


def writable(agent: Agent) -> frozenset[str]:
    """The scopes that the agent's active manifest lets it write."""
    return _scopes(agent, _WRITING)


def list_readable(*, agent: Agent, at: datetime, limit: int) -> list[MemoryItem]:
    """The newest items active at `at` that the agent may read; nothing that is in quarantine."""
    scopes = readable(agent)
    if not scopes:
        return []
    return list(_in_force(agent.tenant, at).filter(scope__in=scopes).order_by("-written_at", "-pk")[:limit])


def labels_for(agent: Agent, rows: Iterable[MemoryItem]) -> list[str]:
    """The labels that the agent gets by reading the items: those of what others wrote, each once."""
    others = (row for row in rows if row.writer_id != agent.pk)
    return list(dict.fromkeys(label for row in others for label in labels_of(row)))


def labels_of(row: MemoryItem) -> list[str]:
    """The labels that the writer of an item had; UNREADABLE where its row no longer tells."""
    try:
        return [str(label) for label in canonical.decode(bytes(row.labels))]
    except (canonical.CanonicalError, TypeError):
        return [UNREADABLE]


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


def grant_of(agent: Agent, scope: str) -> MemoryScope | None:
    """What the agent's active manifest grants of a scope; where it names it twice, the first."""
    manifest = granted_kinds.manifest_of(agent)
    granted = () if manifest is None else manifest.memory_scopes
    return next((item for item in granted if item.scope == scope and item.access in _WRITING), None)


def rule_of(agent: Agent) -> str:
    """What allows or denies access, as entries name it: `memory_scopes@1.4.0`."""
    manifest = granted_kinds.manifest_of(agent)
    return f"memory_scopes@{manifest.version}" if manifest else "memory_scopes"


def get_active(*, tenant: str, scope: str, key: str, at: datetime) -> Active | None:
    """The active item of a key at `at`, for the checks of the next one."""
    row = get_item(tenant=tenant, scope=scope, key=key, at=at)
    if row is None:
        return None
    return Active(version=row.version, digest=row.digest, source=row.source, writer=row.writer.agent_id)


def count_written(*, agent: Agent, scope: str, since: datetime) -> int:
    """How many versions the agent has written in a scope after `since`, in quarantine or not."""
    return MemoryItem.objects.filter(writer=agent, scope=scope, written_at__gt=since).count()


def list_versions(*, tenant: str, scope: str, key: str) -> list[MemoryItem]:
    """The newest versions of a key, newest first."""
    rows = MemoryItem.objects.of(tenant).filter(scope=scope, key=key).select_related("writer")
    return list(rows.order_by("-version")[:SHOWN])


def get_by_pk(*, tenant: str, pk: int) -> MemoryItem | None:
    """One version, with its writer."""
    return MemoryItem.objects.of(tenant).select_related("writer").filter(pk=pk).first()


def list_active(*, tenant: str, at: datetime) -> list[MemoryItem]:
    """What agents receive at `at`, newest first."""
    return list(_in_force(tenant, at).order_by("-written_at", "-pk")[:SHOWN])


def list_decided(*, tenant: str) -> list[MemoryItem]:
    """What people decided on last, newest first."""
    rows = MemoryItem.objects.of(tenant).filter(decided_at__isnull=False).select_related("writer")
    return list(rows.order_by("-decided_at", "-pk")[:SHOWN_DECIDED])


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


def has_artifacts(*, agent_pk: int) -> Exists:
    """For a query: whether an agent has any."""
    return Exists(Artifact.objects.filter(agent=agent_pk))


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
