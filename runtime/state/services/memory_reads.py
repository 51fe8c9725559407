"""Reading memory by the API: each read, and each that is refused, leaves one entry.

An entry names what was read by scope, key, version and digest, and never holds the value. It stands in the
stream of the flow that the call names, else in that of the agent.
"""

from functools import partial
from uuid import UUID

from audit import actors, events, ledger
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.source_labels import LabelSource
from runtime.core import clock, transactions
from runtime.flows.models import Flow
from runtime.flows.services import flows
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.models import Agent
from runtime.registry.services import agent_labels
from runtime.state.models import MemoryItem
from runtime.state.queries import memory_layers

ALLOW, DENY = "allow", "deny"
QUARANTINE = "quarantine"


@transactions.retried
def read(*, agent: Agent, scope: str, key: str, dfid: UUID | None) -> MemoryItem | Problem:
    """The active item of a key, within the grants of the agent's manifest; recorded in either case.

    403 without a READ grant, 404 where nothing is active. With `dfid`, 404 for a flow that is not the
    agent's, and 409 once it has ended: then nothing is read.
    """
    flow = None
    if dfid is not None:
        opened = flows.lock_open(
            agent=agent, dfid=dfid, once_ended=". Read without dfid, or open a new flow."
        )
        if isinstance(opened, Problem):
            return opened
        flow = opened
    found, event = _look(agent, scope, key)
    if isinstance(found, MemoryItem) and (labels := memory_layers.labels_for(agent, [found])):
        agent_labels.gain(
            agent_pk=agent.pk,
            labels=labels,
            because=LabelSource.MEMORY,
            source=scope,
            at=clock.now(),
        )
    _record(agent, flow, event)
    return found


def _look(agent: Agent, scope: str, key: str) -> tuple[MemoryItem | Problem, events.MemoryRead]:
    rule = memory_layers.rule_of(agent)
    said = partial(events.MemoryRead, agent_id=agent.agent_id, scope=scope, key=key)
    if scope not in memory_layers.readable(agent):
        detail = "The active manifest does not grant this agent read access to this scope."
        refused = Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
        return refused, said(decision=DENY, rule=rule)
    row = memory_layers.get_item(tenant=agent.tenant, scope=scope, key=key, at=clock.now())
    if row is None:
        detail = "This key has no active value: it was not written, has expired, or is in quarantine."
        missing = Problem(code=ProblemCode.NOT_FOUND, detail=detail)
        held = memory_layers.is_quarantined(tenant=agent.tenant, scope=scope, key=key)
        decision, by = (DENY, QUARANTINE) if held else (ALLOW, rule)
        return missing, said(decision=decision, rule=by)
    told = said(decision=ALLOW, rule=rule, version=row.version, digest=row.digest)
    return row, told


def _record(agent: Agent, flow: Flow | None, event: events.MemoryRead) -> None:
    at, actor = clock.now(), actors.agent(agent.agent_id)
    if flow is None:
        ledger.append_to(tenant=agent.tenant, stream=actor, actor=actor, at=at, events=[event])
        return
    journal = Journal(flow=flow, actor=actor, at=at)
    journal.add(event)
    journal.write()
