"""What an agent reads about its own flows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from audit import canonical
from runtime.contracts import timestamps
from runtime.contracts.api_schemas import FeedbackEvent
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Feedback, Flow
from runtime.flows.queries import recorded_feedback
from runtime.kernel import budget_rules
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds

MAX_EVENTS = 100


@dataclass(frozen=True, kw_only=True)
class FeedbackPage:
    """Events past a cursor, in order, and the cursor after them."""

    events: tuple[FeedbackEvent, ...]
    next: int
    tampered: Sequence[Mismatch] = ()


def get_flow(*, agent: Agent, dfid: UUID) -> Flow | None:
    """The agent's own flow; None for an unknown one and for another agent's."""
    return Flow.objects.of(agent.tenant).filter(dfid=dfid, agent=agent).first()


def page(*, flow: Flow, after: int) -> FeedbackPage:
    """At most MAX_EVENTS events of a flow past `after`; none where one is not what the ledger recorded."""
    rows = list(Feedback.objects.filter(flow=flow, seq__gt=after).order_by("seq")[:MAX_EVENTS])
    tampered = recorded_feedback.compare(flow, rows)
    if tampered:
        return FeedbackPage(events=(), next=after, tampered=tampered)
    events = tuple(map(read, rows))
    return FeedbackPage(events=events, next=events[-1].seq if events else after)


def latest(*, flow: Flow, count: int) -> tuple[tuple[FeedbackEvent, ...], Sequence[Mismatch]]:
    """The last `count` events of a flow, oldest first; the caller holds its lock.

    Those that are not what the ledger recorded are left out, and named beside.
    """
    if not flow.feedback_seq:
        return (), ()
    rows = list(Feedback.objects.filter(flow=flow).order_by("-seq")[:count])
    tampered = recorded_feedback.compare(flow, rows)
    bad = {item.row_id for item in tampered}
    whole = [read(row) for row in rows if f"{flow.dfid} {row.seq}" not in bad]
    return tuple(reversed(whole)), tampered


def read(row: Feedback) -> FeedbackEvent:
    """A stored event as the agent reads it."""
    return FeedbackEvent(
        seq=row.seq, event_type=row.event_type, at=row.at, data=canonical.decode(bytes(row.body))
    )


def escalation_tokens(agent: Agent, *, at: datetime) -> int:
    """Whole escalation tokens that the agent's bucket holds at a moment."""
    manifest = granted_kinds.manifest_of(agent)
    if manifest is None:
        return 0
    return budget_rules.whole_tokens(
        budget_rules.refill(
            millitokens=agent.escalation_millitokens,
            filled_at_ms=None if agent.bucket_at is None else timestamps.to_ms(agent.bucket_at),
            now_ms=timestamps.to_ms(at),
            per_hour=manifest.escalations_per_hour,
        )
    )
