"""Ledger entries as a timeline: lane, title and one line of text per kind of entry."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.urls import reverse

from audit import actors
from audit.events import Kind
from audit.models import LedgerEntry
from audit.presenters import LANES, Lane, LaneShown, present
from runtime.contracts import states
from runtime.core.views import labels, query_params, stream_names, times
from runtime.kernel import effects

WAIT = timedelta(seconds=5)
WAIT_OF_PERSON = timedelta(seconds=1)
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)(?:\.\d+)?Z")


_LANE_OF_STATE: Mapping[str, Lane] = {
    states.FlowState.VALIDATING: Lane.VALIDATION,
    states.FlowState.ACTIVE: Lane.VALIDATION,
    states.FlowState.ACCEPTED: Lane.VALIDATION,
    states.FlowState.ESCALATED: Lane.ESCALATION,
    states.FlowState.EXECUTING: Lane.EXECUTION,
    states.FlowState.PARTIAL_SUCCESS_DIRTY: Lane.EXECUTION,
    states.FlowState.COMPENSATING: Lane.EXECUTION,
    states.FlowState.CLOSED: Lane.EXECUTION,
    states.FlowState.ABORTED: Lane.DECISION,
}
_TONES: Mapping[str, str] = {
    "REJECT": "danger",
    "FAILED": "danger",
    "ABORTED": "danger",
    "UNKNOWN": "danger",
    "ACCEPT": "ok",
    "SUCCEEDED": "ok",
    "CLOSED": "ok",
    "ESCALATE": "warn",
    "ESCALATED": "warn",
    "HELD": "warn",
    "PARTIAL_SUCCESS_DIRTY": "danger",
    "COMPENSATING": "warn",
    "COMPENSATED": "warn",
}
_BAD = frozenset(
    {
        Kind.INTENT_BLOCKED,
        Kind.INTENT_IN_DOUBT,
        Kind.SAGA_DIRTIED,
        Kind.ESCALATION_REFUSED,
        Kind.ESCALATION_EXPIRED,
        Kind.REQUEST_REFUSED,
        Kind.SYSTEM_STOPPED,
        Kind.AGENT_STOPPED,
        Kind.ROW_MISMATCHED,
    }
)

_WHILE_WITH_PERSON = frozenset(
    {Kind.ESCALATION_REVISED, Kind.ESCALATION_EXPIRED, Kind.ESCALATION_WITHDRAWN, Kind.TASK_OVERDUE}
)
_WHILE_AT_TARGET = frozenset({Kind.CALLBACK_PROGRESSED, Kind.CALLBACK_REPORTED, Kind.CALLBACK_OVERDUE})


@dataclass(frozen=True, slots=True)
class TimelineLine:
    """One entry, ready to show."""

    seq: int
    id: int
    kind: str
    stream: str
    lane: LaneShown
    icon: str
    tone: str
    title: str
    summary: str
    actor: str
    by_person: bool
    at: datetime
    offset: str
    wait: str
    wait_for: str
    hash: str
    claim: bool
    said: str
    minor: bool
    link: str
    link_word: str
    flow_url: str
    url: str


def lane_of(kind: str, payload: Mapping[str, Any]) -> LaneShown:
    """Return the lane of an entry. A state change belongs to the stage that caused it."""
    if kind == Kind.FLOW_MOVED:
        # An abort not made by a person belongs to the earlier state.
        before, after = str(payload.get("from_state")), str(payload.get("to_state"))
        earlier = after == states.FlowState.ABORTED and before != states.FlowState.ESCALATED
        return LANES[_LANE_OF_STATE.get(before if earlier else after, Lane.CONTEXT)]
    return LANES.get(present(kind).lane, LANES[Lane.CONTEXT])


def tone_of(kind: str, payload: Mapping[str, Any]) -> str:
    """Return a tone if the entry is good or bad news; otherwise empty, to use the lane's tone."""
    if kind in _BAD:
        return "danger"
    said = (str(payload.get(name)) for name in ("verdict", "status", "result", "to_state"))
    return next((_TONES[word] for word in said if word in _TONES), "")


def lines(
    entries: Sequence[LedgerEntry],
    *,
    names: Mapping[str, str],
    begun_at: datetime | None = None,
    previous_at: datetime | None = None,
    texts: Mapping[str, str] | None = None,
) -> list[TimelineLine]:
    """Return the entries in the order given; with `begun_at`, with offsets from it and waits between them.

    `texts` maps commitments to their texts: the summaries of steps, which are unverified.
    """
    made = []
    for entry in entries:
        payload = entry.payload
        gap = entry.at - previous_at if begun_at and previous_at else timedelta()
        least = WAIT_OF_PERSON if actors.is_user(entry.actor) else WAIT
        words, said = lane_of(entry.kind, payload), present(entry.kind)
        made.append(
            TimelineLine(
                seq=entry.seq,
                id=entry.pk,
                kind=entry.kind,
                stream=entry.stream,
                lane=words,
                icon=said.icon,
                tone=tone_of(entry.kind, payload) or words.tone,
                title=said.title,
                summary=_short(effects.visible(said.sentence(payload)), entry.actor, names),
                minor=entry.kind == Kind.FLOW_MOVED,
                actor=labels.actor_words(entry.actor, names),
                by_person=actors.is_user(entry.actor),
                at=entry.at,
                offset=f"+{times.span(entry.at - begun_at)}" if begun_at else "",
                wait=times.span(gap) if gap >= least else "",
                wait_for=_waited_for(entry) if gap >= least else "",
                hash=bytes(entry.hash).hex(),
                claim=entry.kind == Kind.STEP_REPORTED,
                said=labels.visible_lines((texts or {}).get(commitment_of(entry), "")),
                link=(link := _link(entry.kind, payload, entry.stream))[0],
                link_word=link[1],
                flow_url=reverse("flow", args=[dfid]) if (dfid := query_params.uuid(entry.stream)) else "",
                url=stream_names.entry_url(entry.stream, entry.seq),
            )
        )
        previous_at = entry.at
    return made


def commitment_of(entry: LedgerEntry) -> str:
    """Return the commitment to the summary of a step; empty if the entry has none."""
    is_step = entry.kind == Kind.STEP_REPORTED
    return str(entry.payload.get("summary_commitment") or "") if is_step else ""


def _short(sentence: str, actor: str, names: Mapping[str, str]) -> str:
    """Shorten timestamps to the time of day, since each line has its date; show actors by name."""
    if actors.is_user(actor) and sentence.startswith(f"{actor} "):
        sentence = labels.actor_words(actor, names) + sentence[len(actor) :]
    return _MOMENT.sub(r"\1 UTC", sentence).replace("agent:", "")


def _link(kind: str, payload: Mapping[str, Any], stream: str) -> tuple[str, str]:
    """Return the link of an entry and its label; empty if it has none, or names what it leads to by no id."""
    match kind:
        case Kind.ESCALATION_OPENED | Kind.ESCALATION_REVISED | Kind.ESCALATION_DECIDED:
            page, named, label = "escalation", "escalation_id", "Open the escalation"
        case Kind.REVIEW_FLAGGED | Kind.REVIEW_REQUESTED | Kind.REVIEW_ROUTED | Kind.REVIEW_CLOSED:
            page, named, label = "review", "review_id", "Open the review"
        case Kind.CHILD_OPENED:
            page, named, label = "flow", "child_dfid", "Open the child flow"
        case Kind.CONTEXT_COMPILED if dfid := query_params.uuid(stream):
            context_ref = str(payload.get("context_ref"))
            return reverse("flow-context", args=[dfid, context_ref]), "Context the agent received"
        case _:
            return "", ""
    found = query_params.uuid(str(payload.get(named)))
    return (reverse(page, args=[found]), label) if found else ("", "")


def _waited_for(entry: LedgerEntry) -> str:
    """Return who was waited for: the actor of the entry, or who had the case or the call until then."""
    if entry.kind in _WHILE_WITH_PERSON and entry.actor == actors.SYSTEM:
        return "a person"
    if entry.kind in _WHILE_AT_TARGET:
        return "the target"
    match entry.actor.partition(":")[0]:
        case "user":
            return "a person"
        case "agent":
            return "the agent"
        case _:
            return "the runtime"
