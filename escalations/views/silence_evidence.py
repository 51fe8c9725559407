"""The evidence about a silent agent as the decision page shows it, built from the stored evidence alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.dateparse import parse_datetime

from audit import canonical
from escalations.evidence_contracts import SilenceEvidence
from escalations.presenters import BoundView, Piece, crossed, segments
from runtime.contracts.manifest import Hours, Weekday
from runtime.core.views import labels
from runtime.core.views.labels import Badge
from runtime.kernel import effects


@dataclass(frozen=True, slots=True)
class Open:
    """An open flow or call of the agent, or one of its latest verdicts."""

    dfid: str
    badge: Badge
    words: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class SilenceView:
    """Everything the evidence sections show. A total may be larger than the number listed."""

    effect: Sequence[Piece]
    frozen_at: datetime | None
    last_seen_at: datetime | None
    since: datetime | None
    bound: BoundView | None
    hours: str
    role: str
    owner: str
    mission: str
    status: Badge
    manifest_version: str
    intents: Sequence[Open]
    intents_total: int
    flows: Sequence[Open]
    flows_total: int
    verdicts: Sequence[Open]
    raw: str


def read(evidence: SilenceEvidence, *, body: bytes) -> SilenceView:
    """Build the view of the evidence about a silent agent; `body` is what is stored of it."""
    agent, silence = evidence.agent, evidence.silence
    return SilenceView(
        effect=segments(evidence),
        frozen_at=parse_datetime(evidence.frozen_at),
        last_seen_at=None if silence.last_seen_at is None else parse_datetime(silence.last_seen_at),
        since=parse_datetime(silence.since),
        bound=crossed(evidence),
        hours=_hours(silence.hours),
        role=agent.role.capitalize(),
        owner=effects.visible(agent.owner),
        mission=labels.visible_lines(agent.mission),
        status=labels.badge(labels.AGENT_STATUSES, agent.status),
        manifest_version=agent.manifest_version or "",
        intents=[
            Open(
                dfid=item.dfid,
                badge=Badge("accent", "bolt", item.state.replace("_", " ").capitalize()),
                words=item.target,
                at=parse_datetime(item.valid_until),
            )
            for item in evidence.live_intents.newest
        ],
        intents_total=evidence.live_intents.total,
        flows=[
            Open(
                dfid=item.dfid,
                badge=labels.badge(labels.FLOW_STATES, item.state),
                words=item.policy_kind,
                at=parse_datetime(item.opened_at),
            )
            for item in evidence.open_flows.newest
        ],
        flows_total=evidence.open_flows.total,
        verdicts=[
            Open(
                dfid=item.dfid,
                badge=labels.badge(labels.VERDICTS, item.decision or ""),
                words=item.policy_kind,
                at=parse_datetime(item.received_at),
            )
            for item in evidence.last_verdicts
        ],
        raw=labels.pretty(canonical.decode(body)),
    )


def _hours(hours: Hours | None) -> str:
    """Return the hours in which the agent is expected to call, as text."""
    if hours is None:
        return "always"
    days = ", ".join(day.capitalize() for day in hours.days)
    on = "every day" if len(hours.days) == len(Weekday) else days
    is_whole = hours.opens == "00:00" and hours.closes in {"00:00", "23:59"}
    when = "all day" if is_whole else f"{hours.opens} to {hours.closes}"
    return f"{on}, {when}, {hours.zone}"
