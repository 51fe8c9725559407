"""Manifests and policy kinds by the beginning of their digest."""

from runtime.registry.models import Manifest, PolicyKind


def list_manifests(*, tenant: str, low: str, high: str, size: int) -> list[tuple[str, str, str]]:
    """Digests from `low` to `high`, with agent and version."""
    rows = Manifest.objects.filter(digest__gte=low, digest__lte=high, agent__tenant=tenant)
    return list(rows.order_by("digest").values_list("digest", "agent__agent_id", "version")[:size])


def list_kinds(*, tenant: str, low: str, high: str, size: int) -> list[tuple[str, str, str]]:
    """Digests from `low` to `high`, with kind and version."""
    rows = PolicyKind.objects.of(tenant).filter(digest__gte=low, digest__lte=high)
    return list(rows.order_by("digest").values_list("digest", "kind", "version")[:size])
