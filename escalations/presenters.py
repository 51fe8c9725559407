"""Build what the queue and the decision page show from rows and stored evidence; makes no queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from escalations import contracts, past_outcomes, patterns
from escalations.evidence_contracts import AnyEvidence, EvidenceDocument, SilenceEvidence
from escalations.models import Escalation
from runtime.contracts import states
from runtime.core.views import addresses, labels, query_params
from runtime.core.views.labels import Badge
from runtime.kernel import effects, lookalikes

# Compared values that are kept: every refresh of the queue writes those of its rows again.
MOST_BOUNDS = 2048
RESOLUTIONS: Mapping[str, Badge] = {
    **{action: Badge(spec.ended_tone, spec.icon, spec.ended) for action, spec in contracts.ACTIONS.items()},
    contracts.State.EXPIRED: Badge("warn", "clock", "Deadline passed"),
    contracts.State.WITHDRAWN: Badge("idle", "exit", "Withdrawn"),
    contracts.State.OPEN: Badge("warn", "refer", "Open"),
}
CLOSINGS: Mapping[str, Badge] = {
    "": Badge("info", "wait", "Waiting for the agent"),
    contracts.Closing.ANSWERED: Badge("info", "thought", "Answered, not verified"),
    contracts.Closing.WAIT_ENDED: Badge("warn", "clock", "No answer in time"),
    contracts.Closing.DECIDED: Badge("idle", "check", "Decided without an answer"),
    contracts.Closing.WITHDRAWN: Badge("idle", "exit", "Flow ended first"),
}
# What became of what a person let run, in the order of the page.
ENDINGS: Mapping[past_outcomes.Ending, Badge] = {
    past_outcomes.Ending.EXECUTED: Badge("ok", "check", "Executed"),
    past_outcomes.Ending.FAILED: Badge("danger", "cross", "Failed"),
    past_outcomes.Ending.REVERSED: Badge("warn", "prev", "Reversed", "Completed steps were undone"),
    past_outcomes.Ending.UNCONFIRMED: Badge(
        "warn", "ask", "Ended unconfirmed", "It was called, and its result is not known"
    ),
    past_outcomes.Ending.NEVER_RAN: Badge("idle", "exit", "Never ran", "No call was made"),
    past_outcomes.Ending.NOT_ENDED: Badge("info", "clock", "Not ended yet"),
}
# What a person can state about the effect of a call in doubt, and what follows; `{target}` is its target.
EFFECTS: Mapping[str, tuple[str, str]] = {
    states.Effect.UNKNOWN: (
        "Not known yet",
        "Its reservations count as used, and the call stays in the list of calls in doubt.",
    ),
    states.Effect.NOT_HAPPENED: (
        "It did not and will not take effect: I verified this at {target}",
        "Its reservations are released. Only then can another call replace it.",
    ),
    states.Effect.HAPPENED: (
        "It took effect: I verified this at {target}",
        "Its reservations are used. If you have its receipt, use Mark done instead.",
    ),
}
# For calls left in doubt earlier: no replacement is pending, and the intent can no longer be marked done.
LATER_HINTS: Mapping[str, str] = {
    states.Effect.NOT_HAPPENED: "Its reservations are released.",
    states.Effect.HAPPENED: "Its reservations stay used.",
}
# For a call that undoes a step.
UNDO_HINTS: Mapping[str, str] = {
    states.Effect.UNKNOWN: "The step may still be in effect. Its reservations count as used.",
    states.Effect.NOT_HAPPENED: "The step is still in effect. Its reservations are used.",
    states.Effect.HAPPENED: "The step is undone. Its reservations are released, unless other steps remain.",
}
EFFECT_BADGES: Mapping[str, Badge] = {
    states.Effect.UNKNOWN: Badge("warn", "ask", "Effect not known"),
    states.Effect.NOT_HAPPENED: Badge("idle", "cross", "Did not take effect"),
    states.Effect.HAPPENED: Badge("ok", "check", "Took effect"),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the effect sentence; a value comes from the agent and is shown isolated."""

    text: str
    value: bool


@dataclass(frozen=True, slots=True)
class BoundView:
    """The value that exceeded its limit, and the limit with the share above it, in words.

    `width` and `mark` are percentages of the meter.
    """

    value: str
    limit: str
    width: int
    mark: int


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One line of the queue, from the current evidence.

    `family` is a value of `contracts.Family`. `untrusted`: that evidence does not match the ledger, so the
    effect is not shown. `erased`: there is none, since the words of its flow were erased.
    """

    id: str
    url: str
    impact: str
    badge: Badge
    effect: tuple[Piece, ...]
    agent_id: str
    policy_kind: str
    reason: str
    meaning: str
    bound: BoundView | None
    opened_at: datetime
    resolved_at: datetime | None
    deadline_at: datetime | None
    waiting_until: datetime | None
    family: str
    open: bool
    ended: Badge | None
    ended_by: str
    holder: str
    mine: bool
    untrusted: bool = False
    erased: bool = False
    alike: bool = False
    # "1 of 2" while the first of two decisions awaits the second.
    part: str = ""
    differs: tuple["Differing", ...] = ()


@dataclass(frozen=True, slots=True)
class Differing:
    """A parameter in which a row differs from the others of its group; the value comes from the agent."""

    name: str
    value: str


def rows(
    *,
    escalations: Sequence[Escalation],
    evidence: Mapping[Any, AnyEvidence],
    now: datetime,
    user_pk: int,
    query: str = "",
) -> list[QueueRow]:
    """Lines for the queue, in the order given.

    `evidence` holds the evidence that matches the ledger: `queries.get_evidence`. `query` is that of the
    queue, which the links of the lines carry along.
    """
    return [
        row(item=item, evidence=evidence.get(item.pk), now=now, user_pk=user_pk, query=query)
        for item in escalations
    ]


def row(
    *, item: Escalation, evidence: AnyEvidence | None, now: datetime, user_pk: int, query: str = ""
) -> QueueRow:
    """Build one line; its description comes from the stored evidence, if that can be trusted."""
    # Without it, from the columns of the row.
    about = item if evidence is None else evidence
    impact, reason = str(about.impact), about.reason
    is_open = item.state == contracts.State.OPEN
    decision = None if is_open else item.decision
    is_claimed = item.is_claimed(now)
    is_erased = evidence is None and not is_open and item.flow.erased_at is not None
    return QueueRow(
        id=str(item.pk),
        url=addresses.of_page("escalation", item.pk) + (f"?{urlencode({'from': query})}" if query else ""),
        impact=impact,
        badge=labels.badge(labels.IMPACTS, impact),
        effect=() if evidence is None else tuple(segments(evidence)),
        agent_id=about.agent_id,
        policy_kind=about.policy_kind,
        reason=reason,
        meaning=labels.meaning(reason),
        bound=None if evidence is None else crossed(evidence),
        opened_at=item.opened_at,
        resolved_at=item.resolved_at,
        deadline_at=item.deadline_at,
        waiting_until=item.waiting_until if is_open and is_waiting(item, now) else None,
        family=item.family,
        open=is_open,
        ended=None if is_open else labels.badge(RESOLUTIONS, item.resolution or item.state),
        ended_by=decision.approver.get_username() if decision else "",
        holder=item.claimed_by.get_username() if is_claimed and item.claimed_by else "",
        mine=is_claimed and item.claimed_by_id == user_pk,
        untrusted=evidence is None and not is_erased,
        erased=is_erased,
        part="1 of 2" if is_open and item.first_decision is not None else "",
    )


def is_waiting(item: Escalation, now: datetime) -> bool:
    """Return whether a question is open, so that the deadline is paused."""
    return item.waiting_until is not None and now <= item.waiting_until


def segments(evidence: EvidenceDocument) -> list[Piece]:
    """Return the effect sentence in parts."""
    return [Piece(text=part.text, value=part.value) for part in evidence.effect]


def crossed(evidence: EvidenceDocument) -> BoundView | None:
    """Return the value that exceeded its limit, of the finding that escalated; or the length of a silence."""
    if isinstance(evidence, SilenceEvidence):
        awake, allowed = evidence.silence.awake_s, evidence.silence.silent_after_s
        return bound(evidence.reason, str(awake), str(allowed), "s")
    for item in (*evidence.failing, *evidence.referred):
        if item.code == evidence.reason:
            unit = evidence.amounts.of_finding(item.check, item.subject)
            return bound(item.code, item.proposed_value or "", item.limit or "", unit)
    return None


@dataclass(frozen=True, slots=True)
class EffectOption:
    """One possible statement about a call in doubt."""

    value: str
    word: str
    hint: str
    chosen: bool


NOT_ANSWERED = Badge("warn", "wait", "No answer recorded yet")
QUERY_RESULTS: Mapping[states.QueryResult, Badge] = {
    states.QueryResult.FOUND: Badge("ok", "check", "Found"),
    states.QueryResult.NOT_FOUND: Badge("info", "cross", "Not found"),
    states.QueryResult.UNKNOWN: Badge("warn", "ask", "Still unknown"),
    states.QueryResult.NOT_SENT: Badge("idle", "stop", "Not sent"),
}
QUERY_MEANINGS: Mapping[str, str] = {
    states.QueryResult.FOUND: "By the target's rules the call took effect: 2xx with a JSON object is "
    "its receipt.",
    states.QueryResult.NOT_FOUND: "By the target's rules the call did not take effect: 404 means "
    "that it has no call with this key.",
    states.QueryResult.UNKNOWN: "This says nothing about the call: only 2xx with a JSON object, or "
    "404, does.",
    states.QueryResult.NOT_SENT: "A stop was pressed before the first byte: nothing was sent.",
}


def effect_options(*, target: str, chosen: str, undoes: bool, later: bool = False) -> list[EffectOption]:
    """List the possible statements about a call to `target`; `later` leaves out that it is not known yet."""
    hints = UNDO_HINTS if undoes else LATER_HINTS if later else {}
    return [
        EffectOption(
            value=value,
            word=word.format(target=effects.visible(target) or "the target"),
            hint=hints.get(value, hint),
            chosen=value == chosen,
        )
        for value, (word, hint) in EFFECTS.items()
        if not (later and value == states.Effect.UNKNOWN)
    ]


LIKENESSES: Mapping[lookalikes.Why, str] = {
    lookalikes.Why.LOOKS_THE_SAME: "looks the same in other characters",
    lookalikes.Why.FEW_EDITS: "differs in one or two characters",
}


@dataclass(frozen=True, slots=True)
class SuspectView:
    """A name that is not what it seems; `like` are the known names, each with its uses and why."""

    param: str
    name: str
    is_mixed: bool
    like: Sequence[tuple[str, int, str]]


def suspect(found: patterns.Suspect) -> SuspectView:
    """Build a suspicious name as the page shows it, with invisible characters escaped."""
    return SuspectView(
        param=effects.visible(found.param),
        name=effects.visible(found.name),
        is_mixed=found.is_mixed,
        like=[(effects.visible(item.name), item.uses, LIKENESSES[item.why]) for item in found.like],
    )


def per_hour(tenths: int | None) -> str:
    """Write how many there are in a usual hour, to a tenth; empty if that is not known."""
    if tenths is None:
        return ""
    return f"{tenths // 10:,}.{tenths % 10}" if tenths else "less than 0.1"


@lru_cache(maxsize=MOST_BOUNDS)
def bound(code: str, value: str, limit: str, unit: str) -> BoundView | None:
    """Build the two compared values of a finding, of one unit (or "").

    With a meter only if both are whole numbers.
    """
    if not value:
        return None
    width, mark = 0, 0
    if query_params.is_whole(value) and query_params.is_whole(limit) and int(value) > 0:
        top = max(int(value), int(limit))
        width, mark = int(value) * 100 // top, min(99, int(limit) * 100 // top)
    shown, most = labels.value_and_limit(code, value, limit, unit)
    return BoundView(value=shown, limit=most, width=width, mark=mark)
