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
_POSTGRESQL_FUNCTION = (
    "CREATE OR REPLACE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}' USING ERRCODE = 'restrict_violation'; END $$"
)
_POSTGRESQL = {
    "audit_entry_no_change": (
        f"BEFORE UPDATE OR DELETE ON {_TABLE} FOR EACH ROW EXECUTE FUNCTION audit_refuse_change()"
    ),
    "audit_entry_no_truncate": (
        f"BEFORE TRUNCATE ON {_TABLE} FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change()"
    ),
}

WANTED: Mapping[str, Mapping[str, str]] = {"sqlite": _SQLITE, "postgresql": _POSTGRESQL}


def install(*, using: str = "default") -> None:
    """Create the triggers that are not there; safe to call at any time."""
    connection = connections[using]
    absent = missing(using=using)
    if not absent:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_POSTGRESQL_FUNCTION)
        for name in absent:
            cursor.execute(f"CREATE TRIGGER {name} {WANTED[connection.vendor][name]}")


def missing(*, using: str = "default") -> list[str]:
    """Names of the append-only triggers that are absent or switched off; none before the first migrate."""
    connection = connections[using]
    with connection.cursor() as cursor:
        if _TABLE not in connection.introspection.table_names(cursor):
            return []
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND tgenabled <> 'D'", [_TABLE]
            )
        else:
            cursor.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [_TABLE]
            )
        present = {row[0] for row in cursor.fetchall()}
    return sorted(WANTED[connection.vendor].keys() - present)


def install_after_migrate(*, using: str, **_: Any) -> None:
    """The receiver of post_migrate."""
    install(using=using)


def check_installed(
    *, app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None, **_: Any
) -> list[CheckMessage]:
    """System check: an error for each missing trigger."""
    return [
        Error(
            f"The append-only trigger {name} is missing on database {using}.",
            hint="Run manage.py migrate --skip-checks, which puts it back, and then manage.py verify_ledger.",
            id="audit.E001",
        )
        for using in databases or ()
        for name in missing(using=using)
    ]
