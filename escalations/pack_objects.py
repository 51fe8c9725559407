"""The bytes of a flow's escalations for its evidence pack: evidence, and what people signed.

What the first of two people decided stays here while the escalation is open, as it does on every page: the
second must not learn it from a file either.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from audit import queries
from audit.events import Kind
from audit.packs import sources
from audit.packs.sources import Gathering, Objects
from escalations.models import Decision, EffectStatement, Evidence, Question

HIDDEN = "hidden until the second person has decided"
Entries = Sequence[tuple[Kind, Mapping[str, Any]]]
_EVIDENCE = (Kind.ESCALATION_OPENED, Kind.ESCALATION_REVISED)
_DECIDED = (Kind.ESCALATION_DECIDED, Kind.ESCALATION_FIRST_DECIDED)
_ENDS = (Kind.ESCALATION_DECIDED, Kind.ESCALATION_EXPIRED, Kind.ESCALATION_WITHDRAWN)
_SIGNED = (*_DECIDED, Kind.EFFECT_STATED, Kind.INFORMATION_REQUESTED)
# Evidence and statements repeat what agents, people and targets said there.
_REPEATED = (
    Kind.PROPOSAL_SUBMITTED,
    Kind.INFORMATION_REQUESTED,
    Kind.INFORMATION_ANSWERED,
    Kind.ATTEMPT_FINISHED,
    Kind.ATTEMPT_REPORTED_LATE,
    Kind.STATUS_QUERY_FINISHED,
    Kind.SAGA_ADVANCED,
    Kind.OUTCOME_RECORDED,
)
_KINDS = frozenset({*_EVIDENCE, *_ENDS, *_SIGNED, *_REPEATED, Kind.ESCALATION_REOPENED})


def of_flow(tenant: str, dfid: UUID) -> Objects:
    """What is stored of the digests that the flow's entries name (`settings.DIR_PACK_OBJECTS`)."""
    entries = queries.list_payloads(tenant=tenant, stream=str(dfid), kinds=_KINDS)
    gathered = Gathering()
    if not any(kind in _EVIDENCE for kind, _ in entries):
        return gathered.objects()
    _gather_evidence(gathered, dfid, entries)
    _gather_decisions(gathered, dfid, entries)
    _gather_questions(gathered, dfid, entries)
    _gather_effects(gathered, dfid, entries)
    if sources.has_erased(tenant=tenant, payloads=_of(entries, *_REPEATED)):
        for payload in _of(entries, *_EVIDENCE):
            gathered.withhold(payload.get("evidence_hash"), sources.ERASED)
        for payload in _of(entries, *_SIGNED):
            gathered.withhold(payload.get("statement_digest"), sources.ERASED)
    # Last, so that nothing gives it after all.
    for digest in _list_hidden(entries):
        gathered.withhold(digest, HIDDEN)
    return gathered.objects()


def _list_hidden(entries: Entries) -> list[object]:
    """The statements of first decisions on escalations that are open, as the entries tell it.

    The rows are not asked: whoever rewrites one must not open with it what is hidden.
    """
    is_open: dict[object, bool] = {}
    for kind, payload in entries:
        if kind in (Kind.ESCALATION_OPENED, Kind.ESCALATION_REOPENED, *_ENDS):
            is_open[payload.get("escalation_id")] = kind not in _ENDS
    return [
        payload.get("statement_digest")
        for payload in _of(entries, Kind.ESCALATION_FIRST_DECIDED)
        if is_open.get(payload.get("escalation_id"), True)
    ]


def _of(entries: Entries, *kinds: Kind) -> list[Mapping[str, Any]]:
    return [payload for kind, payload in entries if kind in kinds]


def _gather_evidence(gathered: Gathering, dfid: UUID, entries: Entries) -> None:
    rows = Evidence.objects.filter(escalation__flow=dfid)
    columns = rows.values_list("escalation_id", "revision", "body")
    bodies = {(str(name), revision): body for name, revision, body in columns}
    for payload in _of(entries, *_EVIDENCE):
        key = (payload.get("escalation_id"), payload.get("revision"))
        gathered.take(payload.get("evidence_hash"), [bodies[key]] if key in bodies else [])


def _gather_decisions(gathered: Gathering, dfid: UUID, entries: Entries) -> None:
    signed = _of(entries, *_DECIDED)
    rows = Decision.objects.filter(escalation__flow=dfid)
    columns = rows.values_list("escalation_id", "sequence", "statement") if signed else ()
    statements = {(str(name), sequence): statement for name, sequence, statement in columns}
    for payload in signed:
        # Entries from before decisions could be taken back do not count them.
        key = (payload.get("escalation_id"), payload.get("sequence", 1))
        gathered.take(payload.get("statement_digest"), [statements[key]] if key in statements else [])


def _gather_questions(gathered: Gathering, dfid: UUID, entries: Entries) -> None:
    asked = _of(entries, Kind.INFORMATION_REQUESTED)
    rows = Question.objects.filter(escalation__flow=dfid)
    columns = rows.values_list("escalation_id", "number", "statement") if asked else ()
    statements = {(str(name), number): statement for name, number, statement in columns}
    for payload in asked:
        key = (payload.get("escalation_id"), payload.get("number"))
        gathered.take(payload.get("statement_digest"), [statements[key]] if key in statements else [])


def _gather_effects(gathered: Gathering, dfid: UUID, entries: Entries) -> None:
    """A call may have several statements, which no number of the entry tells apart: the digest does."""
    stated = _of(entries, Kind.EFFECT_STATED)
    rows = EffectStatement.objects.filter(escalation__flow=dfid)
    statements: dict[str, list[object]] = defaultdict(list)
    for intent, statement in rows.values_list("intent_id", "statement") if stated else ():
        statements[str(intent)].append(statement)
    for payload in stated:
        gathered.take(payload.get("statement_digest"), statements[str(payload.get("intent_id"))])
