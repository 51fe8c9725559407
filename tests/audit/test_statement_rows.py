"""The short ways of values to the database give what the fields themselves give, for every column."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.db import connection, models
from django.db.models.functions import Cast

from audit import statement_rows, statements

_AT = datetime(2026, 11, 1, 5, 30, 0, 1000, UTC)
VALUES: list[Any] = [
    None,
    "",
    "text",
    True,
    False,
    0,
    7,
    -1,
    b"",
    b"\x00\xff",
    UUID(int=5),
    _AT,
    _AT.replace(microsecond=0),
    _AT.replace(year=1),
    _AT.astimezone(timezone(timedelta(hours=-5, minutes=-30))),
    _AT.replace(tzinfo=ZoneInfo("America/New_York"), hour=1, fold=0),
    _AT.replace(tzinfo=ZoneInfo("America/New_York"), hour=1, fold=1),
]


def columns() -> "Iterator[models.Field[Any, Any]]":
    for model in apps.get_models():
        yield from model._meta.concrete_fields


def described(value: Any) -> Any:
    """A parameter with its type, without what a driver wraps bytes in."""
    value = getattr(value, "obj", value)
    value = bytes(value) if isinstance(value, memoryview) else value
    return type(value), value


def ways(field: "models.Field[Any, Any]", vendor: str) -> Any:
    field.set_attributes_from_name("named")
    return statement_rows.Column(field, vendor).ways


def test_a_short_way_is_the_way_of_the_field() -> None:
    tried = set[tuple[type, type]]()
    for field in columns():
        known = statement_rows.Column(field, connection.vendor).ways
        for value in VALUES:
            if type(value) in known:
                way = known[type(value)]
                short = value if way is None else way(value)
                assert described(short) == described(field.get_db_prep_save(value, connection)), (
                    field,
                    value,
                )
                tried.add((type(field), type(value)))
    assert {
        (models.CharField, str),
        (models.BooleanField, bool),
        (models.BinaryField, bytes),
        (models.DateTimeField, datetime),
        (models.UUIDField, UUID),
        (models.ForeignKey, UUID),
        (models.ForeignKey, type(None)),
        (models.PositiveIntegerField, int),
    } <= tried


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite stores times without their zone")
@pytest.mark.parametrize("value", [_AT.replace(tzinfo=None), _AT, "2026-01-02 03:04", None])
def test_a_stored_time_is_read_as_django_reads_it(value: Any) -> None:
    ops: Any = connection.ops
    step = ops.convert_datetimefield_value
    quick = statement_rows._time_of_sqlite(step)
    assert quick(value, None, connection) == step(value, None, connection)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="has no zone"):
        statement_rows._aware(_AT.replace(tzinfo=None))


@pytest.mark.parametrize(
    "field", [models.DateTimeField(auto_now=True), models.JSONField(), models.DecimalField()]
)
def test_fields_that_change_a_value_are_asked(field: "models.Field[Any, Any]") -> None:
    assert ways(field, connection.vendor) == {}


def test_another_database_is_asked_for_all() -> None:
    assert ways(models.TextField(), connection.vendor)
    assert ways(models.TextField(), "oracle") == {}


@pytest.mark.django_db
def test_a_json_column_is_not_read() -> None:
    told = Cast("model", models.JSONField())
    with pytest.raises(TypeError, match="no JSON column"):
        statements.Read(lambda: ContentType.objects.values_list(told)).rows()
