"""What today's linter would refuse of the active kinds, for `manage.py check --database default`."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Warning
from django.db import connections

from runtime.kernel.rules.kind_linter import Gravity
from runtime.registry.models import PolicyKind
from runtime.registry.queries import kind_versions


def check_in_force(
    *, app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None, **_: Any
) -> list[CheckMessage]:
    """A warning for each finding about an active kind; none before the first migrate."""
    found: list[CheckMessage] = []
    for using in databases or ():
        connection = connections[using]
        with connection.cursor() as cursor:
            if PolicyKind._meta.db_table not in connection.introspection.table_names(cursor):
                continue
        for row in kind_versions.list_in_force(using=using):
            found.extend(_warning(row, wrong) for wrong in kind_versions.list_wrong(row))
    return found


def _warning(row: PolicyKind, wrong: kind_versions.Wrong) -> Warning:
    said = f"{row.kind} {row.version} (active): {wrong.field}: {wrong.message}."
    if wrong.gravity is Gravity.UNSAFE:
        hint = "Its proposals are refused with KIND_UNSAFE. Draft a new version and activate it."
        return Warning(said, hint=hint, id="runtime.W002")
    hint = "It stays active unchanged. Draft a new version and activate it."
    return Warning(said, hint=hint, id="runtime.W001")
