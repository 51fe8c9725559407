"""A CHECK that is neither true nor false lets a row through: none of ours may be undecided over a NULL."""

import itertools
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models
from django.db.models import CheckConstraint, Field, Q

# The SQL is tried in a SQLite of the test's own.
pytestmark = pytest.mark.once
MOST_TRIED = 20_000


def constraints() -> Iterator[tuple[type[models.Model], CheckConstraint]]:
    """Every CHECK over a column that may be NULL."""
    for model in apps.get_models():
        nullable = [field.column for field in model._meta.concrete_fields if field.null]
        for constraint in model._meta.constraints:
            if isinstance(constraint, CheckConstraint):
                sql = as_sql(model, constraint)
                if any(f'"{column}"' in sql for column in nullable):
                    yield model, constraint


def as_sql(model: type[models.Model], constraint: CheckConstraint) -> str:
    """The condition as SQLite gets it, its columns without their table."""
    editor = connection.SchemaEditorClass(connection, collect_sql=True)
    sql: str = constraint._get_check_sql(model, editor)  # type: ignore[attr-defined]
    return sql.replace(f'"{model._meta.db_table}".', "")


def samples(field: "Field[Any, Any]", sql: str) -> list[Any]:
    """NULL where the column allows it, every choice, and values on both sides of what it is compared with."""
    chosen: list[Any]
    match field:
        case _ if field.choices:
            chosen = [value for value, _ in field.flatchoices]
        case models.BooleanField():
            chosen = [0, 1]
        case models.IntegerField() | models.DecimalField():
            chosen = [-1, 0, 1, 2]
        case models.DateTimeField() | models.TimeField():
            chosen = ["2026-01-01 00:00:00", "2026-01-02 00:00:00"]
        case models.BinaryField():
            chosen = [b"", b"x"]
        case _:
            chosen = ["", "x", *re.findall(r"'([^']*)'", sql)[:3]]
    return [*([None] if field.null else []), *dict.fromkeys(chosen)]


def undecided(model: type[models.Model], constraint: CheckConstraint) -> list[tuple[Any, ...]]:
    """The combinations of values over which the CHECK is NULL."""
    sql = as_sql(model, constraint)
    fields = [field for field in model._meta.concrete_fields if f'"{field.column}"' in sql]
    columns = ", ".join(f'? AS "{field.column}"' for field in fields)
    asked = f"SELECT ({sql}) FROM (SELECT {columns})"  # noqa: S608  # of our own models
    tried = itertools.product(*(samples(field, sql) for field in fields))
    with sqlite3.connect(":memory:") as database:
        return [
            row
            for row in itertools.islice(tried, MOST_TRIED)
            if database.execute(asked, row).fetchone()[0] is None
        ]


def test_no_check_is_undecided() -> None:
    found = list(constraints())
    assert len(found) > 20
    assert {c.name: rows for model, c in found if (rows := undecided(model, c)[:3])} == {}


def test_an_undecided_check_would_be_found() -> None:
    model = apps.get_model("escalations", "Escalation")
    leaky = CheckConstraint(condition=Q(resolved_at__gt="2026-01-01T00:00Z") | Q(state="OPEN"), name="leaky")
    assert undecided(model, leaky)
