"""What the newest flows of a workflow did in it, by the ledger: the ways they took, and what refused them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from audit import queries
from audit.events import Kind
from runtime.contracts.workflow import INTERRUPT
from runtime.registry.models import Workflow
from runtime.workflows.models import WorkflowPosition

NEWEST_FLOWS: Final = 1_000
# A flow takes 200 steps at most; the newest flows that took no more than this together are read.
MOST_STEPS: Final = 20_000
_KINDS: Final = frozenset({Kind.STEP_TAKEN, Kind.STEP_REFUSED})


@dataclass(kw_only=True)
class Traffic:
    """What `flows` flows did: how often each way was taken (None begins), each instruction, and each refusal.

    `refusals` are by policy (or `graph`, `next`, `max_visits`, `check_id`); `interrupts` are the steps after
    which a router called a person, by the instruction.
    """

    flows: int = 0
    ways: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    visits: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    interrupts: Counter[str] = field(default_factory=Counter)


def of_workflow(row: Workflow) -> Traffic:
    """The traffic of the newest `NEWEST_FLOWS` flows that began with this version, of fewer long ones."""
    positions = WorkflowPosition.objects.filter(workflow=row).order_by("-flow")
    streams: list[str] = []
    steps = 0
    for dfid, taken in positions.values_list("flow_id", "flow__steps_reported")[:NEWEST_FLOWS]:
        steps += taken
        if steps > MOST_STEPS and streams:
            break
        streams.append(str(dfid))
    found = Traffic(flows=len(streams))
    told = queries.list_dated_by_stream(tenant=row.tenant, streams=streams, kinds=_KINDS)
    for entries in told.values():
        before: str | None = None
        for kind, _, said in entries:
            if kind is Kind.STEP_REFUSED:
                found.refusals.update(said["policies"])
                continue
            taken_now = said["instruction"]
            found.ways[before, taken_now] += 1
            found.visits[taken_now] += 1
            if said.get("next") == INTERRUPT:
                found.interrupts[taken_now] += 1
            before = taken_now
    return found
