"""The evidence about a silent agent as the decision page shows it, built from the stored bundle alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from escalations.presenters import BoundView, Piece, bound, segments
from runtime.contracts.manifest import Weekday
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


def read(bundle: Mapping[str, Any]) -> SilenceView:
    """Read a bundle of the family AGENT."""
    agent, silence = bundle["agent"], bundle["silence"]
    intents, flows = bundle["live_intents"], bundle["open_flows"]
    return SilenceView(
        effect=segments(bundle),
        frozen_at=parse_datetime(bundle["frozen_at"]),
        last_seen_at=None if silence["last_seen_at"] is None else parse_datetime(silence["last_seen_at"]),
        since=parse_datetime(silence["since"]),
        bound=bound(str(silence["awake_s"]), str(silence["silent_after_s"]), "s"),
        hours=_hours(silence["hours"]),
        role=agent["role"].capitalize(),
        owner=effects.visible(agent["owner"]),
        mission=labels.visible_lines(agent["mission"]),
        status=labels.badge(labels.AGENT_STATUSES, agent["status"]),
        manifest_version=agent["manifest_version"] or "",
        intents=[
            Open(
                dfid=item["dfid"],
                badge=Badge("accent", "bolt", item["state"].replace("_", " ").capitalize()),
                words=item["target"],
                at=parse_datetime(item["valid_until"]),
            )
            for item in intents["newest"]
        ],
        intents_total=intents["total"],
        flows=[
            Open(
                dfid=item["dfid"],
                badge=labels.badge(labels.FLOW_STATES, item["state"]),
                words=item["policy_kind"],
                at=parse_datetime(item["opened_at"]),
            )
            for item in flows["newest"]
        ],
        flows_total=flows["total"],
        verdicts=[
            Open(
                dfid=item["dfid"],
                badge=labels.badge(labels.VERDICTS, item["decision"]),
                words=item["policy_kind"],
                at=parse_datetime(item["received_at"]),
            )
            for item in bundle["last_verdicts"]
        ],
        raw=labels.pretty(bundle),
    )


def _hours(hours: Mapping[str, Any] | None) -> str:
    """Return the hours in which the agent is expected to call, as text."""
    if hours is None:
        return "always"
    days, opens, closes = hours["days"], hours["opens"], hours["closes"]
    on = "every day" if len(days) == len(Weekday) else ", ".join(day.capitalize() for day in days)
    is_whole = opens == "00:00" and closes in {"00:00", "23:59"}
    return f"{on}, all day, {hours['zone']}" if is_whole else f"{on}, {opens} to {closes}, {hours['zone']}"
