"""Which changes of facts a receiver gets, and whether it is too far behind to get them one by one."""

from collections.abc import Sequence

from runtime.contracts import receiver as contract
from runtime.contracts.receiver import SealedEntry
from runtime.outward.models import Receiver
from runtime.registry.models import Agent
from runtime.state.queries import changes, sight, world
from runtime.state.queries.sight import Sight


def sight_of(row: Receiver) -> Sight:
    """The facts that a receiver of `state:changed` gets: all, or what the manifest of its agent names now."""
    agent_id = contract.state_reader(row.wants)
    if not agent_id:
        return sight.of_all(row.tenant)
    agent = Agent.objects.of(row.tenant).filter(agent_id=agent_id).first()
    # Without its agent it gets nothing.
    return Sight(tenant=row.tenant) if agent is None else sight.of_agent(agent)


def list_in_sight(row: Receiver, entries: Sequence[SealedEntry]) -> list[SealedEntry]:
    """Those of these written facts that it gets."""
    if not entries:
        return []
    own = sight_of(row)
    return [entry for entry in entries if own.covers(str(entry.payload["path"]))]


def version_of(entry: SealedEntry) -> int | None:
    """The version of the world that the write made; None where it has none, as one from before there were."""
    write_id = entry.payload.get("write_id")
    return world.number_of_write(write_id=str(write_id)) if write_id else None


def find_resync(row: Receiver, entries: Sequence[SealedEntry]) -> int | None:
    """The version to start from, where the next of these entries is too far behind it; else None."""
    if not entries:
        return None
    first, last = version_of(entries[0]), world.last_version(row.tenant)
    return last if first is not None and changes.must_resync(after=first - 1, last=last) else None
