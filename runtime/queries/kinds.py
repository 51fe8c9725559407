"""Reads of policy kinds and their versions, for their one writer and for their pages."""

from collections.abc import Sequence

from runtime.contracts.policy_kind import PolicyKind as KindContract
from runtime.contracts.states import KindState
from runtime.models import Pack, PolicyKind, Resource, Target
from runtime.queries import facts

MOST_VERSIONS = 200
MOST_PACKS = 50


def contract_of(row: PolicyKind) -> KindContract:
    """The stored document, read once per body."""
    return facts.kind_of(bytes(row.body))


def state_of(row: PolicyKind) -> KindState:
    """A version is drafted, comes into force and is superseded, maybe more than once; or it is discarded."""
    if row.active:
        return KindState.ACTIVE
    if row.discarded_at is not None:
        return KindState.DISCARDED
    return KindState.DRAFT if row.activated_at is None else KindState.SUPERSEDED


def get_active(*, tenant: str, kind: str) -> PolicyKind | None:
    """The version in force, or None."""
    return PolicyKind.objects.of(tenant).filter(kind=kind, active=True).first()


def get_version(*, tenant: str, kind: str, version: str) -> PolicyKind | None:
    """One version, or None. PostgreSQL cannot even compare a text that has a NUL."""
    if "\x00" in kind + version:
        return None
    return PolicyKind.objects.of(tenant).filter(kind=kind, version=version).first()


def lock_versions(*, tenant: str, kind: str) -> Sequence[PolicyKind]:
    """Every version of a kind, locked in one order for this transaction."""
    if "\x00" in kind:
        return []
    return list(PolicyKind.objects.of(tenant).select_for_update().filter(kind=kind).order_by("id"))


def list_version_names(*, tenant: str, kind: str) -> frozenset[str]:
    """The versions of a kind that are taken, drafts and discarded ones too."""
    rows = PolicyKind.objects.of(tenant).filter(kind=kind)
    return frozenset(rows.values_list("version", flat=True))


def list_target_names(*, tenant: str) -> frozenset[str]:
    """The targets that steps may name."""
    return frozenset(Target.objects.of(tenant).values_list("name", flat=True))


def list_resource_names(*, tenant: str) -> frozenset[str]:
    """The resources that claims may name."""
    return frozenset(Resource.objects.of(tenant).values_list("name", flat=True))


def list_drafts(*, tenant: str) -> Sequence[PolicyKind]:
    """Versions that wait for an activation, newest first; bounded."""
    rows = PolicyKind.objects.of(tenant).filter(activated_at=None, discarded_at=None)
    return list(rows.order_by("-id")[:MOST_VERSIONS])


def list_packs(*, tenant: str) -> Sequence[Pack]:
    """The packs that were loaded, newest first; bounded."""
    return list(Pack.objects.of(tenant).order_by("-id")[:MOST_PACKS])
