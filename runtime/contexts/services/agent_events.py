"""The agent's own stream of events: made when it is read, numbered, and kept up to a bound."""

from datetime import timedelta

from audit import canonical
from runtime.contexts.models import AgentEvent, Inbox, Timer
from runtime.contexts.queries import pending_events
from runtime.contexts.queries.pending_events import EventPage, Marks
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.flows.models import Flow
from runtime.registry.models import Agent

# An agent of several instances reads the same stream at different places; the slowest has this much room.
KEPT = 500
MAX_TIMERS = 20


def begin(*, agent: Agent) -> None:
    """Start an agent's stream from the current state; later handshakes change nothing."""
    if Inbox.objects.filter(agent=agent).exists():
        return
    Inbox.objects.get_or_create(agent=agent, defaults=_columns(pending_events.current(agent, at=clock.now())))
    Flow.objects.filter(delegator=agent, end_told=False, ended_at__isnull=False).update(end_told=True)


def has_news(*, agent: Agent, after: int) -> bool:
    """Whether `read` has something to return; writes nothing."""
    inbox = Inbox.objects.filter(agent=agent).first()
    if inbox is None or inbox.seq > after:
        return True
    return bool(pending_events.find(agent=agent, inbox=inbox, at=clock.now()).drafts)


def read(*, agent: Agent, after: int) -> EventPage:
    """The events past `after`; what has come since the last look becomes events first."""
    inbox = Inbox.objects.filter(agent=agent).first()
    if inbox is None or pending_events.find(agent=agent, inbox=inbox, at=clock.now()).drafts:
        inbox = _collect(agent)
    return pending_events.page(inbox=inbox, after=after)


@transactions.retried
def set_timer(*, agent: Agent, asked: api_schemas.TimerRequest) -> api_schemas.TimerAnswer | Problem:
    """Wake the agent by an event after so many seconds; 409 TOO_MANY_TIMERS past MAX_TIMERS running ones."""
    begin(agent=agent)
    Inbox.objects.select_for_update().get(agent=agent)  # the count is exact only under the lock
    if Timer.objects.filter(agent=agent).count() >= MAX_TIMERS:
        detail = f"An agent has at most {MAX_TIMERS} timers. Read the events of those that are due."
        return Problem(code=ProblemCode.TOO_MANY_TIMERS, detail=detail)
    due_at = clock.now() + timedelta(seconds=asked.after_s)
    row = Timer.objects.create(agent=agent, due_at=due_at, label=asked.label)
    return api_schemas.TimerAnswer(timer_id=str(row.timer_id), due_at=row.due_at)


@transactions.retried
def _collect(agent: Agent) -> Inbox:
    begin(agent=agent)
    inbox = Inbox.objects.select_for_update().get(agent=agent)
    # Looked for again under the lock: a second reader must not tell the same news twice.
    found = pending_events.find(agent=agent, inbox=inbox, at=clock.now())
    if not found.drafts:
        return inbox
    first = inbox.seq + 1
    AgentEvent.objects.bulk_create(
        AgentEvent(
            agent_id=inbox.agent_id,
            seq=seq,
            event_type=draft.event_type,
            at=draft.at,
            body=canonical.encode(draft.body),
        )
        for seq, draft in enumerate(found.drafts, start=first)
    )
    inbox.seq += len(found.drafts)
    for name, value in _columns(found.marks).items():
        setattr(inbox, name, value)
    if inbox.seq > KEPT:
        inbox.dropped_seq = inbox.seq - KEPT
        AgentEvent.objects.filter(agent=inbox.agent_id, seq__lte=inbox.dropped_seq).delete()
    inbox.save()
    Flow.objects.filter(pk__in=[flow.pk for flow in found.ended]).update(end_told=True)
    Timer.objects.filter(pk__in=[timer.pk for timer in found.timers]).delete()
    return inbox


def _columns(marks: Marks) -> dict[str, object]:
    return {
        "fact_versions": canonical.encode(marks.fact_versions),
        "agent_entry": marks.agent_entry,
        "system_entry": marks.system_entry,
        "tokens": marks.tokens,
    }
