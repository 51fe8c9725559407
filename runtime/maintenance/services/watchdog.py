"""The silence watchdog: an agent that is not heard for longer than its manifest allows goes to a person.

Each silence is a flow of the runtime's own, so that it has a DFID, a lock, a timeline and a journal like
every other decision. It ends when a person decides, when the agent calls, or when it is no longer monitored.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from audit import actors, canonical, events, ledger
from audit.payload_keys import PayloadClass
from runtime.contracts.reasons import Reason
from runtime.contracts.states import FlowState
from runtime.core import clock, ports, transactions
from runtime.flows.models import Flow
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.maintenance.models import WatchRound
from runtime.maintenance.queries import silent_agents
from runtime.registry.models import Agent
from runtime.registry.services import agents

BATCH = 200
# A longer gap between two rounds means that the runtime was down: the agents could not call then.
GAP = timedelta(seconds=30)
KEPT_EVERY = timedelta(seconds=5)

_after_pk = 0  # where this process continues in its next round; another process has its own rounds


@dataclass(frozen=True, kw_only=True)
class SilentAgent:
    """An agent that has fallen silent, or (with `dfid`) whose silence is over."""

    agent_pk: int
    dfid: UUID | None
    listening_since: datetime


def find_silent_agents(*, at: datetime) -> list[SilentAgent]:
    """Who of the next page of agents needs to be looked at under its lock."""
    global _after_pk
    listening_since = keep_round(at=at)
    page = silent_agents.list_agents(after=_after_pk, limit=BATCH)
    _after_pk = page[-1][0].pk if len(page) == BATCH else 0
    asking = Flow.objects.in_bulk([dfid for _, dfid in page if dfid is not None])
    due = []
    for agent, dfid in page:
        flow = None if dfid is None else asking.get(dfid)
        if flow is None:
            is_due = silent_agents.get_silence(agent, listening_since=listening_since, at=at) is not None
        else:
            is_due = silent_agents.is_over(flow, agent)
        if is_due:
            due.append(SilentAgent(agent_pk=agent.pk, dfid=dfid, listening_since=listening_since))
    return due


def keep_round(*, at: datetime) -> datetime:
    """Note that the runtime listens, and return since when without a gap. Seldom writes."""
    row = WatchRound.objects.first()
    if row is not None and row.unbroken_since <= at and abs(at - row.last_at) <= KEPT_EVERY:
        return row.unbroken_since
    broken = row is None or at - row.last_at > GAP or row.unbroken_since > at
    since = at if row is None or broken else row.unbroken_since
    kept = {"last_at": at, "unbroken_since": since}
    transactions.retry_on_conflict(lambda: WatchRound.objects.update_or_create(defaults=kept))
    return since


def reconcile(due: SilentAgent) -> bool:
    """Look again under the locks, and open or end the flow; False where nothing was to be done.

    Runs in the caller's transaction.
    """
    if due.dfid is None:
        return _call_person(due)
    flow = locks.lock_flow(dfid=due.dfid)
    if flow is None:
        return False
    agent = agents.lock_by_pk(pk=flow.agent_id)
    journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
    if not end_if_over(flow=flow, agent=agent, journal=journal):
        return False
    journal.write()
    return True


def end_if_over(*, flow: Flow, agent: Agent, journal: Journal) -> bool:
    """Withdraw the call for a person where the silence is over. The caller holds both, and the journal."""
    if flow.state != FlowState.ESCALATED or flow.reason != Reason.AGENT_SILENT:
        return False
    if not silent_agents.is_over(flow, agent):
        return False
    journal.add(*ports.close_escalations(flow=flow, at=journal.at))
    journal.transition(FlowState.CLOSED, reason=Reason.SILENCE_OVER)
    return True


def watch_again(*, agent: Agent, journal: Journal) -> None:
    """A person has reviewed it: close the flow, and restart the timer now. The caller holds both."""
    agent.watched_from = journal.at
    agent.save(update_fields=["watched_from"])
    journal.transition(FlowState.CLOSED)


def _call_person(due: SilentAgent) -> bool:
    agent = agents.lock_by_pk(pk=due.agent_pk)
    at = clock.now()
    found = silent_agents.get_silence(agent, listening_since=due.listening_since, at=at)
    if found is None:
        return False
    # The agent's lock lets one sweeper in at a time: the second finds what the first has opened.
    asked = Flow.objects.filter(agent=agent, state=FlowState.ESCALATED, reason=Reason.AGENT_SILENT.value)
    if asked.exists():
        return False
    trigger = {
        "type": "silence",
        "last_seen_at": silent_agents.iso(found.last_seen_at),
        "since": silent_agents.iso(found.since),
        "silent_after_s": found.silent_after_s,
    }
    flow = Flow.objects.create(
        tenant=agent.tenant,
        agent=agent,
        trigger=canonical.encode(trigger),
        opened_at=found.at,
        updated_at=found.at,
    )
    journal = Journal(flow=flow, actor=actors.SYSTEM, at=at)
    journal.add(
        events.FlowOpened(
            agent_id=agent.agent_id,
            trigger_commitment=ledger.commit_payload(
                tenant=flow.tenant, data_class=PayloadClass.PARAMETERS, body=bytes(flow.trigger)
            ),
            told_recorded=True,
        )
    )
    journal.transition(FlowState.ESCALATED, reason=Reason.AGENT_SILENT)
    opened = ports.open_agent_escalation(flow=flow, agent=agent, silence=found)
    journal.add(opened.event)
    journal.write()
    return True
