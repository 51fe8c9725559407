"""Append only: the database itself refuses to change entries, and a lost trigger is noticed."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import DatabaseError, connection, transaction

from audit import ledger
from audit.events import SystemStopped
from audit.models import LedgerEntry
from audit.verification import triggers

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
    wanted = triggers.WANTED[connection.vendor]
    for name, trigger in wanted.items():
        execute(f"DROP TRIGGER {name}" + (f" ON {trigger.table}" * (connection.vendor == "postgresql")))
    return sorted(wanted)


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


def test_nothing_is_missing_from_a_table_that_is_not_made_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = triggers.WANTED[connection.vendor]
    unmade = {name: replace(trigger, table="audit_not_made_yet") for name, trigger in wanted.items()}
    monkeypatch.setattr(triggers, "WANTED", {connection.vendor: unmade})
    assert triggers.missing() == []


NAME = "audit_entry_no_delete" if connection.vendor == "sqlite" else "audit_entry_no_change"
_RETURNS = "CREATE OR REPLACE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS"
_RUNS = "EXECUTE FUNCTION audit_refuse_change()"
_ON = "ON audit_ledgerentry"
_RAISES = "BEGIN SELECT RAISE(ABORT, 'ledger entries are append only'); END"
_DROP = f"DROP TRIGGER {NAME}"
_REPLACE = f"CREATE OR REPLACE TRIGGER {NAME} BEFORE"
WEAKENED: dict[str, dict[str, list[str]]] = {
    "sqlite": {
        "dropped": [_DROP],
        "empty": [_DROP, f"CREATE TRIGGER {NAME} BEFORE DELETE {_ON} BEGIN SELECT 1; END"],
        "conditional": [_DROP, f"CREATE TRIGGER {NAME} BEFORE DELETE {_ON} WHEN OLD.id < 0 {_RAISES}"],
        "of another act": [_DROP, f"CREATE TRIGGER {NAME} BEFORE UPDATE {_ON} {_RAISES}"],
    },
    "postgresql": {
        "dropped": [f"{_DROP} {_ON}"],
        "switched off": [f"ALTER TABLE audit_ledgerentry DISABLE TRIGGER {NAME}"],
        "for replicas alone": [f"ALTER TABLE audit_ledgerentry ENABLE REPLICA TRIGGER {NAME}"],
        "a function that returns": [f"{_RETURNS} $$ BEGIN RETURN NEW; END $$"],
        "conditional": [
            f"{_REPLACE} UPDATE OR DELETE {_ON} FOR EACH ROW WHEN (OLD.id < 0) {_RUNS}",
        ],
        "of one column": [f"{_REPLACE} UPDATE OF xact OR DELETE {_ON} FOR EACH ROW {_RUNS}"],
        "of another act": [f"{_REPLACE} DELETE {_ON} FOR EACH ROW {_RUNS}"],
    },
}


@pytest.mark.parametrize("way", WEAKENED[connection.vendor])
def test_a_trigger_that_refuses_less_than_it_should_counts_as_missing(way: str) -> None:
    for statement in WEAKENED[connection.vendor][way]:
        execute(statement)
    assert NAME in triggers.missing()
    triggers.install()
    assert triggers.missing() == []


def test_a_trigger_whose_table_was_renamed_back_is_as_it_was() -> None:
    execute("ALTER TABLE audit_ledgerentry RENAME TO audit_elsewhere")
    execute("ALTER TABLE audit_elsewhere RENAME TO audit_ledgerentry")
    assert triggers.missing() == []


@pytest.mark.skipif(connection.vendor != "sqlite", reason="triggers of PostgreSQL ask for no other row")
def test_no_trigger_walks_a_table_even_once_somebody_ran_analyze_on_a_small_one() -> None:
    """Its plan would stay that of the small one, and each insert take longer than the one before."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("DELETE FROM sqlite_stat1")
        for name, table in cursor.execute(
            "SELECT name, tbl_name FROM sqlite_master WHERE type = 'index' AND tbl_name LIKE 'audit_%'"
        ).fetchall():
            columns = cursor.execute(f"PRAGMA index_info({name})").fetchall()
            few = " ".join(["11"] * (len(columns) + 1))  # rows, and how many are alike in each column
            cursor.execute("INSERT INTO sqlite_stat1 VALUES (%s, %s, %s)", [table, name, few])
        cursor.execute("ANALYZE sqlite_master")  # read them
        asked = 0
        for name, trigger in triggers.WANTED["sqlite"].items():
            if " WHEN " not in trigger.words:
                continue
            condition = trigger.words.split(" WHEN ", 1)[1].split(" BEGIN ", 1)[0]
            cursor.execute("EXPLAIN QUERY PLAN SELECT " + re.sub(r'NEW\."?\w+"?', "NULL", condition))
            plan = [row[-1] for row in cursor.fetchall()]
            asked += sum(step.startswith("SEARCH") for step in plan)
            assert not any(step.startswith("SCAN audit_") for step in plan), (name, plan)
    assert asked > 8
