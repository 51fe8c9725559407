"""The rows of flows against the entries of their streams, for `verify_ledger`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.db.models import Exists, Model, OuterRef

from audit import canonical, cells, chain
from audit.chain import ChainBreak
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found, NotProved
from runtime.contexts.models import Snapshot
from runtime.contracts.guard import WHOLE_BPS, EmergencyStop, ReviewOrigin, bps
from runtime.contracts.states import ENDED, FlowState
from runtime.flows.models import Feedback, Flow, Intent, Proposal, Verdict
from runtime.guards.models import Review
from runtime.resources.models import Reservation
from runtime.verification.flow_entries import Entries, Payloads, entries_of, note_extra, of_kind
from runtime.workflows.models import WorkflowPosition
from runtime.workflows.queries import positions

_PROPOSAL = itemgetter("proposal_id")
_OF_FLOWS: Sequence[type[Model]] = (
    Snapshot,
    Proposal,
    Intent,
    Reservation,
    Review,
    Feedback,
    WorkflowPosition,
)


class FlowRowCheck(row_checks.FlowRows):
    """Flows, contexts, proposals, verdicts and reviews."""

    kinds = frozenset(
        {
            Kind.FLOW_OPENED,
            Kind.FLOW_MOVED,
            Kind.FLOW_ERASED,
            Kind.CONTEXT_COMPILED,
            Kind.PROPOSAL_SUBMITTED,
            Kind.VERDICT_GIVEN,
            Kind.STEP_TAKEN,
            Kind.FLOW_CONTINUED,
            Kind.REVIEW_FLAGGED,
            Kind.REVIEW_REQUESTED,
            Kind.REVIEW_ROUTED,
            Kind.REVIEW_CLOSED,
        }
    )
    not_proved = (
        NotProved("runtime_agentevent", (), "notifications to agents follow from entries"),
        NotProved("runtime_inbox", (), "notifications to agents follow from entries"),
        NotProved("runtime_computebudget", (), "limits of a flow, and usage reported by its agent"),
        NotProved("runtime_usagereport", (), "usage reported by agents"),
        NotProved("runtime_guardrun", (), "short-lived; what a guard found is in its review"),
        NotProved("runtime_review", ("run",), "refers to a short-lived row"),
        NotProved("runtime_circuit", (), "short-lived; what happens to targets has entries of its own"),
        NotProved("runtime_session", (), "short-lived; a handshake has an entry of its own"),
        NotProved("runtime_stepcheck", (), "short-lived; what was refused has an entry of its own"),
        NotProved("runtime_workflowposition", ("permits", "version"), "when steps were allowed; short-lived"),
        NotProved("runtime_timer", (), "short-lived"),
        NotProved("runtime_boot", (), "short-lived"),
        NotProved("runtime_watchround", (), "short-lived"),
        NotProved(
            "runtime_flow",
            ("root", "depth", "delegator", "attempts_used", "attempts_allowed"),
            "limits of a flow and of its family, set when it is opened",
        ),
        NotProved(
            "runtime_flow",
            ("children_opened", "end_told", "version", "feedback_seq", "steps_reported", "updated_at"),
            "counters of its rows",
        ),
        NotProved("runtime_proposal", ("explain",), "for rows from before explanations had commitments"),
        NotProved("runtime_proposal", ("retry_key",), "counts rejected tries for a short time"),
        NotProved("runtime_bundle", ("created_at",), "shared by all proposals judged by it"),
        NotProved(
            "runtime_intent",
            ("next_at", "failures", "lease_owner", "lease_until"),
            "only the order of work",
        ),
    )

    def compare(self, flows: Mapping[UUID, Entries]) -> Iterable[ChainBreak]:
        """All findings of some flows, in the order of their tables."""
        found = Found(erased=row_checks.erased_in(flows))
        kept = Payloads(flows)
        _compare_flows(found, flows, kept)
        _compare_contexts(found, flows)
        _compare_proposals(found, flows, kept)
        _compare_verdicts(found, flows)
        _compare_reviews(found, flows, kept)
        _compare_positions(found, flows, kept)
        return found.breaks

    def finish(self) -> Iterator[ChainBreak]:
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
                found.without_entry("", str(dfid), f"a {model._meta.model_name}, whose flow is missing")
        yield from found.breaks


def _compare_flows(found: Found, flows: Mapping[UUID, Entries], kept: Payloads) -> None:
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
            if "traceparent" in opened.payload:  # entries of older versions do not record it
                found.same(opened, "flow.traceparent", opened.payload["traceparent"] or "", trace)
            kept.compare(found, opened, "flow.trigger", "trigger_commitment", trigger)


def _compare_positions(found: Found, flows: Mapping[UUID, Entries], kept: Payloads) -> None:
    """Where each flow stands in its workflow: as its last step or a person left it, or at its start."""
    rows = {
        row.flow_id: row for row in WorkflowPosition.objects.filter(flow__in=flows).select_related("workflow")
    }
    last = dict(of_kind(flows, Kind.STEP_TAKEN, Kind.FLOW_CONTINUED))
    for dfid, entry in last.items():
        row = rows.pop(dfid, None)
        if row is None:
            found.missing(entry, "where the flow stands in its workflow")
            continue
        told = entry.payload
        named = (row.workflow.workflow, row.workflow.version)
        found.same(entry, "workflowposition.workflow", (told["workflow"], told["version"]), named)
        if not found.is_gone(entry, "workflowposition.fold"):
            kept.compare(found, entry, "workflowposition.fold", "position_commitment", row.fold)
    moved = [(dfid, "of a step") for dfid, row in rows.items() if not positions.is_at_start(row)]
    note_extra(found, flows, moved, "position")


def _compare_contexts(found: Found, flows: Mapping[UUID, Entries]) -> None:
    columns = ("flow_id", "context_ref", "body", "created_at", "expires_at")
    rows = Snapshot.objects.filter(flow__in=flows).values_list(*columns)
    stored = {(dfid, ref): cells for dfid, ref, *cells in rows}
    seen = set()
    # The same content has the same name: asking again renews its time.
    renewed = {
        (dfid, entry.payload["context_ref"]): entry for dfid, entry in of_kind(flows, Kind.CONTEXT_COMPILED)
    }
    for dfid, entry in of_kind(flows, Kind.CONTEXT_COMPILED):
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
            last = renewed[dfid, ref]
            found.same(last, "snapshot.expires_at", last.payload["expires_at"], chain.time_text(expires_at))
    note_extra(found, flows, stored.keys() - seen, "context")


def _compare_proposals(found: Found, flows: Mapping[UUID, Entries], kept: Payloads) -> None:
    columns = ("flow_id", "pk", "body", "digest", "author", "policy_kind", "policy_version", "explain")
    further = ("received_at", "valid_until", "agent__agent_id")
    stored = Proposal.objects.filter(flow__in=flows).values_list(*columns, *further)
    rows = {str(row[1]): row for row in stored}
    agents = {str(dfid): entry.payload["agent_id"] for dfid, entry in of_kind(flows, Kind.FLOW_OPENED)}
    entries = entries_of(flows, Kind.PROPOSAL_SUBMITTED)
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
    note_extra(found, flows, ((row[0], name) for name, row in rows.items()), "proposal")


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
    entries = entries_of(flows, Kind.VERDICT_GIVEN)
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
    note_extra(found, flows, ((row[0], name) for name, row in rows.items()), "verdict")


def _compare_reviews(found: Found, flows: Mapping[UUID, Entries], kept: Payloads) -> None:
    rows = {
        str(row.pk): row
        for row in Review.objects.filter(flow__in=flows).select_related("guard", "agent", "memory")
    }
    agents = {str(dfid): entry.payload["agent_id"] for dfid, entry in of_kind(flows, Kind.FLOW_OPENED)}
    closed = {entry.payload["review_id"]: entry for _, entry in of_kind(flows, Kind.REVIEW_CLOSED)}
    entries = entries_of(flows, Kind.REVIEW_FLAGGED)
    for entry, row in found.rows_of(entries, rows, itemgetter("review_id"), "the review {review_id}"):
        said = entry.payload
        kept.compare(found, entry, "review.findings", "findings_commitment", row.findings)
        about = {
            **_flow_of(entry, row, agents),
            "origin": (ReviewOrigin.GUARD, row.origin),
            "proposal": (said["proposal_id"], str(row.proposal_id)),
            "guard": (said["guard_id"], row.asked_by),
            "confidence_bps": (bps(said["confidence"]), row.confidence_bps),
            "emergency_stop": (said["emergency_stop"], row.emergency_stop),
            "agent_suspended": (said.get("agent_suspended", row.agent_suspended), row.agent_suspended),
        }
        for name, (recorded, stored) in about.items():
            found.same(entry, f"review.{name}", recorded, stored)
        found.then(entry, entry, "review.flagged_at", row.flagged_at)
        _compare_answer(found, entry, closed.get(said["review_id"]), row)
    _compare_requests(found, flows, rows, agents, closed)
    _compare_routes(found, flows, rows, agents, closed)
    note_extra(found, flows, ((row.flow_id, name) for name, row in rows.items()), "review")


def _compare_requests(
    found: Found,
    flows: Mapping[UUID, Entries],
    rows: dict[str, Review],
    agents: Mapping[str, str],
    closed: Mapping[str, Entry],
) -> None:
    """The reviews that people requested because of an item of memory."""
    entries = entries_of(flows, Kind.REVIEW_REQUESTED)
    for entry, row in found.rows_of(entries, rows, itemgetter("review_id"), "the review {review_id}"):
        said = entry.payload
        about = {
            "origin": (ReviewOrigin.MEMORY, row.origin),
            "memory": (f"{said['scope']}/{said['key']}@{said['version']}", row.asked_by),
            "requested_by": (entry.actor, row.requested_by),
        }
        _compare_asked(found, entry, row, about, agents)
        _compare_answer(found, entry, closed.get(said["review_id"]), row)


def _compare_routes(
    found: Found,
    flows: Mapping[UUID, Entries],
    rows: dict[str, Review],
    agents: Mapping[str, str],
    closed: Mapping[str, Entry],
) -> None:
    """The reviews that a router of the flow's workflow asked for."""
    entries = entries_of(flows, Kind.REVIEW_ROUTED)
    for entry, row in found.rows_of(entries, rows, itemgetter("review_id"), "the review {review_id}"):
        about = {
            "origin": (ReviewOrigin.ROUTER, row.origin),
            "router": (entry.payload["router"], row.asked_by),
            "requested_by": ("", row.requested_by),
        }
        _compare_asked(found, entry, row, about, agents)
        _compare_answer(found, entry, closed.get(entry.payload["review_id"]), row)


def _compare_asked(
    found: Found, entry: Entry, row: Review, about: Mapping[str, tuple[Any, Any]], agents: Mapping[str, str]
) -> None:
    """What is alike in all reviews that no guard asked for."""
    alike = {
        **_flow_of(entry, row, agents),
        "request_reason": (entry.payload["reason"], row.request_reason),
        "confidence_bps": (WHOLE_BPS, row.confidence_bps),
        "findings": (b"[]", cells.bytes_of(row.findings)),
        "emergency_stop": (EmergencyStop.NOT_ASKED, row.emergency_stop),
        "agent_suspended": (False, bool(row.agent_suspended)),
    }
    for name, (recorded, stored) in {**about, **alike}.items():
        found.same(entry, f"review.{name}", recorded, stored)
    found.then(entry, entry, "review.flagged_at", row.flagged_at)


def _flow_of(entry: Entry, row: Review, agents: Mapping[str, str]) -> dict[str, tuple[Any, Any]]:
    """Whose flow a review is about, as recorded and as stored."""
    return {
        "flow": (entry.stream, str(row.flow_id)),
        "tenant": (entry.tenant, row.tenant),
        "agent": (agents.get(entry.stream, row.agent.agent_id), row.agent.agent_id),
    }


def _compare_answer(found: Found, entry: Entry, end: Entry | None, row: Review) -> None:
    found.same(end or entry, "review.result", end.payload["result"] if end else "", row.result)
    found.same(end or entry, "review.note", end.payload["note"] if end else "", row.note)
    found.same(end or entry, "review.reviewed_by", end.actor if end else "", row.reviewed_by)
    found.then(end, entry, "review.reviewed_at", row.reviewed_at)
