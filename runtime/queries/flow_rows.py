"""The rows of flows against the entries of their streams, for `verify_ledger`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from uuid import UUID

from django.db.models import Exists, Model, OuterRef

from audit import canonical, chain, row_checks
from audit.chain import Break
from audit.events import Kind
from audit.models import Payload
from audit.row_checks import Entry, Found, NotProved
from runtime.contracts.guard import bps
from runtime.contracts.outcome import Rendered
from runtime.contracts.states import (
    ENDED,
    STANDING,
    Effect,
    FlowState,
    IntentState,
    ReservationState,
)
from runtime.models import (
    Attempt,
    Feedback,
    Flow,
    Intent,
    Outcome,
    Proposal,
    Reservation,
    Review,
    Snapshot,
    StepReceipt,
    Verdict,
)
from runtime.queries import intent_records

Entries = Sequence[Entry]
_PROPOSAL, _INTENT = itemgetter("proposal_id"), itemgetter("intent_id")
_OF_FLOWS: Sequence[type[Model]] = (Snapshot, Proposal, Intent, Reservation, Review, Feedback)
_ATTEMPTED = (Kind.ATTEMPT_STARTED, Kind.ATTEMPT_FINISHED)
Records = Mapping[str, intent_records.IntentRecord]


class FlowRowCheck(row_checks.FlowRows):
    """Flows, contexts, proposals, verdicts, intents, attempts, outcomes, reservations and reviews."""

    kinds = frozenset(
        {
            Kind.FLOW_OPENED,
            Kind.CONTEXT_COMPILED,
            Kind.PROPOSAL_SUBMITTED,
            Kind.VERDICT_GIVEN,
            *intent_records.KINDS,
            Kind.RESOURCE_RESERVED,
            Kind.RESOURCE_PINNED,
            Kind.RESOURCE_COMMITTED,
            Kind.RESOURCE_RELEASED,
            Kind.REVIEW_FLAGGED,
            Kind.REVIEW_CLOSED,
        }
    )
    not_proved = (
        NotProved("runtime_feedback", (), "what agents were told follows from entries"),
        NotProved("runtime_agentevent", (), "what agents were told follows from entries"),
        NotProved("runtime_inbox", (), "what agents were told follows from entries"),
        NotProved("runtime_answer", (), "what agents were answered follows from entries"),
        NotProved("runtime_computebudget", (), "bounds of a flow, and what its agent says it has used"),
        NotProved("runtime_usagereport", (), "what agents say they have used"),
        NotProved("runtime_guardrun", (), "short-lived; what a guard found is in its review"),
        NotProved("runtime_review", ("run",), "names a row that is short-lived"),
        NotProved("runtime_circuit", (), "short-lived; what happens to targets has entries of its own"),
        NotProved("runtime_session", (), "short-lived; a handshake has an entry of its own"),
        NotProved("runtime_timer", (), "short-lived"),
        NotProved("runtime_boot", (), "short-lived"),
        NotProved("runtime_watchround", (), "short-lived"),
        NotProved(
            "runtime_flow",
            ("root", "depth", "delegator", "attempts_used", "attempts_allowed"),
            "bounds of a flow and of its family, set when it is opened",
        ),
        NotProved(
            "runtime_flow",
            ("children_opened", "end_told", "version", "feedback_seq", "steps_reported", "updated_at"),
            "counters of its rows",
        ),
        NotProved("runtime_proposal", ("explain",), "of those from before explanations were committed to"),
        NotProved("runtime_bundle", ("created_at",), "shared by all that was judged by it"),
        NotProved(
            "runtime_intent",
            ("next_at", "failures", "lease_owner", "lease_until"),
            "the order of work alone",
        ),
        NotProved(
            "runtime_attempt",
            ("effect", "settled_by", "settled_at", "contradicts"),
            "of calls in doubt that were settled before each had an entry",
        ),
        NotProved(
            "runtime_attempt", ("lease_owner", "sent_at", "detail"), "who made the call, and in what words"
        ),
        NotProved(
            "runtime_reservation",
            ("flow", "proposal", "amount", "reason", "lease_until", "reserved_at", "ended_at"),
            "by flow and resource it is compared what is held and what is used up, not row by row",
        ),
    )

    def compare(self, flows: Mapping[UUID, Entries]) -> Iterable[Break]:
        """All findings of some flows, in the order of their tables."""
        found = Found()
        kept = _Payloads(flows)
        records = _follow(flows)
        _compare_flows(found, flows, kept)
        _compare_contexts(found, flows)
        _compare_proposals(found, flows, kept)
        _compare_verdicts(found, flows)
        _compare_intents(found, flows, records)
        _compare_attempts(found, flows, records)
        _compare_results(found, flows, kept, records)
        _compare_reservations(found, flows)
        _compare_reviews(found, flows, kept)
        return found.breaks

    def finish(self) -> Iterator[Break]:
        """Compare what is left, and look for rows whose flow is gone, or that no entry ever opened."""
        yield from super().finish()
        found = Found()
        for tenant, dfid in Flow.objects.filter(head_seq=0).values_list("tenant", "dfid"):
            found.without_entry(tenant, str(dfid), "the flow")
        for model in _OF_FLOWS:
            # Not NOT IN: PostgreSQL reads that list again for each row once it outgrows a query's memory.
            gone = ~Exists(Flow.objects.order_by().filter(dfid=OuterRef("flow_id")))
            rows = model._default_manager.filter(gone)
            for dfid in rows.order_by().values_list("flow_id", flat=True).distinct():
                found.without_entry("", str(dfid), f"a {model._meta.model_name}, whose flow is not there")
        yield from found.breaks


class _Payloads:
    """The salts behind the commitments of some flows: a cell is compared through them."""

    def __init__(self, flows: Mapping[UUID, Entries]) -> None:
        wanted = {
            value
            for entries in flows.values()
            for entry in entries
            for name, value in entry.payload.items()
            if name.endswith("_commitment") and value
        }
        rows = Payload.objects.filter(commitment__in=wanted).values_list("commitment", "salt")
        self._salts = dict(rows)

    def compare(self, found: Found, entry: Entry, what: str, name: str, cell: object) -> None:
        """Compare a cell with a commitment of an entry; an erased one can be compared no more."""
        commitment = entry.payload.get(name)
        salt = self._salts.get(commitment or "")
        if not commitment:
            found.same(entry, what, None, cell)
        elif isinstance(salt, bytes | memoryview):
            body = bytes(cell) if isinstance(cell, bytes | memoryview) else None
            if body is None or chain.commitment(bytes(salt), body) != commitment:
                found.same(entry, what, "what was committed to", "something else")


def _of_kind(flows: Mapping[UUID, Entries], *kinds: Kind) -> Iterable[tuple[UUID, Entry]]:
    for dfid, entries in flows.items():
        for entry in entries:
            if entry.kind in kinds:
                yield dfid, entry


def _entries(flows: Mapping[UUID, Entries], *kinds: Kind) -> Iterator[Entry]:
    return (entry for _, entry in _of_kind(flows, *kinds))


def _extra(
    found: Found, flows: Mapping[UUID, Entries], rows: Iterable[tuple[UUID, object]], what: str
) -> None:
    """Rows of these flows that no entry was about."""
    for dfid, name in rows:
        tenant = flows[dfid][0].tenant if flows[dfid] else ""
        found.without_entry(tenant, str(dfid), f"the {what} {name}")


def _compare_flows(found: Found, flows: Mapping[UUID, Entries], kept: _Payloads) -> None:
    columns = (
        "dfid",
        "state",
        "reason",
        "trigger",
        "agent__agent_id",
        "parent_id",
        "tenant",
        "traceparent",
        "policy_kind",
        "opened_at",
        "ended_at",
    )
    rows = {row[0]: row[1:] for row in Flow.objects.filter(dfid__in=flows).values_list(*columns)}
    for dfid, entries in flows.items():
        if not entries:
            continue
        opened, last = entries[0], entries[-1]
        if dfid not in rows:
            found.missing(last, "the row of the flow")
            continue
        state, reason, trigger, agent_id, parent_id, tenant, trace, kind, opened_at, ended_at = rows[dfid]
        moves = [entry for entry in entries if entry.kind == Kind.FLOW_MOVED]
        said = (
            (moves[-1].payload["to_state"], moves[-1].payload["reason"]) if moves else (FlowState.CREATED, "")
        )
        found.same(moves[-1] if moves else opened, "flow.state", str(said[0]), state)
        found.same(moves[-1] if moves else opened, "flow.reason", said[1], reason)
        found.same(opened, "flow.tenant", opened.tenant, tenant)
        found.then(opened, opened, "flow.opened_at", opened_at)
        end = moves[-1] if moves and moves[-1].payload["to_state"] in ENDED else None
        found.then(end, moves[-1] if moves else opened, "flow.ended_at", ended_at)
        asked = [entry for entry in entries if entry.kind == Kind.PROPOSAL_SUBMITTED]
        told = asked[-1].payload["policy_kind"] if asked else ""
        found.same(asked[-1] if asked else opened, "flow.policy_kind", told, kind)
        if opened.kind == Kind.FLOW_OPENED:
            found.same(opened, "flow.agent", opened.payload["agent_id"], agent_id)
            parent = None if parent_id is None else str(parent_id)
            found.same(opened, "flow.parent", opened.payload.get("parent_dfid"), parent)
            found.same(opened, "flow.traceparent", opened.payload.get("traceparent") or "", trace)
            kept.compare(found, opened, "flow.trigger", "trigger_commitment", trigger)


def _compare_contexts(found: Found, flows: Mapping[UUID, Entries]) -> None:
    columns = ("flow_id", "context_ref", "body", "created_at", "expires_at")
    rows = Snapshot.objects.filter(flow__in=flows).values_list(*columns)
    stored = {(dfid, ref): cells for dfid, ref, *cells in rows}
    seen = set()
    for dfid, entry in _of_kind(flows, Kind.CONTEXT_COMPILED):
        ref = entry.payload["context_ref"]
        if (dfid, ref) in seen:
            continue
        seen.add((dfid, ref))
        if (dfid, ref) not in stored:
            found.missing(entry, f"the context {ref}")
        else:
            body, created_at, expires_at = stored[dfid, ref]
            found.bytes(entry, "snapshot.body", ref, body)
            found.then(entry, entry, "snapshot.created_at", created_at)
            found.same(entry, "snapshot.expires_at", entry.payload["expires_at"], chain.time_text(expires_at))
    _extra(found, flows, stored.keys() - seen, "context")


def _compare_proposals(found: Found, flows: Mapping[UUID, Entries], kept: _Payloads) -> None:
    columns = ("flow_id", "pk", "body", "digest", "author", "policy_kind", "policy_version", "explain")
    further = ("received_at", "valid_until", "agent__agent_id")
    stored = Proposal.objects.filter(flow__in=flows).values_list(*columns, *further)
    rows = {str(row[1]): row for row in stored}
    agents = {str(dfid): entry.payload["agent_id"] for dfid, entry in _of_kind(flows, Kind.FLOW_OPENED)}
    entries = _entries(flows, Kind.PROPOSAL_SUBMITTED)
    for entry, row in found.rows_of(entries, rows, _PROPOSAL, "the proposal {proposal_id}"):
        said = entry.payload
        dfid, _, body, digest, author, kind, version, explain, received_at, valid_until, agent = row
        found.same(entry, "proposal.flow", entry.stream, str(dfid))
        found.same(entry, "proposal.agent", agents.get(entry.stream, agent), agent)
        found.then(entry, entry, "proposal.received_at", received_at)
        found.same(entry, "proposal.valid_until", said["valid_until"], chain.time_text(valid_until))
        found.bytes(entry, "proposal.body", said["proposal_digest"], body)
        found.same(entry, "proposal.digest", said["proposal_digest"], digest)
        for name, value in (("author", author), ("policy_kind", kind), ("policy_version", version)):
            found.same(entry, f"proposal.{name}", said[name], value)
        if said.get("explain_commitment"):
            kept.compare(found, entry, "proposal.explain", "explain_commitment", canonical.encode(explain))
        elif "explain_commitment" in said:
            found.same(entry, "proposal.explain", "", explain)
    _extra(found, flows, ((row[0], name) for name, row in rows.items()), "proposal")


def _compare_verdicts(found: Found, flows: Mapping[UUID, Entries]) -> None:
    columns = (
        "proposal__flow_id",
        "pk",
        "body",
        "input",
        "input_digest",
        "bundle_id",
        "decision",
        "gate_version",
        "judged_at",
    )
    rows = {
        str(row[1]): row
        for row in Verdict.objects.filter(proposal__flow__in=flows).values_list(*columns, "bundle__body")
    }
    entries = _entries(flows, Kind.VERDICT_GIVEN)
    for entry, row in found.rows_of(entries, rows, _PROPOSAL, "the verdict on {proposal_id}"):
        said = entry.payload
        _, _, body, given, digest, bundle, decision, version, judged_at, bundle_body = row
        found.then(entry, entry, "verdict.judged_at", judged_at)
        found.bytes(entry, "verdict.body", said["verdict_digest"], body)
        found.bytes(entry, "verdict.input", said["input_digest"], given)
        found.bytes(entry, "bundle.body", said["policy_bundle_hash"], bundle_body)
        found.same(entry, "verdict.input_digest", said["input_digest"], digest)
        found.same(entry, "verdict.bundle", said["policy_bundle_hash"], bundle)
        found.same(entry, "verdict.decision", said["verdict"], decision)
        found.same(entry, "verdict.gate_version", said["gate_version"], version)
    _extra(found, flows, ((row[0], name) for name, row in rows.items()), "verdict")


def _compare_intents(found: Found, flows: Mapping[UUID, Entries], records: Records) -> None:
    rows = {str(row.pk): row for row in Intent.objects.filter(flow__in=flows)}
    last = {
        entry.payload["intent_id"]: entry
        for entry in _entries(flows, *intent_records.KINDS - {Kind.FLOW_MOVED})
    }
    ends = {entry.payload["intent_id"]: entry for entry in _entries(flows, *intent_records.ENDS)}
    entries = _entries(flows, Kind.INTENT_CREATED)
    for entry, row in found.rows_of(entries, rows, _INTENT, "the intent {intent_id}"):
        said = entry.payload
        found.bytes(entry, "intent.requests", said["request_digest"], row.requests)
        found.same(entry, "intent.proposal", said["proposal_id"], str(row.proposal_id))
        found.same(entry, "intent.tenant", entry.tenant, row.tenant)
        found.same(entry, "intent.flow", entry.stream, str(row.flow_id))
        found.then(entry, entry, "intent.created_at", row.created_at)
        found.then(ends.get(said["intent_id"]), entry, "intent.finished_at", row.finished_at)
        found.same(entry, "intent.steps", len(said["step_ids"]), row.steps)
        record = records[said["intent_id"]]
        for name, recorded, held in intent_records.list_unlike(record, row):
            found.same(last[said["intent_id"]], f"intent.{name}", recorded, held)
        if row_checks.digest_of(row.requests) == said["request_digest"]:
            steps = Rendered.from_bytes(bytes(row.requests)).steps
            target = steps[row.position].target if row.position < len(steps) else ""
            found.same(entry, "intent.target", target, row.target)
        if record.at_rest is not None:
            found.same(last[said["intent_id"]], "intent.state", record.at_rest.value, row.state)
        elif row.state not in (IntentState.PENDING, IntentState.CLAIMED):
            found.same(last[said["intent_id"]], "intent.state", "waiting or claimed", row.state)
    _extra(found, flows, ((row.flow_id, name) for name, row in rows.items()), "intent")


def _follow(flows: Mapping[UUID, Entries]) -> Records:
    found: dict[str, intent_records.IntentRecord] = {}
    for entries in flows.values():
        records: dict[str, intent_records.IntentRecord] = {}
        for entry in entries:
            intent_records.follow(records, entry.kind, entry.payload)
        found |= records
    return found


def _compare_attempts(found: Found, flows: Mapping[UUID, Entries], records: Records) -> None:
    rows = {(str(row.intent_id), row.number): row for row in Attempt.objects.filter(intent__flow__in=flows)}
    of_intents: dict[str, list[Attempt]] = defaultdict(list)
    for (intent, _), row in rows.items():
        of_intents[intent].append(row)
    last: dict[tuple[str, int], Entry] = {}
    settled: dict[tuple[str, int], Entry] = {}
    for _, entry in _of_kind(flows, *_ATTEMPTED):
        said = entry.payload
        key = (said["intent_id"], said["number"])
        last[key] = entry
        if key in rows and entry.kind == Kind.ATTEMPT_STARTED:
            found.then(entry, entry, "attempt.started_at", rows[key].started_at)
        if key in rows and entry.kind == Kind.ATTEMPT_FINISHED:
            found.then(entry, entry, "attempt.finished_at", rows[key].finished_at)
            found.same(
                entry, "attempt.error_category", said["error_category"] or "", rows[key].error_category
            )
            found.same(entry, "attempt.status_code", said["status_code"], rows[key].status_code)
    for _, entry in _of_kind(flows, Kind.ATTEMPT_SETTLED):
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
    dfids = {entry.payload["intent_id"]: dfid for dfid, entry in _of_kind(flows, Kind.INTENT_CREATED)}
    left = [(dfids[intent], number) for intent, number in rows.keys() - last.keys() if intent in dfids]
    _extra(found, flows, left, "attempt")


def _compare_results(found: Found, flows: Mapping[UUID, Entries], kept: _Payloads, records: Records) -> None:
    outcomes = Outcome.objects.filter(intent__flow__in=flows).select_related("intent")
    rows = {str(row.pk): row for row in outcomes}
    entries = _entries(flows, Kind.OUTCOME_RECORDED)
    for entry, row in found.rows_of(entries, rows, _INTENT, "the outcome"):
        found.same(entry, "outcome.status", entry.payload["status"], row.status)
        kept.compare(found, entry, "outcome.receipt", "receipt_commitment", row.receipt)
        found.same(entry, "outcome.recorded_at", entry.at, row.recorded_at)
        if entry.payload.get("outcome_digest") is not None:
            digest = intent_records.outcome_digest(row)
            found.same(entry, "outcome", entry.payload["outcome_digest"], digest)
    _extra(found, flows, ((row.intent.flow_id, name) for name, row in rows.items()), "outcome")
    received = StepReceipt.objects.filter(intent__flow__in=flows).select_related("intent")
    steps = {(str(row.intent_id), row.step, row.direction): row for row in received}
    by_step = itemgetter("intent_id", "step", "direction")
    advanced = _entries(flows, Kind.SAGA_ADVANCED)
    for entry, step in found.rows_of(advanced, steps, by_step, "the receipt of step {step}"):
        kept.compare(found, entry, "stepreceipt.receipt", "receipt_commitment", step.receipt)
        record = records[entry.payload["intent_id"]]
        found.same(entry, "stepreceipt.position", intent_records.place_of(record, step.step), step.position)
        found.same(entry, "stepreceipt.recorded_by", entry.actor, step.recorded_by)
        found.same(entry, "stepreceipt.recorded_at", entry.at, step.recorded_at)
    _extra(found, flows, ((row.intent.flow_id, key[1]) for key, row in steps.items()), "receipt of step")


def _compare_reservations(found: Found, flows: Mapping[UUID, Entries]) -> None:
    """By resource: what is held, and what is used up."""
    stored: dict[tuple[UUID, str], list[int]] = defaultdict(lambda: [0, 0])
    columns = ("flow_id", "resource__name", "amount", "state")
    for dfid, name, amount, state in Reservation.objects.filter(flow__in=flows).values_list(*columns):
        if state in STANDING or state == ReservationState.COMMITTED:
            stored[dfid, name][int(state == ReservationState.COMMITTED)] += amount
    told: dict[tuple[UUID, str], list[int]] = defaultdict(lambda: [0, 0])
    last: dict[tuple[UUID, str], Entry] = {}
    kinds = (
        Kind.RESOURCE_RESERVED,
        Kind.RESOURCE_PINNED,
        Kind.RESOURCE_COMMITTED,
        Kind.RESOURCE_RELEASED,
    )
    for dfid, entry in _of_kind(flows, *kinds):
        key, amount = (dfid, entry.payload["resource"]), entry.payload["amount"]
        last[key] = entry
        if entry.kind == Kind.RESOURCE_RESERVED or entry.payload.get("again"):
            told[key][0] += amount
        elif entry.kind == Kind.RESOURCE_COMMITTED:
            told[key][0] -= amount
            told[key][1] += amount
        elif entry.kind == Kind.RESOURCE_RELEASED:
            told[key][int(_is_given_back(entry, used=told[key][1]))] -= amount
    for key, entry in last.items():
        found.same(entry, f"what is held and used of {key[1]}", told[key], stored[key])
    _extra(found, flows, stored.keys() - last.keys(), "reservation of")


def _is_given_back(entry: Entry, *, used: int) -> bool:
    """Whether a release is of what was used up: somebody has stated that the call did not happen."""
    # A constraint may have the same word for its id; its flow ends with nothing used up.
    payload = entry.payload
    return bool(payload["reason"] == Effect.NOT_HAPPENED and used >= payload["amount"])


def _compare_reviews(found: Found, flows: Mapping[UUID, Entries], kept: _Payloads) -> None:
    rows = {
        str(row.pk): row for row in Review.objects.filter(flow__in=flows).select_related("guard", "agent")
    }
    agents = {str(dfid): entry.payload["agent_id"] for dfid, entry in _of_kind(flows, Kind.FLOW_OPENED)}
    closed = {entry.payload["review_id"]: entry for _, entry in _of_kind(flows, Kind.REVIEW_CLOSED)}
    entries = _entries(flows, Kind.REVIEW_FLAGGED)
    for entry, row in found.rows_of(entries, rows, itemgetter("review_id"), "the review {review_id}"):
        said = entry.payload
        kept.compare(found, entry, "review.findings", "findings_commitment", row.findings)
        about = {
            "flow": (entry.stream, str(row.flow_id)),
            "tenant": (entry.tenant, row.tenant),
            "agent": (agents.get(entry.stream, row.agent.agent_id), row.agent.agent_id),
            "proposal": (said["proposal_id"], str(row.proposal_id)),
            "guard": (said["guard_id"], row.guard.guard_id),
            "confidence_bps": (bps(said["confidence"]), row.confidence_bps),
            "emergency_stop": (said["emergency_stop"], row.emergency_stop),
            "agent_suspended": (said.get("agent_suspended", False), row.agent_suspended),
        }
        for name, (recorded, stored) in about.items():
            found.same(entry, f"review.{name}", recorded, stored)
        found.then(entry, entry, "review.flagged_at", row.flagged_at)
        end = closed.get(said["review_id"])
        found.same(end or entry, "review.result", end.payload["result"] if end else "", row.result)
        found.same(end or entry, "review.note", end.payload["note"] if end else "", row.note)
        found.same(end or entry, "review.reviewed_by", end.actor if end else "", row.reviewed_by)
        found.then(end, entry, "review.reviewed_at", row.reviewed_at)
    _extra(found, flows, ((row.flow_id, name) for name, row in rows.items()), "review")
