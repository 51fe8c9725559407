"""Append only: the database itself refuses to change entries, and a lost trigger is noticed."""

from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import DatabaseError, connection, transaction

from audit import ledger, triggers
from audit.events import SystemStopped
from audit.models import LedgerEntry

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STATEMENTS = [
    "UPDATE audit_ledgerentry SET actor = 'user:1'",
    "UPDATE audit_ledgerentry SET body = body",
    "DELETE FROM audit_ledgerentry",
]
VENDOR_STATEMENTS = {
    "postgresql": [
        "TRUNCATE audit_ledgerentry",
        "INSERT INTO audit_ledgerentry (tenant, stream, seq, kind, at, actor, body, prev_hash, hash) "
        "SELECT tenant, stream, seq, 'x:y', at, actor, body, prev_hash, hash FROM audit_ledgerentry "
        "ON CONFLICT (tenant, stream, seq) DO UPDATE SET kind = 'x:y'",
    ],
    "sqlite": [
        "INSERT OR REPLACE INTO audit_ledgerentry "
        "(tenant, stream, seq, kind, at, actor, body, prev_hash, hash) "
        "SELECT tenant, stream, seq, 'x:y', at, actor, body, prev_hash, hash FROM audit_ledgerentry",
        "REPLACE INTO audit_ledgerentry SELECT * FROM audit_ledgerentry",
    ],
}

pytestmark = pytest.mark.django_db


@pytest.fixture
def entry() -> LedgerEntry:
    ledger.append(
        tenant="default",
        stream="flow-1",
        head=ledger.GENESIS,
        actor="system",
        at=AT,
        events=[SystemStopped(reason="drill")],
    )
    return LedgerEntry.objects.get()


def execute(sql: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.mark.parametrize("position", range(5))
def test_the_database_refuses_to_change_entries(entry: LedgerEntry, position: int) -> None:
    sql = [*STATEMENTS, *VENDOR_STATEMENTS[connection.vendor]][position]
    with pytest.raises(DatabaseError):
        execute(sql)
    assert LedgerEntry.objects.values_list("kind", "actor").get() == ("system:stopped", "system")


def test_the_models_cannot_change_entries_either(entry: LedgerEntry) -> None:
    entry.actor = "user:1"
    with pytest.raises(DatabaseError), transaction.atomic():
        entry.save()
    with pytest.raises(DatabaseError), transaction.atomic():
        entry.delete()
    with pytest.raises(DatabaseError), transaction.atomic():
        LedgerEntry.objects.all().delete()


def drop_triggers() -> list[str]:
    suffix = " ON audit_ledgerentry" if connection.vendor == "postgresql" else ""
    names = sorted(triggers.WANTED[connection.vendor])
    for name in names:
        execute(f"DROP TRIGGER {name}{suffix}")
    return names


def test_missing_triggers_are_named_and_put_back() -> None:
    assert triggers.missing() == []
    names = drop_triggers()
    assert triggers.missing() == names
    triggers.install()
    triggers.install()
    assert triggers.missing() == []


def test_the_system_check_names_missing_triggers() -> None:
    call_command("check", databases=["default"], stdout=StringIO())
    names = drop_triggers()
    with pytest.raises(SystemCheckError, match=names[0]):
        call_command("check", databases=["default"], stdout=StringIO())


def test_a_check_without_a_database_asks_none() -> None:
    assert triggers.check_installed(app_configs=None, databases=None) == []


def test_before_the_first_migrate_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggers, "_TABLE", "audit_not_made_yet")
    assert triggers.missing() == []


def test_one_trigger_dropped_or_switched_off_counts_as_missing() -> None:
    name = min(triggers.WANTED[connection.vendor])
    if connection.vendor == "postgresql":
        execute(f"ALTER TABLE audit_ledgerentry DISABLE TRIGGER {name}")
    else:
        execute(f"DROP TRIGGER {name}")
    assert triggers.missing() == [name]
