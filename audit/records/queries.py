"""Reads of DecisionRecords: a search, one record, and those of a flow.

Each is compared with the entry that says that it was emitted, before it leaves: a row that says something
else is named in its place, and is not shown as if it were a record.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.functions import Cast

from audit import actors, canonical, cells
from audit.entry_search import hash_range
from audit.events import Kind
from audit.models import DecisionRecord, LedgerEntry, RecordFeedback, RecordTerm
from audit.records import erasures, fold
from audit.verification.verify import UNREADABLE

PAGE: Final = 50
NOT_EMITTED: Final = "No ledger entry says that this record was emitted."
DIFFERENT: Final = "What is stored of this record is not what its ledger entry recorded."
GONE: Final = "The ledger says that this record was emitted, and it is no longer stored."
ERASED: Final = "Words were erased that its subjects may repeat, so it is not shown."
# What the names of subjects are made of.
_OF_SUBJECTS: Final = frozenset({erasures.TRIGGER, erasures.PARAMS})
_RECORD_ID: Final = re.compile(r"dr_([0-9a-f]{32})_[0-9]{1,16}", re.ASCII)
_NUL: Final = "\x00"
# What the columns repeat of a record, for searches. Times are left out: `verify_ledger` compares those.
_COLUMNS: Final = (
    "record_id",
    "seq",
    "status",
    "terminal",
    "decision_key",
    "agent_id",
    "approval_mode",
    "trace_id",
    "supersedes_id",
    "key_id",
)
_TIMES: Final = frozenset({"at__gte", "at__lt"})
Row = Mapping[str, Any]
# A flow and the id of its record.
Place = tuple[str, str]


class Superseded(StrEnum):
    """Whether records are asked for whose place another one has taken."""

    HIDDEN = ""
    SHOWN = "all"
    ALONE = "only"


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordFilter:
    """What is asked; empty fields ask nothing. `since` is included, `until` is not.

    `approver` is a username, or a person as the ledger names them; `policy_decision` the id of a decision, of
    one of its rules, or its verdict; `outcome` what the kind itself calls the end of a flow. `scorecard` is
    the result of one, `failed_evaluator` who gave too low a value; `feedback` an assessment that somebody's
    newest feedback gives. Records that another one has superseded are left out, unless `superseded` or
    `feedback` asks for them: feedback stays with the record that it was given on.
    """

    decision_key: str = ""
    subject: str = ""
    status: str = ""
    approver: str = ""
    policy_decision: str = ""
    trace_id: str = ""
    agent_id: str = ""
    approval_mode: str = ""
    scorecard: str = ""
    failed_evaluator: str = ""
    superseded: Superseded = Superseded.HIDDEN
    outcome: str = ""
    feedback: str = ""
    dfid: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    # None where any flow will do, and the beginning of a record's hash, in hexadecimal.
    dfids: frozenset[UUID] | None = None
    record_hash: str = ""
    record_id: str = ""

    @property
    def is_narrow(self) -> bool:
        """Whether it names few records at once, so that no other index needs to lead."""
        return (
            bool(self.trace_id or self.dfid or self.record_hash or self.record_id) or self.dfids is not None
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A record as it was emitted: `body` is what `signature` is over, `entry` the number of its entry.

    `superseded_by` is the id of the record that has taken its place; empty for the newest of a flow.
    """

    pk: int
    record_id: str
    document: Mapping[str, Any]
    body: bytes
    signature: bytes
    key_id: str
    entry: int
    superseded_by: str = ""
    is_erased: ClassVar[bool] = False

    @property
    def dfid(self) -> str:
        """Its flow."""
        return str(self.document["flow"]["dfid"])


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherRecord:
    """A record that is not shown, and why not: it is not what was emitted, or it may repeat erased words."""

    pk: int
    record_id: str
    mismatch: str

    @property
    def is_erased(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.mismatch == ERASED

    def plain(self) -> dict[str, str]:
        """The same as the audit API answers it."""
        return {"record_id": self.record_id, "mismatch": self.mismatch}


Read = Record | OtherRecord


@dataclass(frozen=True, slots=True)
class Found:
    """Records in order; `following` is the cursor of the next page, None after the last."""

    rows: Sequence[Read]
    following: int | None = None

    @property
    def records(self) -> list[Record]:
        """Those that are shown."""
        return [row for row in self.rows if isinstance(row, Record)]

    @property
    def others(self) -> list[OtherRecord]:
        """Those that are not shown."""
        return [row for row in self.rows if isinstance(row, OtherRecord)]


def search(*, tenant: str, wanted: RecordFilter, after: int | None = None, size: int = PAGE) -> Found:
    """The newest records that match, or those after the cursor, newest first."""
    ids = _list_ids(tenant, wanted, after, size + 1)
    page = ids[:size]
    place = {pk: number for number, pk in enumerate(page)}
    rows = _read(tenant, DecisionRecord.objects.filter(pk__in=page))
    return Found(sorted(rows, key=lambda row: place[row.pk]), page[-1] if len(ids) > size else None)


def list_flows(*, tenant: str, wanted: RecordFilter, size: int) -> frozenset[UUID]:
    """The flows of the newest `size` records that match, not compared with their entries."""
    ids = _list_ids(tenant, wanted, None, size)
    return frozenset(DecisionRecord.objects.filter(pk__in=ids).values_list("dfid", flat=True))


def flow_of(record_id: str) -> UUID | None:
    """The flow that the id of a record names; None for what is no such id."""
    named = _RECORD_ID.fullmatch(record_id)
    return None if named is None else UUID(named[1])


def get(*, tenant: str, record_id: str) -> Read | None:
    """One record by its id; None for an id that no record ever had."""
    named = _RECORD_ID.fullmatch(record_id)
    if named is None:
        return None
    found = _read(tenant, DecisionRecord.objects.filter(tenant=tenant, record_id=record_id))
    if found:
        return found[0]
    is_gone = any(name == record_id for _, name in _emitted(tenant, {str(UUID(named[1]))}))
    return OtherRecord(pk=0, record_id=record_id, mismatch=GONE) if is_gone else None


def list_of_flow(*, tenant: str, dfid: UUID) -> Found | None:
    """All records of a flow, oldest first, and those that are gone; None where there is no such flow."""
    entries = LedgerEntry.objects.filter(tenant=tenant, stream=str(dfid))
    rows = _read(tenant, DecisionRecord.objects.filter(tenant=tenant, dfid=dfid).order_by("pk"))
    emitted = _emitted(tenant, {str(dfid)})
    if not rows and not emitted and not entries.exists():
        return None
    stored = {row.record_id for row in rows}
    gone = [name for _, name in emitted if name not in stored]
    return Found([*rows, *(OtherRecord(pk=0, record_id=name, mismatch=GONE) for name in gone)])


def _list_ids(tenant: str, wanted: RecordFilter, after: int | None, most: int) -> list[int]:
    """The newest keys that match.

    A subject or an approver is in few records, so the index of terms leads: SQLite would try each record
    instead, from the newest to the oldest. A trace, or a flow, has fewer still. Of a time alone they are in
    the order of time, which is that of its index: by number, SQLite would sort all of that time.
    """
    exact: dict[str, Any] = {
        "decision_key": wanted.decision_key,
        "status": wanted.status,
        "trace_id": wanted.trace_id.lower(),
        "agent_id": wanted.agent_id,
        "approval_mode": wanted.approval_mode,
        "dfid": wanted.dfid,
        "record_id": wanted.record_id,
        "at__gte": wanted.since,
        "at__lt": wanted.until,
    }
    asked = {name: value for name, value in exact.items() if value}
    if wanted.dfids is not None:
        asked["dfid__in"] = wanted.dfids
    if wanted.record_hash:
        asked["record_hash__gte"], asked["record_hash__lte"] = hash_range(wanted.record_hash)
    terms = _terms(wanted)
    if any(_NUL in str(value) for value in (*asked.values(), *(value for _, value in terms))):
        return []
    records = DecisionRecord.objects.filter(tenant=tenant, **asked)
    is_superseded = Exists(DecisionRecord.objects.filter(supersedes=OuterRef("record_id")))
    if wanted.superseded is Superseded.ALONE:
        records = records.filter(is_superseded)
    elif wanted.superseded is Superseded.HIDDEN and not wanted.feedback:
        records = records.filter(~is_superseded)
    if wanted.feedback:
        records = records.filter(pk__in=_assessed(tenant, wanted.feedback))
    if asked and asked.keys() <= _TIMES and not terms and not wanted.feedback:
        return list(_before(records, after).order_by("-at", "-pk").values_list("pk", flat=True)[:most])
    rows: QuerySet[Any]
    if terms and not wanted.is_narrow:
        (name, value), *terms = terms
        rows = RecordTerm.objects.filter(tenant=tenant, name=name, value=value)
        rows = rows.filter(Exists(records.filter(pk=OuterRef("record"))))
        key = "record"
    else:
        rows, key = records, "pk"
    for name, value in terms:
        term = RecordTerm.objects.filter(tenant=tenant, name=name, value=value, record=OuterRef(key))
        rows = rows.filter(Exists(term))
    if after is not None:
        rows = rows.filter(**{f"{key}__lt": after})
    # Of a few records by no column, or SQLite reads all of them in that order to find the few.
    # Those of a trace are in order in their own index.
    is_few = wanted.is_narrow and not (wanted.trace_id or wanted.dfid)
    newest = (F(key) + 0).desc() if is_few else F(key).desc()
    return list(rows.order_by(newest).values_list(key, flat=True)[:most])


def _before(rows: QuerySet[DecisionRecord], after: int | None) -> QuerySet[DecisionRecord]:
    """Those that come after the cursor in the order of time, the newest first; none for an unknown one."""
    if after is None:
        return rows
    at = Subquery(DecisionRecord.objects.filter(pk=after).values("at"))
    return rows.filter(Q(at__lt=at) | Q(at=at, pk__lt=after), at__lte=at)


def _assessed(tenant: str, assessment: str) -> QuerySet[Any]:
    """The records that somebody's newest feedback assesses so."""
    newer = RecordFeedback.objects.filter(
        record=OuterRef("record"), author=OuterRef("author"), number__gt=OuterRef("number")
    )
    rows = RecordFeedback.objects.filter(tenant=tenant, assessment=assessment).filter(~Exists(newer))
    return rows.values("record")


def _terms(wanted: RecordFilter) -> list[tuple[RecordTerm.Name, str]]:
    asked = (
        (RecordTerm.Name.SUBJECT, wanted.subject),
        (RecordTerm.Name.APPROVER, _actor(wanted.approver)),
        (RecordTerm.Name.POLICY_DECISION, wanted.policy_decision),
        (RecordTerm.Name.FAILED_EVALUATOR, wanted.failed_evaluator),
        (RecordTerm.Name.SCORECARD, wanted.scorecard),
        (RecordTerm.Name.OUTCOME, wanted.outcome),
    )
    return [(name, value) for name, value in asked if value]


def _actor(name: str) -> str:
    """A person as records name them; the name itself where nobody is called so, which no record holds."""
    if not name or _NUL in name or actors.is_user(name):
        return name
    found = get_user_model().objects.filter(username__iexact=name).values_list("pk", flat=True).first()
    return name if found is None else actors.user(found)


class _Emission(NamedTuple):
    """What an entry says of a record."""

    seq: int
    record_hash: str
    signature: str
    key_id: str


def _read(tenant: str, rows: QuerySet[DecisionRecord]) -> list[Read]:
    """The records of these rows, in their order: one query for all entries, and two for what was erased."""
    # As text, since a cell of SQLite that holds no id would keep all the others from being read.
    stored = rows.annotate(flow=Cast("dfid", TextField())).values(
        "pk", "flow", "body", "signature", "superseded_by__record_id", *_COLUMNS
    )
    read = [(row, document_of(row["body"])) for row in stored]
    emitted = _emitted(tenant, {document["flow"]["dfid"] for _, document in read if document is not None})
    return _without_erased(tenant, [_compared(row, document, emitted) for row, document in read])


def _without_erased(tenant: str, found: list[Read]) -> list[Read]:
    with_subjects = {row.dfid for row in found if isinstance(row, Record) and row.document["subject_ids"]}
    erased = erasures.list_erased(tenant=tenant, flows=with_subjects)
    return [
        OtherRecord(pk=row.pk, record_id=row.record_id, mismatch=ERASED)
        if isinstance(row, Record) and erased.get(row.dfid, frozenset()) & _OF_SUBJECTS
        else row
        for row in found
    ]


def _emitted(tenant: str, flows: Collection[str]) -> dict[Place, _Emission]:
    """What the ledger says was emitted in these flows, oldest first."""
    rows = LedgerEntry.objects.filter(tenant=tenant, stream__in=flows, kind=Kind.RECORD_EMITTED)
    found: dict[Place, _Emission] = {}
    for body in rows.order_by("stream", "seq").values_list("body", flat=True):
        try:
            # By what the bytes say: a column beside them may have been changed.
            entry = canonical.decode(cells.bytes_of(body) or b"")
            said = entry["payload"]
            emission = _Emission(entry["seq"], said["record_hash"], said["signature"], said["key_id"])
            if entry["kind"] == Kind.RECORD_EMITTED:
                found.setdefault((entry["stream"], said["record_id"]), emission)
        except UNREADABLE:
            continue
    return found


def document_of(cell: object) -> dict[str, Any] | None:
    """The record that a cell holds; None for anything that cannot be one."""
    body = cells.bytes_of(cell) or b""
    try:
        found = canonical.decode(body)
        is_record = isinstance(found["flow"]["dfid"], str) and canonical.encode(found) == body
    except UNREADABLE:
        return None
    return found if is_record else None


def _compared(row: Row, document: dict[str, Any] | None, emitted: Mapping[Place, _Emission]) -> Read:
    name = str(row["record_id"])
    if document is None:
        return OtherRecord(pk=row["pk"], record_id=name, mismatch=DIFFERENT)
    said = emitted.get((document["flow"]["dfid"], name))
    if said is None:
        return OtherRecord(pk=row["pk"], record_id=name, mismatch=NOT_EMITTED)
    try:
        is_same = _is_same(row, document, said)
    except UNREADABLE:
        is_same = False
    if not is_same:
        return OtherRecord(pk=row["pk"], record_id=name, mismatch=DIFFERENT)
    return Record(
        pk=row["pk"],
        record_id=name,
        document=document,
        body=bytes(row["body"]),
        signature=bytes.fromhex(said.signature),
        key_id=said.key_id,
        entry=said.seq,
        superseded_by=row["superseded_by__record_id"] or "",
    )


def _is_same(row: Row, document: Mapping[str, Any], said: _Emission) -> bool:
    """Whether a row is that of the record that was emitted, down to what it is found by."""
    sealed = fold.sealed(document, prev_hash=document["audit"]["prev_hash"], key_id=said.key_id)
    columns = (
        document["record_id"],
        document["flow"]["to_seq"],
        document["status"],
        document["terminal"],
        document["decision_key"] or "",
        document["actor"]["id"],
        document["approval_mode_effective"],
        document["trace_id"],
        document["supersedes"],
        said.key_id,
    )
    return (
        sealed == document
        and sealed["audit"]["record_hash"] == said.record_hash
        and said.seq == document["flow"]["to_seq"] + 1
        and columns == tuple(row[name] for name in _COLUMNS)
        and UUID(row["flow"]) == UUID(document["flow"]["dfid"])
        and cells.bytes_of(row["signature"]) == bytes.fromhex(said.signature)
    )
