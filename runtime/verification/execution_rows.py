"""The rows of what was executed against the entries of its flows, for `verify_ledger`."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from operator import itemgetter
from uuid import UUID

from audit import cells
from audit.chain import ChainBreak
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found, NotProved
from runtime.contracts.states import STANDING, Effect, IntentState, ReservationState
from runtime.flows.models import Attempt, Intent, Outcome, StepReceipt
from runtime.flows.queries import intent_records
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.resources.models import Reservation
from runtime.verification.flow_entries import Entries, Payloads, entries_of, note_extra, of_kind

_INTENT = itemgetter("intent_id")
_ATTEMPTED = (Kind.ATTEMPT_STARTED, Kind.ATTEMPT_FINISHED)
_RESERVED = (Kind.RESOURCE_RESERVED, Kind.RESOURCE_PINNED, Kind.RESOURCE_COMMITTED, Kind.RESOURCE_RELEASED)
Records = Mapping[str, intent_records.IntentRecord]


class ExecutionRowCheck(row_checks.FlowRows):
    """Intents, attempts, outcomes, receipts of steps, and reservations."""

    # Every flow is opened: one without an intent in its entries must have none in the tables.
    kinds = frozenset({Kind.FLOW_OPENED, Kind.FLOW_ERASED, *intent_records.KINDS, *_RESERVED})
    not_proved = (
        NotProved(
            "runtime_attempt",
            ("effect", "settled_by", "settled_at", "contradicts"),
            "of calls in doubt that were settled before each had an entry",
        ),
        NotProved(
            "runtime_attempt",
            ("lease_owner", "sent_at", "detail"),
            "which worker called, and error messages",
        ),
        NotProved(
            "runtime_reservation",
            ("flow", "proposal", "amount", "reason", "lease_until", "reserved_at", "ended_at"),
            "compared by flow and resource (how many, held and used amounts), not row by row",
        ),
    )

    def compare(self, flows: Mapping[UUID, Entries]) -> Iterable[ChainBreak]:
        """All findings of some flows, in the order of their tables."""
        found = Found(erased=row_checks.erased_in(flows))
        records: dict[str, intent_records.IntentRecord] = {}
        for entries in flows.values():
            of_flow: dict[str, intent_records.IntentRecord] = {}
            for entry in entries:
                intent_records.follow(of_flow, entry.kind, entry.payload)
            records |= of_flow
        _compare_intents(found, flows, records)
        _compare_attempts(found, flows, records)
        _compare_results(found, flows, records)
        _compare_reservations(found, flows)
        return found.breaks


def _compare_intents(found: Found, flows: Mapping[UUID, Entries], records: Records) -> None:
    rows = {str(row.pk): row for row in Intent.objects.filter(flow__in=flows)}
    last = {
        entry.payload["intent_id"]: entry
        for entry in entries_of(flows, *intent_records.KINDS - {Kind.FLOW_MOVED})
    }
    ends = {entry.payload["intent_id"]: entry for entry in entries_of(flows, *intent_records.ENDS)}
    entries = entries_of(flows, Kind.INTENT_CREATED)
    for entry, row in found.rows_of(entries, rows, _INTENT, "the intent {intent_id}"):
        payload = entry.payload
        found.bytes(entry, "intent.requests", payload["request_digest"], row.requests)
        found.same(entry, "intent.proposal", payload["proposal_id"], str(row.proposal_id))
        found.same(entry, "intent.tenant", entry.tenant, row.tenant)
        found.same(entry, "intent.flow", entry.stream, str(row.flow_id))
        found.then(entry, entry, "intent.created_at", row.created_at)
        found.then(ends.get(payload["intent_id"]), entry, "intent.finished_at", row.finished_at)
        found.same(entry, "intent.steps", len(payload["step_ids"]), row.steps)
        record = records[payload["intent_id"]]
        for name, recorded, held in intent_records.list_unlike(record, row):
            found.same(last[payload["intent_id"]], f"intent.{name}", recorded, held)
        if cells.digest_of(row.requests) == payload["request_digest"]:
            found.same(entry, "intent.target", IntentPlan.of(row).target_at(row.position), row.target)
        if record.at_rest is not None:
            found.same(last[payload["intent_id"]], "intent.state", record.at_rest.value, row.state)
        elif row.state not in (IntentState.PENDING, IntentState.CLAIMED):
            found.same(last[payload["intent_id"]], "intent.state", "waiting or claimed", row.state)
    note_extra(found, flows, ((row.flow_id, name) for name, row in rows.items()), "intent")


def _compare_attempts(found: Found, flows: Mapping[UUID, Entries], records: Records) -> None:
    rows = {(str(row.intent_id), row.number): row for row in Attempt.objects.filter(intent__flow__in=flows)}
    of_intents: dict[str, list[Attempt]] = defaultdict(list)
    for (intent, _), row in rows.items():
        of_intents[intent].append(row)
    last: dict[tuple[str, int], Entry] = {}
    settled: dict[tuple[str, int], Entry] = {}
    for _, entry in of_kind(flows, *_ATTEMPTED):
        payload = entry.payload
        key = (payload["intent_id"], payload["number"])
        last[key] = entry
        if key in rows and entry.kind == Kind.ATTEMPT_STARTED:
            found.then(entry, entry, "attempt.started_at", rows[key].started_at)
        if key in rows and entry.kind == Kind.ATTEMPT_FINISHED:
            found.then(entry, entry, "attempt.finished_at", rows[key].finished_at)
            found.same(
                entry, "attempt.error_category", payload["error_category"] or "", rows[key].error_category
            )
            found.same(entry, "attempt.status_code", payload["status_code"], rows[key].status_code)
    for _, entry in of_kind(flows, Kind.ATTEMPT_SETTLED):
        for number in entry.payload["numbers"]:
            key = (entry.payload["intent_id"], number)
            last[key] = settled[key] = entry
    for key, entry in settled.items():
        if key in rows:
            found.same(entry, "attempt.settled_at", entry.at, rows[key].settled_at)
    for intent, record in records.items():
        unlike = intent_records.list_unlike_calls(record, of_intents[intent])
        for number, name, recorded, held in unlike:
            if name:
                found.same(last[intent, number], f"attempt.{name}", recorded, held)
            else:
                found.missing(last[intent, number], f"attempt {number}")
    dfids = {entry.payload["intent_id"]: dfid for dfid, entry in of_kind(flows, Kind.INTENT_CREATED)}
    left = [(dfids[intent], number) for intent, number in rows.keys() - last.keys() if intent in dfids]
    note_extra(found, flows, left, "attempt")


def _compare_results(found: Found, flows: Mapping[UUID, Entries], records: Records) -> None:
    kept = Payloads(flows)
    outcomes = Outcome.objects.filter(intent__flow__in=flows).select_related("intent")
    rows = {str(row.pk): row for row in outcomes}
    entries = entries_of(flows, Kind.OUTCOME_RECORDED)
    for entry, row in found.rows_of(entries, rows, _INTENT, "the outcome"):
        found.same(entry, "outcome.status", entry.payload["status"], row.status)
        kept.compare(found, entry, "outcome.receipt", "receipt_commitment", row.receipt)
        found.same(entry, "outcome.recorded_at", entry.at, row.recorded_at)
        if found.erasure_after(entry) is not None:
            continue
        deviates = bool(entry.payload.get("deviations", 0))
        found.same(entry, "outcome.deviated_at", deviates, row.deviated_at is not None)
        if entry.payload.get("outcome_digest") is not None:
            digest = intent_records.outcome_digest(row)
            found.same(entry, "outcome", entry.payload["outcome_digest"], digest)
    note_extra(found, flows, ((row.intent.flow_id, name) for name, row in rows.items()), "outcome")
    received = StepReceipt.objects.filter(intent__flow__in=flows).select_related("intent")
    steps = {(str(row.intent_id), row.step, row.direction): row for row in received}
    by_step = itemgetter("intent_id", "step", "direction")
    advanced = entries_of(flows, Kind.SAGA_ADVANCED)
    for entry, step in found.rows_of(advanced, steps, by_step, "the receipt of step {step}"):
        kept.compare(found, entry, "stepreceipt.receipt", "receipt_commitment", step.receipt)
        record = records[entry.payload["intent_id"]]
        found.same(entry, "stepreceipt.position", intent_records.place_of(record, step.step), step.position)
        found.same(entry, "stepreceipt.recorded_by", entry.actor, step.recorded_by)
        found.same(entry, "stepreceipt.recorded_at", entry.at, step.recorded_at)
    note_extra(found, flows, ((row.intent.flow_id, key[1]) for key, row in steps.items()), "receipt of step")


def _compare_reservations(found: Found, flows: Mapping[UUID, Entries]) -> None:
    """By resource: what is held, what is used up, and how many reservations there are."""
    stored: dict[tuple[UUID, str], list[int]] = defaultdict(lambda: [0, 0])
    rows: Counter[tuple[UUID, str]] = Counter()
    columns = ("flow_id", "resource__name", "amount", "state")
    for dfid, name, amount, state in Reservation.objects.filter(flow__in=flows).values_list(*columns):
        rows[dfid, name] += 1
        if state in STANDING or state == ReservationState.COMMITTED:
            stored[dfid, name][int(state == ReservationState.COMMITTED)] += amount
    recorded: dict[tuple[UUID, str], list[int]] = defaultdict(lambda: [0, 0])
    last: dict[tuple[UUID, str], Entry] = {}
    reserved: Counter[tuple[UUID, str]] = Counter()
    for dfid, entry in of_kind(flows, *_RESERVED):
        key, amount = (dfid, entry.payload["resource"]), entry.payload["amount"]
        last[key] = entry
        reserved[key] += entry.kind == Kind.RESOURCE_RESERVED
        if entry.kind == Kind.RESOURCE_RESERVED or entry.payload.get("again"):
            recorded[key][0] += amount
        elif entry.kind == Kind.RESOURCE_COMMITTED:
            recorded[key][0] -= amount
            recorded[key][1] += amount
        elif entry.kind == Kind.RESOURCE_RELEASED:
            # Of what was used up: someone has stated that the call did not happen. A constraint may have the
            # same word for its id; its flow ends with nothing used up.
            stated = entry.payload["reason"] == Effect.NOT_HAPPENED
            is_given_back = stated and recorded[key][1] >= amount
            recorded[key][int(is_given_back)] -= amount
    for key, entry in last.items():
        found.same(entry, f"what is held and used of {key[1]}", recorded[key], stored[key])
        found.same(entry, f"how many reservations of {key[1]} there are", reserved[key], rows[key])
    note_extra(found, flows, rows.keys() - last.keys(), "reservation of")
