"""What the owner of a database can do: change entries with the triggers out of the way."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from audit import canonical, chain
from audit.chain import BreakKind, ChainBreak
from audit.models import LedgerEntry
from audit.verification import findings, triggers
from runtime.flows.models import Flow, Intent

TABLES = sorted({trigger.table for trigger in triggers.WANTED[connection.vendor].values()})


def execute(sql: str, params: Sequence[Any] = ()) -> None:
    """Run a statement on the ledger with its triggers switched off; the test's rollback brings them back."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # As the owner of the tables, which is what the product itself is: no superuser is needed.
            for table in TABLES:
                cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        else:
            for name in triggers.WANTED["sqlite"]:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        cursor.execute(sql, params)


def quietly(sql: str, params: Sequence[Any] = ()) -> None:
    """Change entries and put the triggers back, as somebody would who wants nothing to be seen."""
    execute(sql, params)
    put_triggers_back()


def put_triggers_back() -> None:
    """Leave no trace of `execute` but what it changed."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for table in TABLES:
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    triggers.install()


def rewrite_requests(intent_id: UUID, requests: bytes) -> None:
    """Give an intent other requests, and its entry their digest: what an older version may have rendered."""
    row = Intent.objects.get(pk=intent_id)
    entry = LedgerEntry.objects.get(stream=str(row.flow_id), kind="intent:created")
    recorded = entry.payload["request_digest"].encode()
    body = bytes(entry.body).replace(recorded, canonical.digest(requests).encode())
    execute("UPDATE audit_ledgerentry SET body = %s WHERE id = %s", [body, entry.pk])
    rechain(str(row.flow_id))
    Intent.objects.filter(pk=intent_id).update(requests=requests)


def forget(stream: str, members: Collection[str]) -> None:
    """Take members out of the payloads of a flow's entries, as a version wrote them that had none."""
    for entry in LedgerEntry.objects.filter(stream=stream):
        body = canonical.decode(bytes(entry.body))
        body["payload"] = {name: value for name, value in body["payload"].items() if name not in members}
        execute("UPDATE audit_ledgerentry SET body = %s WHERE id = %s", [canonical.encode(body), entry.pk])
    rechain(stream)
    put_triggers_back()


def rechain(stream: str) -> None:
    """Make the hashes of a flow right again after a change of its entries, and its head with them."""
    prev_hash, seq = chain.GENESIS_HASH, 0
    for entry in LedgerEntry.objects.filter(stream=stream).order_by("seq"):
        entry_hash, seq = chain.entry_hash(prev_hash, bytes(entry.body)), entry.seq
        execute(
            "UPDATE audit_ledgerentry SET prev_hash = %s, hash = %s WHERE id = %s",
            [prev_hash, entry_hash, entry.pk],
        )
        prev_hash = entry_hash
    Flow.objects.filter(dfid=stream).update(head_seq=seq, head_hash=prev_hash)


def differences() -> list[ChainBreak]:
    """What `verify_ledger` finds, except the rows that tests put there without an entry.

    And except when attempts began: tests move that back, so that time has passed.
    """
    found = findings.verify_all()
    assert not found.more
    return [
        item
        for item in found.findings
        if item.fault is not BreakKind.ROW_WITHOUT_ENTRY and not item.detail.startswith("attempt.started_at ")
    ]
