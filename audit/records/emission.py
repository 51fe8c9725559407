"""Writing a record: in the transaction of its checkpoint, from its entries and those since the one before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery

from audit import canonical, cells, chain, statements
from audit.events import Event, Kind, RecordEmitted
from audit.models import DecisionRecord, LedgerEntry, RecordTerm
from audit.records import dsse, fold, rules
from audit.records.fold import FindRules, Said
from audit.sealing import own_key

GENESIS: Final = "00" * 32
# As many entries as a flow mostly has between two checkpoints, read at once.
_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class Emission:
    """A record that is ready: its entry, which goes after those it is folded from, and its rows."""

    event: RecordEmitted
    row: DecisionRecord
    terms: Sequence[tuple[str, str]]
    is_scored: bool

    def store(self) -> None:
        """Write the rows."""
        statements.insert([self.row], needs_keys=True)
        statements.insert(
            [
                RecordTerm(tenant=self.row.tenant, name=name, value=value, record=self.row.pk)
                for name, value in self.terms
            ]
        )


def prepare(
    *,
    tenant: str,
    dfid: UUID,
    head_seq: int,
    actor: str,
    at: datetime,
    events: Sequence[Event],
    find_rules: FindRules,
    has_ended: bool = False,
) -> Emission | None:
    """The record that follows from `events`, which are about to be appended after `head_seq`.

    None where none of them is a checkpoint, and, after the end, none changes what the last record says.
    The caller holds the flow's lock and is in the transaction. Raises `rules.InvalidRecordError`,
    and `own_key.KeyEndedError` where this process may no longer sign.
    """
    told = [
        Said(seq, event.kind.value, chain.time_text(at), actor, event.payload())
        for seq, event in enumerate(events, start=head_seq + 1)
    ]
    is_checkpoint = any(fold.is_checkpoint(entry.kind, entry.payload) for entry in told)
    if not (is_checkpoint or has_ended):
        return None
    before = newest(tenant=tenant, dfid=dfid, head_seq=head_seq, find_rules=find_rules)
    is_late = before.record is not None and any(
        fold.changes(each.kind, version=before.record["schema_version"]) for each in (*before.since, *told)
    )
    if not (is_checkpoint or is_late):
        return None
    record = fold.fold(
        dfid=str(dfid), previous=before.record, entries=[*before.since, *told], rules=find_rules
    )
    rules.check(record)
    signer = own_key.signer(tenant=tenant, at=at)
    whole = fold.sealed(record, prev_hash=before.record_hash, key_id=signer.key_id)
    body = canonical.encode(whole)
    row = row_of(tenant, whole, body, signature=signer.sign(dsse.statement(body)), at=at)
    event = RecordEmitted(
        record_id=row.record_id,
        status=row.status,
        terminal=row.terminal,
        record_hash=whole["audit"]["record_hash"],
        fold_version=whole["schema_version"],
        signature=bytes(row.signature).hex(),
        key_id=row.key_id,
    )
    return Emission(event=event, row=row, terms=terms_of(whole), is_scored=bool(whole["scorecard"]))


@dataclass(frozen=True, slots=True)
class Newest:
    """Where the fold goes on: the newest record, and the entries since then."""

    record: dict[str, Any] | None
    record_hash: str
    since: Sequence[Said]


def newest(*, tenant: str, dfid: UUID, head_seq: int, find_rules: FindRules) -> Newest:
    """The newest record of a flow up to this entry, as its entry names it."""
    newest_first = _newest_first(tenant, dfid, head_seq)
    since = list[Said]()
    for entry, emitted in newest_first:
        if entry.kind == Kind.RECORD_EMITTED:
            record = _stored(emitted, entry)
            break
        since.append(entry)
    else:
        return Newest(None, GENESIS, since[::-1])
    if record is None:
        # The row is not what its entry says, which is for `verify_ledger` to tell; the entries still stand.
        last_version = str(entry.payload["fold_version"])
        entries = [entry for entry, _ in newest_first][::-1]
        record = _folded_again(dfid, entries, find_rules, last_version=last_version)
    return Newest(record, entry.payload["record_hash"], since[::-1])


def _newest_first(tenant: str, dfid: UUID, head_seq: int) -> Iterator[tuple[Said, Any]]:
    """The entries of a flow, read page by page and decoded as they are asked for, each with its record."""
    while head_seq > 0:
        after = head_seq - _AT_ONCE
        page = _BODIES.rows(tenant=tenant, stream=str(dfid), dfid=dfid, after=after, until=head_seq)
        yield from ((said_of(bytes(body)), emitted) for body, emitted in page)
        head_seq = after


def _bodies(
    *, tenant: str, stream: str, dfid: UUID, after: int, until: int
) -> QuerySet[LedgerEntry, tuple[Any, Any]]:
    """Each with the bytes of the record that it is about, if any: that is folded up to the entry before."""
    entries = LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq__gt=after, seq__lte=until)
    record = DecisionRecord.objects.filter(tenant=tenant, dfid=dfid, seq=OuterRef("seq") - 1)
    return entries.order_by("-seq").values_list("body", Subquery(record.values("body")))


_BODIES: Final = statements.Read(_bodies)


def _folded_again(
    dfid: UUID, entries: Sequence[Said], find_rules: FindRules, *, last_version: str
) -> dict[str, Any] | None:
    """The last of the records that these entries led to, of which each goes on from the one before."""
    told = [entry.payload["fold_version"] for entry in entries if entry.kind == Kind.RECORD_EMITTED]
    version = told[0] if told and told[0] in fold.VERSIONS else last_version
    record: dict[str, Any] | None = None
    since: list[Said] = []
    for entry in entries:
        if entry.kind != Kind.RECORD_EMITTED:
            since.append(entry)
            continue
        record = fold.fold(dfid=str(dfid), previous=record, entries=since, rules=find_rules, version=version)
        since = []
    return fold.fold(dfid=str(dfid), previous=record, entries=since, rules=find_rules, version=version)


def _stored(stored: Any, entry: Said) -> dict[str, Any] | None:
    """The record that an entry is about; None where what is stored is not that."""
    try:
        record = canonical.decode(cells.bytes_of(stored) or b"")
        same = fold.record_hash(record) == entry.payload["record_hash"]
    except (canonical.CanonicalError, TypeError, KeyError):
        return None
    return record if same else None


def said_of(body: bytes) -> Said:
    """A stored entry, as the fold reads it."""
    told = canonical.decode(body)
    return Said(told["seq"], told["kind"], told["at"], told["actor"], told["payload"])


def row_of(
    tenant: str, record: dict[str, Any], body: bytes, *, signature: bytes, at: datetime
) -> DecisionRecord:
    """The row of a whole record; its columns say what the record says."""
    return DecisionRecord(
        tenant=tenant,
        record_id=record["record_id"],
        dfid=UUID(record["flow"]["dfid"]),
        seq=record["flow"]["to_seq"],
        status=record["status"],
        terminal=record["terminal"],
        decision_key=record["decision_key"] or "",
        agent_id=record["actor"]["id"],
        approval_mode=record["approval_mode_effective"],
        trace_id=record["trace_id"],
        supersedes_id=record["supersedes"],
        at=at,
        body=body,
        record_hash=bytes.fromhex(record["audit"]["record_hash"]),
        prev_hash=bytes.fromhex(record["audit"]["prev_hash"]),
        signature=signature,
        key_id=record["audit"]["signed_by"],
    )


def terms_of(record: dict[str, Any]) -> list[tuple[str, str]]:
    """What a record is found by beside its columns; of a policy decision its id, its rules, its verdict."""
    decided = record["policy_decisions"]
    # Of the kind's own words alone: the others follow from the status. Told once, by the last record.
    own = record["outputs"].get("result", {}).get("outcome") if record["terminal"] else None
    named = [
        *((RecordTerm.Name.SUBJECT, subject) for subject in record["subject_ids"]),
        *((RecordTerm.Name.APPROVER, given["approver"]) for given in record["approvals"]),
        *((RecordTerm.Name.POLICY_DECISION, item["policy_decision_id"]) for item in decided),
        *((RecordTerm.Name.POLICY_DECISION, rule) for item in decided for rule in item["rule_ids"]),
        *((RecordTerm.Name.POLICY_DECISION, item["verdict"]) for item in decided),
        *_scores_of(record["scorecard"]),
        *([(RecordTerm.Name.OUTCOME, own)] if own else []),
    ]
    return list(dict.fromkeys((name.value, value) for name, value in named))


def _scores_of(scorecard: dict[str, Any]) -> list[tuple[RecordTerm.Name, str]]:
    """The result of a scorecard, and the evaluators whose value is too low; nothing before it is scored."""
    if not scorecard:
        return []
    failed = [name for name, told in scorecard["details"].items() if told["passed"] is False]
    return [
        (RecordTerm.Name.SCORECARD, scorecard["result"]),
        *((RecordTerm.Name.FAILED_EVALUATOR, name) for name in failed),
    ]
