"""Stored manifests and policy kinds as contracts, each read once per body."""

from functools import lru_cache

from runtime.contracts.manifest import Manifest as ManifestContract
from runtime.contracts.policy_kind import PolicyKind as PolicyKindContract


@lru_cache(maxsize=256)
def manifest_of(body: bytes) -> ManifestContract:
    """The manifest of its stored bytes, read once."""
    return ManifestContract.from_bytes(body)


@lru_cache(maxsize=1024)
def kind_of(body: bytes) -> PolicyKindContract:
    """The policy kind of its stored bytes, read once."""
    return PolicyKindContract.from_bytes(body)
