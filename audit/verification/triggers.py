"""Append only, enforced by the database: entries can be neither changed nor removed by ordinary SQL.

A database owner can still switch triggers off; the chain of hashes is what shows that.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error
from django.db import connections

_TABLE = "audit_ledgerentry"
_REFUSAL = "ledger entries are append only"
_SAME_PLACE = (
    f"SELECT 1 FROM {_TABLE} WHERE id = NEW.id "  # noqa: S608 (constants only)
    "OR (tenant = NEW.tenant AND stream = NEW.stream AND seq = NEW.seq)"
)

_SQLITE = {
    "audit_entry_no_update": f"BEFORE UPDATE ON {_TABLE} BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END",
    "audit_entry_no_delete": f"BEFORE DELETE ON {_TABLE} BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END",
    # INSERT OR REPLACE removes the old row without firing the delete trigger.
    "audit_entry_no_replace": f"BEFORE INSERT ON {_TABLE} WHEN EXISTS ({_SAME_PLACE}) "
    "BEGIN SELECT RAISE(ABORT, 'UNIQUE constraint failed: the ledger has this entry'); END",
}
_FUNCTION = "audit_refuse_change"
_SOURCE = f" BEGIN RAISE EXCEPTION '{_REFUSAL}' USING ERRCODE = 'restrict_violation'; END "
_POSTGRESQL_FUNCTION = (
    f"CREATE OR REPLACE FUNCTION {_FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $${_SOURCE}$$"
)
_POSTGRESQL = {
    "audit_entry_no_change": (
        f"BEFORE UPDATE OR DELETE ON {_TABLE} FOR EACH ROW EXECUTE FUNCTION {_FUNCTION}()"
    ),
    "audit_entry_no_truncate": (
        f"BEFORE TRUNCATE ON {_TABLE} FOR EACH STATEMENT EXECUTE FUNCTION {_FUNCTION}()"
    ),
}
# As pg_trigger.tgtype has them: 1 for each row, 2 before, 8 delete, 16 update, 32 truncate.
_POSTGRESQL_TYPES = {"audit_entry_no_change": 1 | 2 | 8 | 16, "audit_entry_no_truncate": 2 | 32}
# Those that fire in this session, on every column and every row, and what they run.
_POSTGRESQL_PRESENT = """
SELECT tgname, tgtype FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
JOIN pg_language ON pg_language.oid = prolang
WHERE tgrelid = to_regclass(%s) AND tgqual IS NULL AND tgattr = ''
AND (tgenabled = 'A' OR (tgenabled = 'O' AND current_setting('session_replication_role') <> 'replica'))
AND proname = %s AND prosrc = %s AND lanname = 'plpgsql'
"""

WANTED: Mapping[str, Mapping[str, str]] = {"sqlite": _SQLITE, "postgresql": _POSTGRESQL}


def install(*, using: str = "default") -> None:
    """Create the triggers that are not there, or not as they should be; safe to call at any time."""
    connection = connections[using]
    absent = missing(using=using)
    if not absent:
        return
    suffix = f" ON {_TABLE}" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_POSTGRESQL_FUNCTION)
        for name in absent:
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{suffix}")
            cursor.execute(_definition(connection.vendor, name))


def missing(*, using: str = "default") -> list[str]:
    """Names of the append-only triggers that are absent, switched off or other than they should be.

    None before the first migrate. A name proves nothing: a trigger may be empty, or its function may return.
    """
    connection = connections[using]
    with connection.cursor() as cursor:
        if _TABLE not in connection.introspection.table_names(cursor):
            return []
        if connection.vendor == "postgresql":
            cursor.execute(_POSTGRESQL_PRESENT, [_TABLE, _FUNCTION, _SOURCE])
            present = {name for name, kind in cursor.fetchall() if _POSTGRESQL_TYPES.get(name) == kind}
        else:
            cursor.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [_TABLE]
            )
            # SQLite keeps the words of a trigger, and puts quotes around the table when it is renamed.
            present = {
                name
                for name, sql in cursor.fetchall()
                if name in _SQLITE and _plain(sql) == _plain(_definition("sqlite", name))
            }
    return sorted(WANTED[connection.vendor].keys() - present)


def _definition(vendor: str, name: str) -> str:
    return f"CREATE TRIGGER {name} {WANTED[vendor][name]}"


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
            f"The append-only trigger {name} is missing, switched off or changed on database {using}.",
            hint="Run manage.py migrate --skip-checks, which puts it back, and then manage.py verify_ledger.",
            id="audit.E001",
        )
        for using in databases or ()
        for name in missing(using=using)
    ]
