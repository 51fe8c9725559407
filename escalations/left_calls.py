"""Reads of the calls of which a person has yet to state what became of them, though nothing waits for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from audit import actors, canonical, queries
from audit.events import Kind
from audit.models import LedgerEntry
from escalations.contracts import Action, DecisionState
from escalations.models import Decision, EffectStatement, Escalation
from runtime.contracts.states import Effect
from runtime.flows.models import Attempt
from runtime.flows.queries import calls_in_doubt

PAGE = 100
# Who stated it, when, and why.
Stated = tuple[str, datetime, str]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Both sides: what a person stated, and the receipt that came after.

    Empty `receipt`: it was erased, or, with `is_tampered`, what is stored of it is not what came.
    """

    stated_by: str
    stated_at: datetime
    reason: str
    reported_at: datetime
    receipt: bytes
    is_tampered: bool = False


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
    return calls_in_doubt.count_left(tenant=tenant)


def count_in_doubt(*, tenant: str) -> int:
    """How many of them are in doubt: all but those that `count_contradicted` counts."""
    return calls_in_doubt.count_left_in_doubt(tenant=tenant)


def count_contradicted(*, tenant: str) -> int:
    """How many of them took effect, against what a person had stated."""
    return calls_in_doubt.count_contradicted(tenant=tenant)


def list_calls(*, tenant: str) -> Sequence[Left]:
    """The calls, oldest first."""
    calls = calls_in_doubt.list_left(tenant=tenant, most=PAGE)
    about: dict[UUID, Escalation] = {}
    rows = Escalation.objects.of(tenant).filter(intent__in={call.intent_id for call in calls})
    for row in (
        rows.select_related("flow__agent")
        .prefetch_related("decisions__approver")
        .order_by("opened_at", "escalation_id")
    ):
        if row.intent_id is not None:
            about[row.intent_id] = row
    against = _contradictions(tenant, [call for call in calls if call.contradicts])
    found = []
    for call in calls:
        escalation = about.get(call.intent_id)
        if escalation is not None:
            decision = escalation.decision
            left_by = "" if decision is None else decision.approver.get_username()
            contradiction = against.get(call.pk)
            found.append(Left(call=call, escalation=escalation, left_by=left_by, contradiction=contradiction))
    return found


def _contradictions(tenant: str, calls: Sequence[Attempt]) -> dict[int, Contradiction]:
    if not calls:
        return {}
    reports = _reports(tenant, calls)
    intents = {call.intent_id for call in calls}
    statements = EffectStatement.objects.filter(intent__in=intents, effect=Effect.NOT_HAPPENED)
    later = list(statements.select_related("approver").order_by("-sequence"))
    stating = [action for action in Action if action.spec.states_effect]
    decided = Decision.objects.filter(
        escalation__intent__in=intents, action__in=stating, state=DecisionState.IN_EFFECT
    )
    decisions = list(decided.select_related("approver", "escalation").order_by("decided_at"))
    found = {}
    for call in calls:
        entry, receipt = reports.get((str(call.intent_id), call.target_key), (None, b""))
        stated = _stated_later(call, later) or _decided(call, decisions)
        if stated is not None:
            by, at, words = stated
            found[call.pk] = Contradiction(
                stated_by=by,
                stated_at=at,
                reason=words,
                reported_at=call.settled_at or at if entry is None else entry.at,
                receipt=receipt or b"",
                is_tampered=receipt is None,
            )
    return found


def _stated_later(call: Attempt, rows: Sequence[EffectStatement]) -> Stated | None:
    """The last statement on this list that the receipt contradicts, where there is one."""
    for row in rows:
        is_about = (row.intent_id, row.target_key) == (call.intent_id, call.target_key)
        if is_about and actors.user(row.approver_id) == call.contradicts:
            return row.approver.get_username(), row.stated_at, row.reason
    return None


def _decided(call: Attempt, rows: Sequence[Decision]) -> Stated | None:
    """The first decision after the call that states it: later ones may be about other calls of the intent."""
    for row in rows:
        is_after = call.finished_at is None or row.decided_at >= call.finished_at
        is_about = row.escalation.intent_id == call.intent_id and is_after
        if is_about and actors.user(row.approver_id) == call.contradicts and _may_deny(row):
            return row.approver.get_username(), row.decided_at, row.justification
    return None


def _may_deny(row: Decision) -> bool:
    """Whether it was signed that nothing happened; also where the statement cannot be read any more."""
    try:
        statement = canonical.decode(bytes(row.statement))
    except (canonical.CanonicalError, TypeError):  # a database can hold a text where bytes belong
        return True
    return not isinstance(statement, dict) or statement.get("effect") == Effect.NOT_HAPPENED


def _reports(
    tenant: str, calls: Sequence[Attempt]
) -> dict[tuple[str, str], tuple[LedgerEntry, bytes | None]]:
    """By intent and key the newest late receipt, from the ledger: no row of the call itself has it.

    Empty where it was erased, None where what is stored is not what its entry committed to.
    """
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
    commitments = {payload["receipt_commitment"] for _, payload in entries}
    bodies = queries.list_bodies(tenant=tenant, commitments=commitments)
    found: dict[tuple[str, str], tuple[LedgerEntry, bytes | None]] = {}
    for row, payload in entries:
        key = keys.get((payload["intent_id"], payload["number"]))
        if key is not None:
            found[payload["intent_id"], key] = (row, bodies.get(payload["receipt_commitment"]))
    return found
