"""Reads of the calls of which a person has yet to state what became of them, though nothing waits for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from audit.events import Kind
from audit.models import LedgerEntry, Payload
from escalations.models import EffectStatement, Escalation
from runtime.models import Attempt
from runtime.queries import doubts

PAGE = 100


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Both sides: what a person stated, and the receipt that came after. Empty `receipt`: it was erased."""

    stated_by: str
    stated_at: datetime
    reason: str
    reported_at: datetime
    receipt: bytes


@dataclass(frozen=True, slots=True)
class Left:
    """A call, the last escalation about its intent, and who aborted what it belonged to.

    With `contradiction` it is not in doubt: it took effect, and a person had stated that it did not.
    """

    call: Attempt
    escalation: Escalation
    left_by: str
    contradiction: Contradiction | None = None


def count(*, tenant: str) -> int:
    """How many calls wait for somebody's statement."""
    return doubts.list_left(tenant=tenant).count()


def count_contradicted(*, tenant: str) -> int:
    """How many of them took effect, against what a person had stated."""
    return doubts.count_contradicted(tenant=tenant)


def list_calls(*, tenant: str) -> Sequence[Left]:
    """The calls, oldest first."""
    calls = list(doubts.list_left(tenant=tenant)[:PAGE])
    about: dict[UUID, Escalation] = {}
    rows = Escalation.objects.of(tenant).filter(intent__in={call.intent_id for call in calls})
    for row in rows.select_related("flow__agent", "decision__approver").order_by(
        "opened_at", "escalation_id"
    ):
        if row.intent_id is not None:
            about[row.intent_id] = row
    against = _contradictions(tenant, [call for call in calls if call.contradicts], about)
    return [
        Left(
            call=call,
            escalation=about[call.intent_id],
            left_by=_who(about[call.intent_id]),
            contradiction=against.get(call.pk),
        )
        for call in calls
        if call.intent_id in about
    ]


def _who(row: Escalation) -> str:
    decision = getattr(row, "decision", None)
    return "" if decision is None else decision.approver.get_username()


def _contradictions(
    tenant: str, calls: Sequence[Attempt], about: dict[UUID, Escalation]
) -> dict[int, Contradiction]:
    if not calls:
        return {}
    reports = _reports(tenant, calls)
    statements = {
        (row.intent_id, row.target_key): row
        for row in EffectStatement.objects.filter(intent__in={call.intent_id for call in calls})
        .select_related("approver")
        .order_by("sequence")
    }
    found = {}
    for call in calls:
        entry, receipt = reports.get((str(call.intent_id), call.target_key), (None, b""))
        stated: Any = statements.get((call.intent_id, call.target_key))
        at, words = getattr(stated, "stated_at", None), getattr(stated, "reason", "")
        if stated is None:
            stated = getattr(about.get(call.intent_id), "decision", None)
            at, words = getattr(stated, "decided_at", None), getattr(stated, "justification", "")
        if stated is not None and at is not None:
            found[call.pk] = Contradiction(
                stated_by=stated.approver.get_username(),
                stated_at=at,
                reason=words,
                reported_at=call.settled_at or at if entry is None else entry.at,
                receipt=receipt,
            )
    return found


def _reports(tenant: str, calls: Sequence[Attempt]) -> dict[tuple[str, str], tuple[LedgerEntry, bytes]]:
    """By intent and key the newest late receipt, from the ledger: no row of the call itself has it."""
    keys = {
        (str(intent_id), number): key
        for intent_id, number, key in Attempt.objects.filter(
            intent__in={call.intent_id for call in calls}
        ).values_list("intent_id", "number", "target_key")
    }
    streams = {str(call.intent.flow_id) for call in calls}
    late = LedgerEntry.objects.filter(tenant=tenant, stream__in=streams, kind=Kind.ATTEMPT_REPORTED_LATE)
    rows = late.order_by("id")
    entries = [(row, row.payload) for row in rows if row.payload.get("receipt_commitment")]
    commitments = {said["receipt_commitment"] for _, said in entries}
    kept = Payload.objects.filter(tenant=tenant, commitment__in=commitments)
    bodies = dict(kept.values_list("commitment", "body"))
    found = {}
    for row, said in entries:
        key = keys.get((said["intent_id"], said["number"]))
        if key is not None:
            body = bodies.get(said["receipt_commitment"])
            found[said["intent_id"], key] = (row, b"" if body is None else bytes(body))
    return found
