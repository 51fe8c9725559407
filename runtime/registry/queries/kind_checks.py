"""What today's linter would refuse of the active kinds, for `manage.py check --database default`."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Warning
from django.db import connections

from runtime.kernel.rules.kind_linter import Gravity
from runtime.registry.models import PolicyKind
from runtime.registry.queries import kind_versions


def check_active(
    *, app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None, **_: Any
) -> list[CheckMessage]:
    """A warning for each finding about an active kind; none before the first migrate."""
    found: list[CheckMessage] = []
    for using in databases or ():
        connection = connections[using]
        with connection.cursor() as cursor:
            if PolicyKind._meta.db_table not in connection.introspection.table_names(cursor):
                continue
        for row in kind_versions.list_every_active(using=using):
            for wrong in kind_versions.list_wrong(row):
                is_unsafe = wrong.gravity is Gravity.UNSAFE
                means = (
                    "Its proposals are refused with KIND_UNSAFE."
                    if is_unsafe
                    else "It stays active unchanged."
                )
                found.append(
                    Warning(
                        f"{row.kind} {row.version} (active): {wrong.field}: {wrong.message}.",
                        hint=f"{means} Draft a new version and activate it.",
                        id="runtime.W002" if is_unsafe else "runtime.W001",
                    )
                )
    return found
