"""Items of memory compared with the entries about them, and how many denied writes were recorded lately."""

from datetime import datetime

from audit import actors
from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification.verify import UNREADABLE
from runtime.core import mismatches
from runtime.registry.models import Agent
from runtime.state.models import MemoryItem

# An entry's time is not before its row's, and only entries of a clock that was set back share it.
_LOOKED_AT = 50


def compare_written(row: MemoryItem) -> mismatches.Mismatch | None:
    """Whether the value of an item is the one that was written, in one query."""
    stream = actors.agent(row.writer.agent_id)
    entries = LedgerEntry.objects.filter(
        tenant=row.tenant, stream=stream, kind=Kind.MEMORY_WRITTEN, at__gte=row.written_at
    )
    recorded = mismatches.NOT_RECORDED
    for entry in entries.order_by("seq")[:_LOOKED_AT]:
        try:
            said = entry.payload
            if (said["scope"], said["key"], said["version"]) == (row.scope, row.key, row.version):
                recorded = said["digest"]
                break
        except UNREADABLE:  # a finding of verify_ledger
            continue
    return mismatches.compare("memoryitem.value", str(row), recorded, row.value)


def is_told_enough(*, agent: Agent, since: datetime, at_most: int) -> bool:
    """Whether as many denied writes of an agent as at most stand in its stream after `since`."""
    entries = LedgerEntry.objects.filter(
        tenant=agent.tenant, stream=actors.agent(agent.agent_id), kind=Kind.MEMORY_REFUSED
    )
    last = entries.order_by("-seq").values_list("at", flat=True)[at_most - 1 : at_most].first()
    return last is not None and last > since
