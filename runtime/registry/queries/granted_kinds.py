"""Policy kinds as an agent may know them: only those that its active manifest grants (need-to-know)."""

from collections.abc import Collection
from typing import Final

from django.db.models import QuerySet

from audit import statements
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.policy_kind import KindDocument
from runtime.registry.models import Agent, Manifest, PolicyKind
from runtime.registry.queries import recorded_versions, stored_documents


def manifest_of(agent: Agent) -> ManifestDocument | None:
    """The agent's active manifest; None where no person has activated one, or not these bytes."""
    body = manifest_body(agent)
    return None if body is None else stored_documents.manifest_of(body)


def manifest_body(agent: Agent) -> bytes | None:
    """The bytes of the same."""
    row = active_row(agent)
    if row is None or recorded_versions.compare_manifest(agent, row) is not None:
        return None
    return bytes(row.body)


def active_row(agent: Agent) -> Manifest | None:
    """The row of the active manifest, read once for this `agent`."""
    if agent.active_manifest_id is None:
        return None
    if not Agent.active_manifest.is_cached(agent):
        agent.active_manifest = _MANIFEST.first(pk=agent.active_manifest_id)
    return agent.active_manifest


def _manifest(*, pk: int) -> QuerySet[Manifest]:
    return Manifest.objects.filter(pk=pk)


_MANIFEST: Final = statements.Read(_manifest)


def stored_manifest_of(agent: Agent) -> ManifestDocument | None:
    """The active manifest as its row has it, not compared with the ledger: for what only watches an agent.

    Whoever changes a row must not end the watch over its agent by that.
    """
    row = agent.active_manifest
    return None if row is None else stored_documents.manifest_of(bytes(row.body))


def contract_of(row: PolicyKind) -> KindDocument:
    """The stored contract of a policy kind."""
    return stored_documents.kind_of(bytes(row.body))


def granted(agent: Agent) -> frozenset[str]:
    """The names of the kinds that the agent may propose."""
    manifest = manifest_of(agent)
    return frozenset() if manifest is None else frozenset(manifest.policy_kinds)


def list_granted(agent: Agent, *, also: Collection[str] = ()) -> list[PolicyKind]:
    """The active version of each kind that the agent may propose, and of others that are named, by name."""
    return list_active(tenant=agent.tenant, names=granted(agent).union(also))


def list_active(*, tenant: str, names: frozenset[str]) -> list[PolicyKind]:
    """The active version of each named kind, by name."""
    return _ACTIVE.rows(tenant=tenant, names=sorted(names))


def _active(*, tenant: str, names: list[str]) -> QuerySet[PolicyKind]:
    return PolicyKind.objects.of(tenant).filter(active=True, kind__in=names).order_by("kind")


_ACTIVE: Final = statements.Read(_active)


def get_version(*, tenant: str, kind: str, version: str | None) -> PolicyKind | None:
    """One version of a kind; the active one where `version` is None."""
    rows = PolicyKind.objects.of(tenant).filter(kind=kind)
    return (rows.filter(active=True) if version is None else rows.filter(version=version)).first()
