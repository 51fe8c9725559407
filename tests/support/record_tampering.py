"""What somebody with the database's own rights may do to decision records, some with the signing key, too."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from audit import canonical, signing
from audit.models import DecisionRecord, LedgerEntry, RecordTerm
from audit.records import dsse, emission, fold
from tests.support import ledger_tampering
from tests.support.finished_history import History

Case = Callable[[History], None]


def _newest(dfid: UUID) -> DecisionRecord:
    return DecisionRecord.objects.filter(dfid=dfid).order_by("-seq")[0]


def _column(column: str, value: Any) -> Case:
    def change(history: History) -> None:
        row = _newest(history.overridden)
        assert getattr(row, column) != value
        sql = f"UPDATE audit_decisionrecord SET {column} = %s WHERE id = %s"  # noqa: S608
        ledger_tampering.quietly(sql, [value, row.pk])

    return change


def _statement(sql: str) -> Case:
    return lambda history: ledger_tampering.quietly(sql)


def rewritten(row: DecisionRecord, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Write a record anew, hashed and signed by whoever holds the signing key."""
    record = canonical.decode(bytes(row.body))
    before = record.pop("audit")
    change(record)
    signer = signing.signer()
    whole = fold.sealed(record, prev_hash=before["prev_hash"], key_id=signer.key_id)
    body = canonical.encode(whole)
    signature = signer.sign(dsse.statement(body))
    made = emission.row_of(row.tenant, whole, body, signature=signature, at=row.at)
    ledger_tampering.quietly(
        "UPDATE audit_decisionrecord SET body = %s, record_hash = %s, signature = %s, status = %s "
        "WHERE id = %s",
        [made.body, made.record_hash, signature, made.status, row.pk],
    )
    return {
        "record_hash": whole["audit"]["record_hash"],
        "signature": signature.hex(),
        "status": made.status,
    }


def _another_approver(record: dict[str, Any]) -> None:
    record["approvals"][0]["approver"] = "user:999"


def _never_escalated(record: dict[str, Any]) -> None:
    record["approvals"], record["approval_mode_effective"] = [], "none"


def _signed_anew(history: History) -> None:
    rewritten(_newest(history.overridden), _another_approver)


def _throughout(change: Callable[[dict[str, Any]], None]) -> Case:
    """The record, its entry, and the chain and head of its flow: all but the tree."""

    def tamper(history: History) -> None:
        row = _newest(history.overridden)
        written = rewritten(row, change)
        entry = LedgerEntry.objects.get(stream=str(row.dfid), seq=row.seq + 1)
        said = canonical.decode(bytes(entry.body))
        said["payload"] |= written
        sql = "UPDATE audit_ledgerentry SET body = %s WHERE id = %s"
        ledger_tampering.execute(sql, [canonical.encode(said), entry.pk])
        ledger_tampering.rechain(str(row.dfid))
        ledger_tampering.put_triggers_back()

    return tamper


def _inserted(history: History) -> None:
    row = _newest(history.accepted)
    row.pk, row.seq, row.record_id, row.terminal = None, row.seq + 100, f"{row.record_id}00", False
    row.save(force_insert=True)


def _one_more_subject(history: History) -> None:
    row = _newest(history.accepted)
    RecordTerm.objects.create(tenant=row.tenant, name="subject", value="order:999", record=row.pk)


CASES: Mapping[str, Case] = {
    "record: body": _column("body", b"{}"),
    "record: body of another type": _column("body", "no bytes"),
    "record: status": _column("status", "REJECTED"),
    "record: decision": _column("decision_key", "ANOTHER"),
    "record: agent": _column("agent_id", "another"),
    "record: trace": _column("trace_id", "f" * 32),
    "record: number": _column("seq", 999),
    "record: id": _column("record_id", "dr_1"),
    "record: signature": _column("signature", bytes(64)),
    "record: key": _column("key_id", "f" * 16),
    "record: previous hash": _column("prev_hash", b"\x01" * 32),
    "record: all gone": _statement("DELETE FROM audit_decisionrecord"),
    "record: the last one gone": _statement(
        "DELETE FROM audit_decisionrecord WHERE id = (SELECT MAX(id) FROM audit_decisionrecord)"
    ),
    "record: one that nobody emitted": _inserted,
    "record: written anew and signed": _signed_anew,
    "record: another approver in record, entry, chain and head": _throughout(_another_approver),
    "record: no approval in record, entry, chain and head": _throughout(_never_escalated),
    "term: all gone": _statement("DELETE FROM audit_recordterm"),
    "term: another value": _statement(
        "UPDATE audit_recordterm SET value = 'user:999' WHERE name = 'approver'"
    ),
    "term: one too many": _one_more_subject,
}
