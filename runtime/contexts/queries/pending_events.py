"""What concerns an agent itself and has not been sent yet: found by comparing, so that nothing is fanned out.

A state write never waits for its readers, a fact that moves ten times between two looks is one event, and an
agent that never looks costs no row.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from audit import actors, canonical
from audit.events import Kind
from audit.models import LedgerEntry, StreamHead
from runtime.contexts.models import AgentEvent, Inbox, Timer
from runtime.contracts.api_schemas import FeedbackEvent
from runtime.contracts.states import ENDED, AgentEventType
from runtime.flows.models import Flow
from runtime.flows.queries import feedback
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.state.models import Fact
from runtime.state.queries import visible_facts

PAGE = 100
# A manifest that subscribes to more facts than this is notified of the first by path.
MAX_WATCHED = 1000
_TYPES: Mapping[str, AgentEventType] = {
    Kind.AGENT_STATUS_CHANGED: AgentEventType.STATUS_CHANGED,
    Kind.AGENT_AUTONOMY_CHANGED: AgentEventType.AUTONOMY_CHANGED,
    Kind.MANIFEST_ACTIVATED: AgentEventType.MANIFEST_ACTIVATED,
    Kind.AGENT_STOPPED: AgentEventType.STOPPED,
    Kind.AGENT_RESUMED: AgentEventType.RESUMED,
    Kind.AGENT_ADVISED: AgentEventType.RE_ENGAGEMENT_ADVICE,
    Kind.SYSTEM_STOPPED: AgentEventType.STOPPED,
    Kind.SYSTEM_RESUMED: AgentEventType.RESUMED,
}
# Its own id, which it knows, the calls of others that a stop came too late for, and how a score is made:
# who knows how near the next level is could stay just below it.
NOT_FOR_AGENTS = frozenset(
    {
        "agent_id",
        "under_way",
        "score",
        "signals",
        "counts",
        "points",
        "window_from",
        "supervised_at",
        "read_only_at",
        "counts_from",
        "solo",
    }
)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """An event that has no number yet."""

    event_type: AgentEventType
    at: datetime
    body: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What an agent has been notified of."""

    fact_versions: dict[str, int]
    agent_entry: int
    system_entry: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class PendingEvents:
    """News, the marks that go with them, and the rows that they use up."""

    drafts: tuple[Draft, ...]
    marks: Marks
    ended: tuple[Flow, ...]
    timers: tuple[Timer, ...]


@dataclass(frozen=True, kw_only=True)
class EventPage:
    """Events past a cursor, in order, the cursor after them, and whether some before them are lost."""

    events: tuple[FeedbackEvent, ...]
    next: int
    gap: bool


def stream_of(agent: Agent) -> str:
    """The ledger stream of an agent."""
    return actors.agent(agent.agent_id)


def page(*, inbox: Inbox, after: int) -> EventPage:
    """At most PAGE events past `after`."""
    rows = AgentEvent.objects.filter(agent=inbox.agent_id, seq__gt=after).order_by("seq")[:PAGE]
    events = tuple(
        FeedbackEvent(
            seq=row.seq, event_type=row.event_type, at=row.at, data=canonical.decode(bytes(row.body))
        )
        for row in rows
    )
    return EventPage(events=events, next=events[-1].seq if events else after, gap=after < inbox.dropped_seq)


def current(agent: Agent, *, at: datetime) -> Marks:
    """The marks of an agent that knows everything as it is, with the tokens that it has at that moment."""
    return Marks(
        fact_versions=dict(_facts(agent).order_by("path").values_list("path", "version")[:MAX_WATCHED]),
        agent_entry=_head(agent.tenant, stream_of(agent)),
        system_entry=_head(agent.tenant, actors.SYSTEM),
        tokens=feedback.escalation_tokens(agent, at=at),
    )


def find(*, agent: Agent, inbox: Inbox, at: datetime) -> PendingEvents:
    """What has come since the inbox's marks; costs a handful of queries, and writes nothing."""
    told: dict[str, int] = canonical.decode(bytes(inbox.fact_versions))
    now = current(agent, at=at)
    ended = tuple(
        Flow.objects.filter(delegator=agent, end_told=False, ended_at__isnull=False)
        .select_related("agent")
        .order_by("ended_at")[:PAGE]
    )
    timers = tuple(Timer.objects.filter(agent=agent, due_at__lte=at).order_by("due_at")[:PAGE])
    entries = (
        *_entries(agent.tenant, actors.SYSTEM, inbox.system_entry, now.system_entry),
        *_entries(agent.tenant, stream_of(agent), inbox.agent_entry, now.agent_entry),
    )
    drafts = [
        *entries,
        *(
            Draft(
                event_type=AgentEventType.CHILD_ENDED,
                at=flow.ended_at or flow.updated_at,
                body={
                    "dfid": str(flow.dfid),
                    "parent_dfid": str(flow.parent_id),
                    "agent_id": flow.agent.agent_id,
                    "state": flow.state,
                    "reason": flow.reason,
                },
            )
            for flow in ended
        ),
        *(
            Draft(
                event_type=AgentEventType.TIMER,
                at=timer.due_at,
                body={"timer_id": str(timer.timer_id), "label": timer.label},
            )
            for timer in timers
        ),
        *(
            Draft(event_type=AgentEventType.FACT_CHANGED, at=at, body={"path": path, "version": version})
            for path, version in now.fact_versions.items()
            if told.get(path) != version
        ),
    ]
    if now.tokens != inbox.tokens:
        body = {"escalation_tokens": now.tokens}
        drafts.append(Draft(event_type=AgentEventType.BUDGET_CHANGED, at=at, body=body))
    return PendingEvents(drafts=tuple(drafts), marks=now, ended=ended, timers=timers)


def streams(agent: Agent) -> tuple[str, ...]:
    """The streams whose growth may be news for the agent: where a hint is worth a look."""
    writers = _facts(agent).order_by("writer").values_list("writer", flat=True).distinct()[:PAGE]
    children = Flow.objects.filter(delegator=agent).exclude(state__in=ENDED).order_by("-dfid")
    dfids = (str(dfid) for dfid in children.values_list("dfid", flat=True)[:PAGE])
    # A pack writes facts as `system`: each stream once.
    return tuple(dict.fromkeys((actors.SYSTEM, stream_of(agent), *writers, *dfids)))


def _entries(tenant: str, stream: str, after: int, until: int) -> Iterator[Draft]:
    rows = LedgerEntry.objects.filter(
        tenant=tenant, stream=stream, seq__gt=after, seq__lte=until, kind__in=list(_TYPES)
    )
    for row in reversed(rows.order_by("-seq")[:PAGE]):
        body = {name: value for name, value in row.payload.items() if name not in NOT_FOR_AGENTS}
        scope = {"scope": "system" if stream == actors.SYSTEM else "agent"}
        yield Draft(event_type=_TYPES[row.kind], at=row.at, body=scope | body)


def _facts(agent: Agent) -> Any:
    kinds = granted_kinds.list_granted(agent)
    wanted = Q(pk__in=())
    for selector in visible_facts.selectors(agent=agent, kinds=kinds):
        wanted |= Q(path__startswith=selector) if selector.endswith(".") else Q(path=selector)
    return Fact.objects.of(agent.tenant).filter(wanted)


def _head(tenant: str, stream: str) -> int:
    row = StreamHead.objects.filter(tenant=tenant, stream=stream).values_list("seq", flat=True).first()
    return 0 if row is None else row
