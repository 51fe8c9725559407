"""Policy kinds as an agent may know them: only those that its active manifest grants (need-to-know)."""

from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.policy_kind import KindDocument
from runtime.registry.models import Agent, PolicyKind
from runtime.registry.queries import recorded_versions, stored_documents


def manifest_of(agent: Agent) -> ManifestDocument | None:
    """The agent's active manifest; None where no person has activated one, or not these bytes."""
    row = agent.active_manifest
    if row is None or recorded_versions.compare_manifest(agent, row) is not None:
        return None
    return stored_documents.manifest_of(bytes(row.body))


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


def list_active(*, tenant: str, names: frozenset[str]) -> list[PolicyKind]:
    """The active version of each named kind, by name."""
    return list(PolicyKind.objects.of(tenant).filter(active=True, kind__in=names).order_by("kind"))


def get_version(*, tenant: str, kind: str, version: str | None) -> PolicyKind | None:
    """One version of a kind; the active one where `version` is None."""
    rows = PolicyKind.objects.of(tenant).filter(kind=kind)
    return (rows.filter(active=True) if version is None else rows.filter(version=version)).first()
