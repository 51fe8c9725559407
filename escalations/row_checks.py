"""The rows of escalations against the entries of their flows, for `verify_ledger`."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.conf import settings

from audit import actors, canonical, cells, erasures
from audit.chain import BreakKind, ChainBreak, time_text
from audit.erasures import Erasure
from audit.events import Kind
from audit.models import Payload
from audit.sealing import keys
from audit.sealing.keys import Keyring
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found, NotProved
from escalations import evidence_contracts, recorded_deadlines
from escalations.contracts import Closing, DecisionState, State
from escalations.models import Decision, EffectStatement, Escalation, Evidence, Question
from escalations.recorded_deadlines import Deadline
from escalations.signed_rows import SignedRows
from runtime.contracts import timestamps

_ENDS = {
    Kind.ESCALATION_DECIDED: State.RESOLVED,
    Kind.ESCALATION_EXPIRED: State.EXPIRED,
    Kind.ESCALATION_WITHDRAWN: State.WITHDRAWN,
}
_REVISIONS = (Kind.ESCALATION_OPENED, Kind.ESCALATION_REVISED)
_ASKED = (Kind.INFORMATION_REQUESTED, Kind.INFORMATION_ANSWERED)
_CLOSED = (Kind.INFORMATION_ANSWERED, Kind.INFORMATION_CLOSED)
# Columns of an escalation that its evidence in force has, too.
_ABOUT = ("impact", "impact_rank", "agent_id", "policy_kind", "proposal_id", "intent_id", "rule", "incident")


class EscalationRowCheck(SignedRows):
    """Escalations, their evidence, their questions, and the signed decisions on them."""

    # Every flow is opened: one without an escalation in its entries must have none in the tables.
    kinds = frozenset(
        {
            Kind.FLOW_OPENED,
            Kind.FLOW_ERASED,
            *_REVISIONS,
            *_ENDS,
            Kind.ESCALATION_REOPENED,
            Kind.ESCALATION_FIRST_DECIDED,
            Kind.ESCALATION_FIRST_ENDED,
            *_ASKED,
            *_CLOSED,
            Kind.EFFECT_STATED,
        }
    )
    not_proved = (
        NotProved("escalations_escalation", ("claimed_by", "claimed_until", "version"), "short-lived"),
        NotProved(
            "escalations_escalation",
            ("effect", "proposed_value", "limit"),
            "the queue shows them from the evidence, which is compared",
        ),
        NotProved("escalations_savedview", (), "names that people give to filters of the queue"),
    )

    def compare(self, flows: Mapping[UUID, Sequence[Entry]]) -> Iterable[ChainBreak]:
        """All findings of some flows."""
        found = Found(erased=row_checks.erased_in(flows))
        escalations = _compare_escalations(found, flows)
        _compare_evidence(found, flows, escalations)
        ring = keys.keyring(tenant=settings.DIR_TENANT)
        _compare_decisions(found, flows, escalations, ring)
        _compare_questions(found, flows, escalations, ring)
        _compare_effects(found, flows, escalations, ring)
        self.note_unknown_keys(found)
        return found.breaks


Rows = Mapping[str, tuple[Any, ...]]


def _of_kind(flows: Mapping[UUID, Sequence[Entry]], *kinds: Kind) -> list[Entry]:
    return [entry for entries in flows.values() for entry in entries if entry.kind in kinds]


def _compare_escalations(found: Found, flows: Mapping[UUID, Sequence[Entry]]) -> Rows:
    columns = ("pk", "flow_id", "tenant", "family", "reason", "state", "revision", "evidence_hash")
    further = ("deadline_at", "resolution", "opened_at", "resolved_at", "waiting_until")
    stored = Escalation.objects.filter(flow__in=flows).values_list(*columns, *further)
    rows = {str(row[0]): row for row in stored}
    deadlines: dict[str, Deadline] = {}
    for entry in _of_kind(flows, *recorded_deadlines.KINDS):
        recorded_deadlines.follow(deadlines, entry.kind, entry.at, entry.payload)
    ends = _ends(flows)
    newest = {entry.payload["escalation_id"]: entry for entry in _of_kind(flows, *_REVISIONS)}
    opened = {entry.payload["escalation_id"]: entry for entry in _of_kind(flows, Kind.ESCALATION_OPENED)}
    for name, entry in opened.items():
        if name not in rows:
            found.missing(entry, f"the escalation {name}")
            continue
        _, dfid, tenant, family, reason, state, revision, evidence_hash, *further_cells = rows[name]
        deadline_at, resolution, opened_at, resolved_at, waiting_until = further_cells
        end, last = ends.get(name), newest[name]
        found.same(entry, "escalation.flow", entry.stream, str(dfid))
        found.then(entry, entry, "escalation.opened_at", opened_at)
        found.then(end, entry, "escalation.resolved_at", resolved_at)
        waits = max(deadlines[name].waits.values(), default=None)
        found.same(last, "escalation.waiting_until", waits, waiting_until)
        found.same(entry, "escalation.family", entry.payload["family"], family)
        found.same(entry, "escalation.reason", entry.payload["reason"], reason)
        found.same(end or entry, "escalation.state", _ENDS[Kind(end.kind)] if end else State.OPEN, state)
        found.same(last, "escalation.revision", last.payload["revision"], revision)
        found.same(last, "escalation.evidence_hash", last.payload["evidence_hash"], evidence_hash)
        found.same(entry, "escalation.tenant", entry.tenant, tenant)
        found.same(last, "escalation.deadline_at", deadlines[name].at, deadline_at)
        resolved = "" if end is None else _ENDS[Kind(end.kind)].value
        if end is not None and end.kind == Kind.ESCALATION_DECIDED:
            resolved = str(end.payload["action"])
        found.same(end or entry, "escalation.resolution", resolved, resolution)
    for name in rows.keys() - opened.keys():
        found.without_entry(rows[name][2], str(rows[name][1]), f"the escalation {name}")
    return rows


def _ends(flows: Mapping[UUID, Sequence[Entry]]) -> dict[str, Entry]:
    """The entry that ended each escalation; none where its decision was taken back."""
    ends: dict[str, Entry] = {}
    for entry in _of_kind(flows, *_ENDS, Kind.ESCALATION_REOPENED):
        if entry.kind == Kind.ESCALATION_REOPENED:
            ends.pop(entry.payload["escalation_id"], None)
        else:
            ends[entry.payload["escalation_id"]] = entry
    return ends


def _compare_evidence(found: Found, flows: Mapping[UUID, Sequence[Entry]], escalations: Rows) -> None:
    about = (f"escalation__{name}" for name in _ABOUT)
    columns = ("escalation_id", "revision", "body", "hash", "why", "created_at", *about)
    rows = {
        (str(row["escalation_id"]), row["revision"]): row
        for row in Evidence.objects.filter(escalation__flow__in=flows).values(*columns)
    }
    entries, key = _of_kind(flows, *_REVISIONS), itemgetter("escalation_id", "revision")
    newest = {entry.payload["escalation_id"]: entry for entry in entries}
    for entry, row in found.rows_of(entries, rows, key, "revision {revision} of the evidence"):
        payload = entry.payload
        found.bytes(entry, "evidence.body", payload["evidence_hash"], row["body"])
        found.same(entry, "evidence.hash", payload["evidence_hash"], row["hash"])
        found.same(entry, "evidence.why", payload.get("why", "opened"), row["why"])
        found.then(entry, entry, "evidence.created_at", row["created_at"])
        is_whole = cells.digest_of(row["body"]) == payload["evidence_hash"]
        if is_whole and newest[payload["escalation_id"]] is entry:
            # What an escalation is about, and how much it weighs, with its evidence in force.
            shown = evidence_contracts.read_evidence(bytes(row["body"]))
            in_force = {
                "impact": shown.impact.value,
                "impact_rank": shown.impact.rank,
                "agent_id": shown.agent_id,
                "policy_kind": shown.policy_kind,
                "proposal_id": shown.proposal_id,
                "intent_id": shown.intent_id,
                "rule": shown.rule,
                "incident": shown.incident,
            }
            for name, value in in_force.items():
                cell = row[f"escalation__{name}"]
                found.same(entry, f"escalation.{name}", value, str(cell) if isinstance(cell, UUID) else cell)
    for name, revision in rows:
        owner = escalations[name]
        found.without_entry(owner[2], str(owner[1]), f"revision {revision} of the evidence of {name}")


def _compare_decisions(
    found: Found, flows: Mapping[UUID, Sequence[Entry]], escalations: Rows, ring: Keyring
) -> None:
    decisions = Decision.objects.filter(escalation__flow__in=flows).values(
        "escalation_id",
        "sequence",
        "state",
        "action",
        "revision",
        "evidence_hash",
        "justification",
        "approver_id",
        "solo",
        "shown_ms",
        "statement",
        "signature",
        "key_id",
        "decided_at",
    )
    rows = {(str(row["escalation_id"]), row["sequence"]): row for row in decisions}
    entries = _of_kind(flows, Kind.ESCALATION_DECIDED, Kind.ESCALATION_FIRST_DECIDED)
    taken_back = {_decision_key(entry.payload) for entry in _of_kind(flows, Kind.ESCALATION_REOPENED)}
    ends = _of_kind(flows, Kind.ESCALATION_FIRST_ENDED)
    ended = {_decision_key(entry.payload): entry.payload["state"] for entry in ends}
    for entry, row in found.rows_of(entries, rows, _decision_key, "the decision"):
        payload = entry.payload
        key = _decision_key(payload)
        state = DecisionState.TAKEN_BACK if key in taken_back else DecisionState.IN_EFFECT
        if entry.kind == Kind.ESCALATION_FIRST_DECIDED:
            state = DecisionState(ended.get(key, DecisionState.AWAITING_SECOND))
        found.same(entry, "decision.state", state, row["state"])
        found.bytes(entry, "decision.statement", payload["statement_digest"], row["statement"])
        compare_signature(found, entry, row, ring)
        for name in ("action", "revision", "evidence_hash", "key_id"):
            # The entry of a first decision does not say what was chosen.
            if name in payload:
                found.same(entry, f"decision.{name}", payload[name], row[name])
        found.same(entry, "decision.approver", entry.actor, actors.user(row["approver_id"]))
        if cells.digest_of(row["statement"]) == payload["statement_digest"]:
            stated = canonical.decode(bytes(row["statement"]))
            if "action" not in payload:
                found.same(entry, "decision.action", stated["action"], row["action"])
            found.same(entry, "decision.justification", stated["justification"], row["justification"])
            found.same(entry, "decision.solo", stated["solo"], row["solo"])
            shown_ms = stated.get("reading", {}).get("shown_ms")
            found.same(entry, "decision.shown_ms", shown_ms, row["shown_ms"])
            found.same(entry, "decision.decided_at", stated["decided_at"], timestamps.iso(row["decided_at"]))
    for name, _ in rows:
        owner = escalations[name]
        found.without_entry(owner[2], str(owner[1]), f"the decision on {name}")


def _decision_key(payload: Mapping[str, Any]) -> tuple[str, int]:
    """Entries from before decisions could be taken back do not count them."""
    return payload["escalation_id"], payload.get("sequence", 1)


def compare_signature(found: Found, entry: Entry, row: Mapping[str, Any], ring: Keyring) -> None:
    """Note that a statement is not signed as its entry says; once it is erased, its digest is."""
    statement, signature = bytes(row["statement"]), bytes(row["signature"])
    found.same(entry, "signature", entry.payload["signature"], signature.hex())
    erasure = found.erasure_after(entry)
    if erasure is not None:
        _compare_attested(found, entry, erasure, ring)
        return
    verified = ring.verify(statement, signature, row["key_id"], at=entry.at)
    if verified is None:
        found.unknown_keys.setdefault(row["key_id"], set()).add((entry.stream, entry.seq))
    elif not verified:
        detail = f"the statement is not signed by key {row['key_id']} while that was valid"
        found.breaks.append(entry.wrong(BreakKind.SIGNATURE_WRONG, detail))


def _compare_attested(found: Found, entry: Entry, erasure: Erasure, ring: Keyring) -> None:
    """The statement is erased: its digest was signed in its place, while its own signature was checked."""
    digest = entry.payload["statement_digest"]
    signature, key_id = erasure.statements.get(digest, ("", ""))
    if not key_id:
        found.unknown_keys.setdefault(entry.payload["key_id"], set()).add((entry.stream, entry.seq))
        return
    signed = erasures.signed_bytes(digest)
    verified = ring.verify(signed, bytes.fromhex(signature), key_id, at=erasure.at)
    if verified is None:
        found.unknown_keys.setdefault(key_id, set()).add((entry.stream, entry.seq))
    elif not verified:
        detail = f"the digest of the erased statement is not signed by key {key_id} while that was valid"
        found.breaks.append(entry.wrong(BreakKind.SIGNATURE_WRONG, detail))


def _compare_questions(
    found: Found, flows: Mapping[UUID, Sequence[Entry]], escalations: Rows, ring: Keyring
) -> None:
    rows = {
        (str(row["escalation_id"]), row["number"]): row
        for row in Question.objects.filter(escalation__flow__in=flows).values()
    }
    asked = set()
    ends = {(e.payload["escalation_id"], e.payload["number"]): e for e in _of_kind(flows, *_CLOSED)}
    commitments = {
        entry.payload.get("text_commitment") or entry.payload.get("answer_commitment")
        for entry in _of_kind(flows, *_ASKED)
    }
    salts = dict(Payload.objects.filter(commitment__in=commitments).values_list("commitment", "salt"))
    for entry in _of_kind(flows, *_ASKED):
        payload = entry.payload
        key = (payload["escalation_id"], payload["number"])
        row = rows.get(key)
        asked.add(key)
        if row is None:
            found.missing(entry, f"question {payload['number']}")
        elif entry.kind == Kind.INFORMATION_ANSWERED:
            _compare_text(found, entry, "question.answer", payload["answer_commitment"], row["answer"], salts)
            found.same(entry, "question.payload_ref", payload["payload_ref"] or "", row["payload_ref"])
        else:
            _compare_question(found, entry, row, ends.get(key), ring)
            _compare_text(found, entry, "question.text", payload["text_commitment"], row["text"], salts)
    for name, number in rows.keys() - asked:
        owner = escalations[name]
        found.without_entry(owner[2], str(owner[1]), f"question {number} of {name}")


def _compare_question(
    found: Found, entry: Entry, row: Mapping[str, Any], end: Entry | None, ring: Keyring
) -> None:
    payload = entry.payload
    found.bytes(entry, "question.statement", payload["statement_digest"], row["statement"])
    compare_signature(found, entry, row, ring)
    for name in ("revision", "evidence_hash", "key_id"):
        found.same(entry, f"question.{name}", payload[name], row[name])
    found.same(entry, "question.asked_by", entry.actor, actors.user(row["asked_by_id"]))
    found.same(entry, "question.asked_at", entry.at, row["asked_at"])
    found.same(entry, "question.wait_until", payload["until"], time_text(row["wait_until"]))
    answered = end is not None and end.kind == Kind.INFORMATION_ANSWERED
    for name in () if answered else ("answer", "payload_ref"):
        found.same(end or entry, f"question.{name}", "", row[name])
    why = "" if end is None else Closing.ANSWERED.value if answered else end.payload["why"]
    found.same(end or entry, "question.closed_why", why, row["closed_why"])
    closed_at = None if end is None else min(end.at, row["wait_until"])
    found.same(end or entry, "question.closed_at", closed_at, row["closed_at"])
    found.same(end or entry, "question.answered_at", end.at if end and answered else None, row["answered_at"])


def _compare_effects(
    found: Found, flows: Mapping[UUID, Sequence[Entry]], escalations: Rows, ring: Keyring
) -> None:
    """What people stated later of calls: by the digest of the statement, since a call may have several."""
    stored = EffectStatement.objects.filter(escalation__flow__in=flows).values()
    entries, key = _of_kind(flows, Kind.EFFECT_STATED), itemgetter("escalation_id", "statement_digest")
    # Of an erased statement the signature tells which one it was.
    signed = {entry.payload["signature"]: entry.payload["statement_digest"] for entry in entries}
    rows = {
        (
            str(row["escalation_id"]),
            cells.digest_of(row["statement"])
            if row["statement"]
            else signed.get((cells.bytes_of(row["signature"]) or b"").hex(), ""),
        ): row
        for row in stored
    }
    for entry, row in found.rows_of(entries, rows, key, "the statement of the effect"):
        payload = entry.payload
        compare_signature(found, entry, row, ring)
        found.same(entry, "effectstatement.intent", payload["intent_id"], str(row["intent_id"]))
        found.same(entry, "effectstatement.effect", payload["effect"], row["effect"])
        found.same(entry, "effectstatement.key_id", payload["key_id"], row["key_id"])
        found.same(entry, "effectstatement.approver", entry.actor, actors.user(row["approver_id"]))
        if found.erasure_after(entry) is not None:
            continue
        # Its digest is that of the entry, or the row would not have been found.
        stated = canonical.decode(bytes(row["statement"]))
        found.same(entry, "effectstatement.reason", stated["justification"], row["reason"])
        found.same(entry, "effectstatement.stated_at", stated["stated_at"], timestamps.iso(row["stated_at"]))
        for name in ("solo", "target_key"):
            found.same(entry, f"effectstatement.{name}", stated[name], row[name])
    for name, _ in rows:
        owner = escalations[name]
        found.without_entry(owner[2], str(owner[1]), f"the statement of the effect on {name}")


def _compare_text(
    found: Found, entry: Entry, what: str, commitment: str, text: str, salts: Mapping[str, Any]
) -> None:
    salt = cells.bytes_of(salts.get(commitment))
    if salt is not None:  # else it was erased
        digest = canonical.digest(salt + canonical.encode(text))
        found.same(entry, what, commitment, digest)
