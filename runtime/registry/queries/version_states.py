"""What has become of a stored version of a policy kind or a ruleset."""

from runtime.contracts.states import KindState
from runtime.registry.models.versions import SwappedVersion


def state_of(row: SwappedVersion) -> KindState:
    """A version is drafted, activated and superseded, maybe more than once; or it is discarded."""
    if row.active:
        return KindState.ACTIVE
    if row.discarded_at is not None:
        return KindState.DISCARDED
    return KindState.DRAFT if row.activated_at is None else KindState.SUPERSEDED
