"""The groups of the queue as its page shows them: rows of one incident, and rows that are alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.dateparse import parse_datetime

from escalations import queue_order
from escalations.contracts import Action, Family
from escalations.evidence_contracts import (
    AnyEvidence,
    AttemptEvidence,
    DecisionEvidence,
    JudgedEvidence,
    OperationalEvidence,
)
from escalations.models import Escalation
from escalations.presenters import Differing, QueueRow
from runtime.contracts import states
from runtime.core.views import labels
from runtime.kernel import effects, finding_words

MOST_AT_ONCE = 100
MOST_DIFFERING = 4
VALUE_CHARS = 60


@dataclass(frozen=True, slots=True)
class Link:
    """Where something can be done to all rows of a group; it leads to a page that asks first."""

    word: str
    url: str


@dataclass(frozen=True, slots=True)
class GroupView:
    """Rows under one heading, or a single row without: then `key` is empty.

    Of an incident `cause` and `words` say what holds the rows up, since when if it is known.
    """

    key: str
    rows: Sequence[QueueRow]
    is_incident: bool = False
    cause: str = ""
    words: str = ""
    since: datetime | None = None
    links: Sequence[Link] = ()
    agent_id: str = ""
    differing: Sequence[str] = ()


def views(
    *, escalations: Sequence[Escalation], rows: Sequence[QueueRow], evidence: Mapping[Any, AnyEvidence]
) -> list[GroupView]:
    """The groups of a page, in its order; `rows` are the lines of the escalations.

    A row whose evidence does not match the ledger is shown by itself. The columns by which rows are gathered
    may have been rewritten, so a group may hold evidence of several forms.
    """
    lines = dict(zip((item.pk for item in escalations), rows, strict=True))
    found: list[GroupView] = []
    for group in queue_order.gather(escalations):
        trusted = [item for item in group.rows if item.pk in evidence]
        found += [GroupView(key="", rows=[lines[item.pk]]) for item in group.rows if item.pk not in evidence]
        if not group.key or len(trusted) < queue_order.LEAST_IN_INCIDENT:
            found += [GroupView(key="", rows=[lines[item.pk]]) for item in trusted]
            continue
        shown = [evidence[item.pk] for item in trusted]
        members = [lines[item.pk] for item in trusted]
        if group.is_incident:
            found.append(_incident(group.key, shown, members))
        else:
            found.append(_alike(group.key, shown, members))
    return found


def _incident(key: str, shown: Sequence[AnyEvidence], members: Sequence[QueueRow]) -> GroupView:
    first, ids = shown[0], [line.id for line in members]
    if isinstance(first, OperationalEvidence):
        tried = [one.operational.attempts for one in shown if isinstance(one, OperationalEvidence)]
        moments = [parse_datetime(attempts[0].started_at) for attempts in tried if attempts]
        last = first.operational.attempts[-1] if first.operational.attempts else None
        return GroupView(
            key=key,
            rows=members,
            is_incident=True,
            cause=effects.visible(first.operational.target),
            words="" if last is None else _how_it_fails(last),
            since=min((at for at in moments if at is not None), default=None),
            links=[_link("Resume", Action.RESUME, ids), _link("Abort", Action.ABORT, ids)],
        )
    failing = first.failing[0] if isinstance(first, DecisionEvidence) and first.failing else None
    return GroupView(
        key=key,
        rows=members,
        is_incident=True,
        cause="" if failing is None else failing.check,
        words="" if failing is None else effects.visible(finding_words.message_of(failing, first.amounts)),
        links=[_link("Abort", Action.ABORT, ids)],
    )


def _how_it_fails(attempt: AttemptEvidence) -> str:
    if attempt.status_code:
        return f"answers {attempt.status_code}"
    return f"fails with {attempt.error_category or attempt.state}"


def _alike(key: str, shown: Sequence[AnyEvidence], members: Sequence[QueueRow]) -> GroupView:
    first = members[0]
    judged = [one for one in shown if isinstance(one, JudgedEvidence)]
    names = sorted({name for one in judged for name in one.proposal.params})
    # The parameters in which the members differ.
    differing = [name for name in names if len({repr(one.proposal.params.get(name)) for one in judged}) > 1]
    ids = [line.id for line in members]
    links = [_link("Abort", Action.ABORT, ids)]
    if first.family == Family.DECISION and first.impact == states.Impact.LOW_IMPACT:
        links.insert(0, _link("Override", Action.OVERRIDE, ids))
    return GroupView(
        key=key,
        rows=[
            replace(
                line, alike=True, differs=tuple(_differing(one, name) for name in differing[:MOST_DIFFERING])
            )
            if isinstance(one, JudgedEvidence)
            else line
            for line, one in zip(members, shown, strict=True)
        ],
        links=links,
        agent_id=first.agent_id,
        differing=differing,
    )


def _differing(shown: JudgedEvidence, name: str) -> Differing:
    params, unit = shown.proposal.params, shown.amounts.params.get(name, "")
    written = effects.visible(labels.amount(params[name], unit)) if name in params else "not given"
    is_long = len(written) > VALUE_CHARS
    return Differing(
        name=effects.visible(name)[:VALUE_CHARS], value=f"{written[:VALUE_CHARS]}…" if is_long else written
    )


def _link(word: str, action: Action, ids: Sequence[str]) -> Link:
    chosen = ids[:MOST_AT_ONCE]
    number = f"all {len(ids)}" if len(ids) <= MOST_AT_ONCE else f"the first {MOST_AT_ONCE}"
    asked = [("action", action.value), *(("escalation", one) for one in chosen)]
    return Link(word=f"{word} {number}", url=f"{reverse('escalation-bulk')}?{urlencode(asked)}")
