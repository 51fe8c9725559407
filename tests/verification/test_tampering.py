"""verify_ledger on a real history: each way to change it in the database is found and named."""

import json
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from audit import canonical, ledger
from audit.chain import BreakKind
from audit.models import LedgerEntry, Payload
from audit.verification import findings, row_checks
from runtime.core import clock
from runtime.flows.models import Flow
from runtime.verification.flow_rows import FlowRowCheck
from tests.support import finished_history, ledger_tampering, tamper_cases, worlds
from tests.support.finished_history import History

history = worlds.opened(finished_history.opened)


@pytest.fixture
def undone(history: History, django_db_blocker: Any) -> Iterator[History]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield history
        transaction.set_rollback(True)


def verify(*options: str) -> str:
    printed = StringIO()
    call_command("verify_ledger", *options, stdout=printed, stderr=StringIO())
    return printed.getvalue()


def test_the_control_is_whole(undone: History) -> None:
    result = findings.verify_all()
    assert result.findings == []
    assert result.entries == LedgerEntry.objects.count() > 100
    assert verify().startswith(f"The ledger is intact: {result.entries} entries")


def test_the_command_names_the_first_bad_entry(undone: History) -> None:
    tamper_cases.CASES["entry: body"](undone)
    with pytest.raises(CommandError, match=r"The first bad entry: tenant .*, stream .+, seq 3: [A-Z_]+, "):
        verify()


@pytest.mark.parametrize("sql", ["UPDATE audit_ledgerentry SET actor = 'x'", "DELETE FROM audit_ledgerentry"])
def test_the_triggers_refuse_what_plain_sql_tries(undone: History, sql: str) -> None:
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)


def test_every_finding_is_listed_up_to_a_bound(undone: History, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger_tampering.quietly("UPDATE audit_ledgerentry SET actor = 'user:9' WHERE seq = 2")
    every = findings.verify_all()
    assert len(every.findings) > 3
    assert {item.fault for item in every.findings} >= {BreakKind.COLUMN_MISMATCH}
    monkeypatch.setattr(findings, "MOST_FINDINGS", 2)
    bounded = findings.verify_all()
    assert len(bounded.findings) == 2
    assert bounded.more == len(every.findings) - 2


def test_json_holds_findings_and_the_public_key(undone: History) -> None:
    whole = json.loads(verify("--json"))
    assert whole["whole"] is True
    assert whole["not_proved"]
    assert list(whole["public_keys"])
    Flow.objects.filter(dfid=undone.aborted).update(reason="DEADLINE_PASSED")
    printed = StringIO()
    with pytest.raises(CommandError):
        call_command("verify_ledger", "--json", stdout=printed, stderr=StringIO())
    (found,) = json.loads(printed.getvalue())["findings"]
    assert (found["stream"], found["fault"]) == (str(undone.aborted), "ROW_MISMATCH")


def test_an_erased_payload_with_its_entry_is_no_finding_until_it_is_put_back(undone: History) -> None:
    said = LedgerEntry.objects.get(stream=str(undone.aborted), kind="proposal:submitted").payload
    commitment = said["params_commitment"]
    before = (
        Payload.objects.filter(commitment=commitment)
        .values("salt", "key", "nonce", "content", "erased_at")
        .get()
    )
    assert ledger.erase_payload(
        tenant="default", commitment=commitment, actor="user:1", at=clock.now(), reason="asked for"
    )
    result = findings.verify_all()
    assert (result.findings, result.erased) == ([], 1)
    Payload.objects.filter(commitment=commitment).update(**before)
    (found,) = findings.verify_all().findings
    assert (found.stream, found.fault) == (f"payload {commitment}", BreakKind.PAYLOAD_MISMATCH)
    assert found.detail == "the payload was erased but is present again"


def an_entry_of_each_kind() -> dict[str, LedgerEntry]:
    """The first entry of each kind that a check of rows sees."""
    seen = {str(kind) for check in row_checks.all_checks() for kind in check.kinds}
    newest_first = LedgerEntry.objects.filter(kind__in=seen).order_by("-id")
    return {entry.kind: entry for entry in newest_first}


def with_payload(entry: LedgerEntry, payload: Any) -> bytes:
    return canonical.encode({**canonical.decode(bytes(entry.body)), "payload": payload})


ODD: dict[str, Callable[[LedgerEntry], Any]] = {
    "an empty payload": lambda entry: with_payload(entry, {}),
    "a payload that is no object": lambda entry: with_payload(entry, ["x"]),
    "fields of other types": lambda entry: with_payload(entry, {name: [{}] for name in entry.payload}),
    "fields without a value": lambda entry: with_payload(entry, dict.fromkeys(entry.payload)),
    "bytes that are no JSON": lambda entry: b"xx",
    "text": lambda entry: "xx",
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_body_of_any_kind_is_a_finding_at_its_place(
    undone: History, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "text" and connection.vendor == "postgresql":
        return  # its column refuses it
    monkeypatch.setattr(findings, "MOST_FINDINGS", 10_000)
    changed = an_entry_of_each_kind()
    assert len(changed) > 40
    for entry in changed.values():
        ledger_tampering.quietly(
            "UPDATE audit_ledgerentry SET body = %s WHERE id = %s", [ODD[name](entry), entry.pk]
        )
    found = {(item.stream, item.seq) for item in findings.verify_all().findings}
    assert found >= {(entry.stream, entry.seq) for entry in changed.values()}


def test_a_payload_that_is_not_one_of_its_kind_is_found_where_the_chain_is_whole(undone: History) -> None:
    entry = LedgerEntry.objects.get(stream=str(undone.aborted), kind="proposal:submitted")
    odd = with_payload(entry, {**entry.payload, "proposal_id": 7})
    ledger_tampering.quietly("UPDATE audit_ledgerentry SET body = %s WHERE id = %s", [odd, entry.pk])
    ledger_tampering.rechain(entry.stream)
    ledger_tampering.put_triggers_back()
    found = [item for item in findings.verify_all().findings if item.seq == entry.seq]
    assert [item.fault for item in found] == [BreakKind.UNREADABLE, BreakKind.LEAF_MISMATCH]
    assert found[0].detail == "the payload is not valid for the kind proposal:submitted"


def test_many_flows_are_compared_batch_by_batch(undone: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_checks, "STREAMS_AT_ONCE", 1)
    assert findings.verify_all().findings == []
    tamper_cases.CASES["proposal.body"](undone)
    assert [item.fault for item in findings.verify_all().findings] == [BreakKind.ROW_MISMATCH]


def test_rows_whose_flow_is_gone_are_looked_for_without_a_list_of_all_flows(undone: History) -> None:
    """A list outgrows the memory of one query, and is then read again for each row."""
    with CaptureQueriesContext(connection) as captured:
        assert list(FlowRowCheck().finish()) == []
    assert len(captured) > 3
    explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
    for query in captured:
        with connection.cursor() as cursor:
            cursor.execute(explain + query["sql"])
            plan = " ".join(str(row) for row in cursor.fetchall())
        assert "LIST SUBQUERY" not in plan, plan
        assert "SubPlan" not in plan, plan
