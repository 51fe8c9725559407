"""Append only, enforced by the database: ordinary SQL changes and removes no entry, leaf or checkpoint.

Another trigger queues each new entry for the tree. A database owner can still switch triggers off; the chain
of hashes and the tree are what show that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error
from django.db import connections
from django.db.backends.utils import CursorWrapper

_ENTRIES = "audit_ledgerentry"


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger of a table: what follows its name in CREATE TRIGGER, and the other table that it writes to.

    `reads` is a column that the table has only since a later migration. PostgreSQL alone has the rest: the
    function that it runs, with its source, and its pg_trigger.tgtype.
    """

    table: str
    words: str
    writes_to: str = ""
    function: str = ""
    source: str = ""
    tgtype: int = 0
    reads: str = ""


def _refusal(what: str) -> str:
    return f"{what} are append only"


def _taken(table: str, *places: str) -> str:
    """Whether a row has one of the places, each asked for alone.

    By OR, SQLite may walk the whole table, and goes on so for ever once somebody ran ANALYZE on a small one.
    """
    return " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {place})" for place in places)  # noqa: S608


def _append_only_sqlite(name: str, table: str, what: str, *same_place: str) -> dict[str, Trigger]:
    refuse = f"BEGIN SELECT RAISE(ABORT, '{_refusal(what)}'); END"
    # INSERT OR REPLACE removes the old row without firing the delete trigger.
    same = _taken(table, *same_place)
    taken = f"BEGIN SELECT RAISE(ABORT, 'UNIQUE constraint failed: {what} have this one'); END"
    return {
        f"audit_{name}_no_update": Trigger(table, f"BEFORE UPDATE ON {table} {refuse}"),
        f"audit_{name}_no_delete": Trigger(table, f"BEFORE DELETE ON {table} {refuse}"),
        f"audit_{name}_no_replace": Trigger(table, f"BEFORE INSERT ON {table} WHEN {same} {taken}"),
    }


_RECORDS = "audit_decisionrecord"
# The other places that a record takes: INSERT OR REPLACE must not free one of them either.
_RECORD_PLACES = (
    "NEW.supersedes IS NOT NULL AND supersedes = NEW.supersedes",
    "dfid = NEW.dfid AND seq = NEW.seq AND tenant = NEW.tenant",
    "dfid = NEW.dfid AND terminal AND NEW.terminal AND supersedes IS NULL AND NEW.supersedes IS NULL",
)
_RECORD_ONCE = Trigger(
    _RECORDS,
    f"BEFORE INSERT ON {_RECORDS} WHEN {_taken(_RECORDS, *_RECORD_PLACES)} "
    "BEGIN SELECT RAISE(ABORT, 'UNIQUE constraint failed: decision records have this place'); END",
    reads="supersedes",
)

_RECORD_FOLLOWS = Trigger(
    _RECORDS,
    f"BEFORE INSERT ON {_RECORDS} WHEN NEW.supersedes IS NOT NULL AND NOT EXISTS "  # noqa: S608
    f"(SELECT 1 FROM {_RECORDS} WHERE record_id = NEW.supersedes AND terminal) "
    "BEGIN SELECT RAISE(ABORT, 'FOREIGN KEY constraint failed: no such terminal record'); END",
    reads="supersedes",
)

# As pg_trigger.tgtype has them.
_ROW, _BEFORE, _INSERT, _DELETE, _UPDATE, _TRUNCATE = 1, 2, 4, 8, 16, 32


def _append_only_postgresql(name: str, table: str, what: str, function: str) -> dict[str, Trigger]:
    source = f" BEGIN RAISE EXCEPTION '{_refusal(what)}' USING ERRCODE = 'restrict_violation'; END "
    run = f"EXECUTE FUNCTION {function}()"
    change = f"BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW {run}"
    truncate = f"BEFORE TRUNCATE ON {table} FOR EACH STATEMENT {run}"
    return {
        f"audit_{name}_no_change": Trigger(
            table, change, "", function, source, _ROW | _BEFORE | _DELETE | _UPDATE
        ),
        f"audit_{name}_no_truncate": Trigger(table, truncate, "", function, source, _BEFORE | _TRUNCATE),
    }


_QUEUE_TABLE = "audit_unsealedentry"
_QUEUE = "INSERT INTO audit_unsealedentry (entry_id) VALUES (NEW.id);"
_QUEUED = "audit_entry_queued"
# Whatever writes an entry also puts it in line for the tree, in the same transaction.
_QUEUES_SQLITE = Trigger(_ENTRIES, f"AFTER INSERT ON {_ENTRIES} BEGIN {_QUEUE} END", _QUEUE_TABLE)
_QUEUES_POSTGRESQL = Trigger(
    _ENTRIES,
    f"AFTER INSERT ON {_ENTRIES} FOR EACH ROW EXECUTE FUNCTION audit_queue_entry()",
    _QUEUE_TABLE,
    "audit_queue_entry",
    f" BEGIN {_QUEUE} RETURN NULL; END ",
    _ROW | _INSERT,
)

WANTED: Mapping[str, Mapping[str, Trigger]] = {
    "sqlite": {
        **_append_only_sqlite(
            "entry",
            _ENTRIES,
            "ledger entries",
            "id = NEW.id",
            "tenant = NEW.tenant AND stream = NEW.stream AND seq = NEW.seq",
        ),
        **_append_only_sqlite(
            "leaf", "audit_leaf", "leaves", '"index" = NEW."index"', "entry_id = NEW.entry_id"
        ),
        **_append_only_sqlite("checkpoint", "audit_checkpoint", "checkpoints", "id = NEW.id"),
        **_append_only_sqlite(
            "record", "audit_decisionrecord", "decision records", "id = NEW.id", "record_id = NEW.record_id"
        ),
        "audit_record_one_place": _RECORD_ONCE,
        "audit_record_follows": _RECORD_FOLLOWS,
        **_append_only_sqlite("term", "audit_recordterm", "terms of decision records", "id = NEW.id"),
        **_append_only_sqlite(
            "feedback",
            "audit_recordfeedback",
            "feedback on decision records",
            "id = NEW.id",
            "feedback_id = NEW.feedback_id",
        ),
        _QUEUED: _QUEUES_SQLITE,
    },
    "postgresql": {
        **_append_only_postgresql("entry", _ENTRIES, "ledger entries", "audit_refuse_change"),
        **_append_only_postgresql("leaf", "audit_leaf", "leaves", "audit_refuse_leaf"),
        **_append_only_postgresql("checkpoint", "audit_checkpoint", "checkpoints", "audit_refuse_checkpoint"),
        **_append_only_postgresql(
            "record", "audit_decisionrecord", "decision records", "audit_refuse_record"
        ),
        **_append_only_postgresql(
            "term", "audit_recordterm", "terms of decision records", "audit_refuse_term"
        ),
        **_append_only_postgresql(
            "feedback", "audit_recordfeedback", "feedback on decision records", "audit_refuse_feedback"
        ),
        _QUEUED: _QUEUES_POSTGRESQL,
    },
}
# Those that fire in this session, on every column and every row, and what they run.
_POSTGRESQL_PRESENT = """
SELECT tgname, relname, tgtype, proname, prosrc FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
JOIN pg_language ON pg_language.oid = prolang JOIN pg_class ON pg_class.oid = tgrelid
WHERE pg_table_is_visible(pg_class.oid) AND tgqual IS NULL AND tgattr = ''
AND (tgenabled = 'A' OR (tgenabled = 'O' AND current_setting('session_replication_role') <> 'replica'))
AND lanname = 'plpgsql'
"""


def install(*, using: str = "default") -> None:
    """Create the triggers that are not there, or not as they should be; safe to call at any time."""
    connection = connections[using]
    absent = missing(using=using)
    if not absent:
        return
    with connection.cursor() as cursor:
        for name in absent:
            trigger = WANTED[connection.vendor][name]
            suffix = ""
            if connection.vendor == "postgresql":
                suffix = f" ON {trigger.table}"
                cursor.execute(
                    f"CREATE OR REPLACE FUNCTION {trigger.function}() RETURNS trigger "
                    f"LANGUAGE plpgsql AS $${trigger.source}$$"
                )
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{suffix}")
            cursor.execute(f"CREATE TRIGGER {name} {trigger.words}")


def stop_queueing(*, using: str) -> None:
    """Remove the trigger that queues entries, for a migration back to when there was no queue."""
    connection = connections[using]
    suffix = f" ON {_ENTRIES}" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER IF EXISTS {_QUEUED}{suffix}")


def missing(*, using: str = "default") -> list[str]:
    """Names of the triggers that are absent, switched off or other than they should be.

    None of a table that is not made yet. A name proves nothing: a trigger may be empty, or its function may
    return.
    """
    connection = connections[using]
    wanted = WANTED[connection.vendor]
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        present = _present_in_sqlite(cursor) if connection.vendor == "sqlite" else _present(cursor)
    return sorted(
        name
        for name in wanted.keys() - present
        if wanted[name].table in tables
        and (not wanted[name].writes_to or wanted[name].writes_to in tables)
        and (not wanted[name].reads or _has_column(using, wanted[name]))
    )


def _has_column(using: str, trigger: Trigger) -> bool:
    with connections[using].cursor() as cursor:
        # Only triggers of SQLite read such a column.
        cursor.execute("SELECT 1 FROM pragma_table_info(%s) WHERE name = %s", [trigger.table, trigger.reads])
        return cursor.fetchone() is not None


def _present(cursor: CursorWrapper) -> set[str]:
    cursor.execute(_POSTGRESQL_PRESENT)
    return {
        name
        for name, table, tgtype, function, source in cursor.fetchall()
        if (wanted := WANTED["postgresql"].get(name)) is not None
        and (wanted.table, wanted.tgtype, wanted.function, wanted.source) == (table, tgtype, function, source)
    }


def _present_in_sqlite(cursor: CursorWrapper) -> set[str]:
    cursor.execute("SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'")
    # SQLite keeps the words of a trigger, and puts quotes around the table when it is renamed.
    return {
        name
        for name, table, sql in cursor.fetchall()
        if (wanted := WANTED["sqlite"].get(name)) is not None
        and wanted.table == table
        and _plain(sql) == _plain(f"CREATE TRIGGER {name} {wanted.words}")
    }


def _plain(sql: str) -> str:
    return " ".join(sql.replace('"', "").split())


def install_after_migrate(*, using: str, **_: Any) -> None:
    """The receiver of post_migrate."""
    install(using=using)


def check_installed(
    *, app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None, **_: Any
) -> list[CheckMessage]:
    """System check: an error for each missing trigger."""
    return [
        Error(
            f"The trigger {name} of the ledger is missing, switched off or changed on database {using}.",
            hint="Run manage.py migrate --skip-checks, which puts it back, and then manage.py verify_ledger.",
            id="audit.E001",
        )
        for using in databases or ()
        for name in missing(using=using)
    ]
