"""Build what the queue and the decision page show from rows and stored evidence; makes no queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from django.urls import reverse

from escalations import contracts
from escalations.evidence_contracts import AnyEvidence, EvidenceDocument, JudgedEvidence, SilenceEvidence
from escalations.models import Escalation
from runtime.contracts import states
from runtime.core.views import labels, query_params
from runtime.core.views.labels import Badge
from runtime.kernel import effects

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
LEAST_ALIKE = 3
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
    """The value that exceeded its limit, and the limit; `width` and `mark` are percentages of the meter."""

    value: str
    limit: str
    width: int
    mark: int


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One line of the queue, from the current evidence.

    `family` is a value of `contracts.Family`. `untrusted`: that evidence does not match the ledger, so the
    effect is not shown.
    """

    id: str
    url: str
    impact: str
    badge: Badge
    effect: Sequence[Piece]
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
    group: str = ""
    alike: bool = False


def rows(
    *,
    escalations: Sequence[Escalation],
    evidence: Mapping[Any, AnyEvidence],
    now: datetime,
    user_pk: int,
) -> list[QueueRow]:
    """Lines for the queue, in the order given; runs of near-identical ones share one heading.

    `evidence` holds the evidence that matches the ledger: `queries.get_evidence`.
    """
    made = [row(item=item, evidence=evidence.get(item.pk), now=now, user_pk=user_pk) for item in escalations]
    grouped: list[QueueRow] = []
    for _, run in groupby(zip(escalations, made, strict=True), key=lambda pair: _likeness(*pair)):
        members = list(run)
        first, shown = members[0]
        # Silences differ only in their time.
        if len(members) < LEAST_ALIKE or first.family == contracts.Family.AGENT or shown.untrusted:
            grouped += [line for _, line in members]
            continue
        # The parameters in which the members of a run differ.
        shown_to = [evidence[item.pk] for item, _ in members]
        params = [one.proposal.params for one in shown_to if isinstance(one, JudgedEvidence)]
        names = sorted({name for given in params for name in given})
        differing = [name for name in names if len({repr(given.get(name)) for given in params}) > 1]
        words = f"differing in {', '.join(differing)}" if differing else "with the same parameters"
        head, *rest = [replace(line, alike=True) for _, line in members]
        grouped += [replace(head, group=f"{len(members)} similar, {words}"), *rest]
    return grouped


def _likeness(item: Escalation, line: QueueRow) -> tuple[object, ...]:
    return (
        item.family,
        line.agent_id,
        line.policy_kind,
        line.reason,
        line.impact,
        item.state,
        line.untrusted,
    )


def row(*, item: Escalation, evidence: AnyEvidence | None, now: datetime, user_pk: int) -> QueueRow:
    """Build one line; its description comes from the stored evidence, if that can be trusted."""
    # Without it, from the columns of the row.
    about = item if evidence is None else evidence
    impact, reason = str(about.impact), about.reason
    is_open = item.state == contracts.State.OPEN
    decision = None if is_open else getattr(item, "decision", None)
    is_claimed = item.claimed_by is not None and item.claimed_until is not None and item.claimed_until > now
    return QueueRow(
        id=str(item.pk),
        url=reverse("escalation", args=[item.pk]),
        impact=impact,
        badge=labels.badge(labels.IMPACTS, impact),
        effect=[] if evidence is None else segments(evidence),
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
        untrusted=evidence is None,
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
        return bound(str(evidence.silence.awake_s), str(evidence.silence.silent_after_s), "s")
    for item in (*evidence.failing, *evidence.referred):
        if item.code == evidence.reason:
            unit = evidence.amounts.of_finding(item.check, item.subject)
            return bound(item.proposed_value or "", item.limit or "", unit)
    return None


@dataclass(frozen=True, slots=True)
class EffectOption:
    """One possible statement about a call in doubt."""

    value: str
    word: str
    hint: str
    chosen: bool


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


def bound(value: str, limit: str, unit: str) -> BoundView | None:
    """Build two compared values of one unit (or ""); with a meter only if both are whole numbers."""
    if not value:
        return None
    width, mark = 0, 0
    if query_params.is_whole(value) and query_params.is_whole(limit) and int(value) > 0:
        top = max(int(value), int(limit))
        width, mark = int(value) * 100 // top, min(99, int(limit) * 100 // top)
    return BoundView(
        value=labels.amount_in(value, unit), limit=labels.amount_in(limit, unit), width=width, mark=mark
    )
