"""Rows as objects of their model, and objects as parameters: what is the same for each is worked out once.

Django asks each field of each row what to do. Here each field is asked once, and only fields and values of
which Django is known to do nothing take the short way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from django.db import connection, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, Model
from django.db.models.base import ModelState
from django.db.models.query import RelatedPopulator
from django.db.models.sql.compiler import SQLCompiler

from audit import quick_rows

# What becomes of a value on its way to the database, by its type: None where the driver takes it as it is.
_Ways = Mapping[type, Callable[[Any], Any] | None]
_AS_IT_IS: Final[dict[type["Field[Any, Any]"], _Ways]] = {
    models.CharField: {str: None},
    models.TextField: {str: None},
    models.BooleanField: {bool: None},
    models.BinaryField: {bytes: None},
}
_INTEGERS: Final = frozenset[type](
    {
        models.AutoField,
        models.BigAutoField,
        models.IntegerField,
        models.BigIntegerField,
        models.SmallIntegerField,
        models.PositiveIntegerField,
        models.PositiveBigIntegerField,
        models.PositiveSmallIntegerField,
    }
)


class Column:
    """One column of an insert: gives the parameter of a row, which is what `get_db_prep_save` gives."""

    __slots__ = ("attname", "field", "ways")

    def __init__(self, field: "Field[Any, Any]", vendor: str) -> None:
        self.field, self.attname = field, field.attname
        known = _ways(_referenced(field), vendor)
        self.ways: _Ways = {**known, type(None): None} if known else {}

    def param(self, value: Any, database: BaseDatabaseWrapper) -> Any:
        """The parameter of one value, as `save` stores it."""
        try:
            way = self.ways[type(value)]
        except KeyError:
            return self.field.get_db_prep_save(value, database)
        return value if way is None else way(value)


def params(columns: Sequence[Column], rows: Sequence[Model], database: BaseDatabaseWrapper) -> list[Any]:
    """The parameters of an insert of these rows, row by row."""
    found = []
    for row in rows:
        values = row.__dict__
        for column in columns:
            value = values.get(column.attname, column)
            try:
                way = column.ways[type(value)]
            except KeyError:
                field = column.field
                value = field.get_db_prep_save(field.pre_save(row, add=True), database)
            else:
                if way is not None:
                    value = way(value)
            found.append(value)
    return found


def _referenced(field: "Field[Any, Any]") -> "Field[Any, Any]":
    """The column that a column refers to, whose values it holds; itself where it refers to none."""
    return _referenced(field.target_field) if isinstance(field, models.ForeignKey) else field


def _ways(field: "Field[Any, Any]", vendor: str) -> _Ways:
    """What becomes of values of a column; nothing where its class or the database is not known here."""
    if vendor not in {"sqlite", "postgresql"}:
        return {}
    kind, is_sqlite = type(field), vendor == "sqlite"
    if isinstance(field, models.DateTimeField):
        is_given = kind is models.DateTimeField and not (field.auto_now or field.auto_now_add)
        return {datetime: _time_on_sqlite if is_sqlite else _aware} if is_given else {}
    if kind is models.UUIDField:
        return {UUID: attrgetter("hex") if is_sqlite else None}
    if kind in _INTEGERS:
        # PostgreSQL is told the size of each integer, but for a key that it gives.
        sizes = {} if is_sqlite else connection.ops.integerfield_type_map  # type: ignore[attr-defined]
        return {int: sizes.get(field.get_internal_type())}
    return _AS_IT_IS.get(kind, {})


def _aware(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise ValueError(f"the time {at} has no zone")
    return at


def _time_on_sqlite(at: datetime) -> str:
    """The text that Django stores of a time on SQLite: in UTC, without the name of the zone."""
    return _text_of_utc(at if at.tzinfo is UTC else _aware(at).astimezone(UTC))


@lru_cache(maxsize=64)  # one moment stands in all that a transaction writes
def _text_of_utc(at: datetime) -> str:
    return at.isoformat(" ").removesuffix("+00:00")


def converter(compiler: SQLCompiler) -> Callable[[Sequence[Any]], Iterable[Sequence[Any]]]:
    """What makes the values of rows, as Django makes them, of those that the driver gives.

    Raises TypeError for a JSON column: a driver that has read it would have it read again.
    """
    for column, *_ in compiler.select:
        if isinstance(column.output_field, models.JSONField):
            raise TypeError("a statement reads no JSON column")
    converters = compiler.get_converters([column[0] for column in compiler.select])
    if not converters:
        return lambda rows: rows
    if compiler.connection.vendor == "sqlite" and compiler.connection.timezone is UTC:
        for steps, expression in converters.values():
            if isinstance(expression.output_field, models.DateTimeField):
                steps[:] = [_time_of_sqlite(step) for step in steps]
    return lambda rows: compiler.apply_converters(rows, converters)


def _time_of_sqlite(step: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """The same for a time as the driver gives it, without its zone; for anything else the step is asked."""

    def convert(value: Any, expression: Any, database: BaseDatabaseWrapper) -> Any:
        if type(value) is datetime and value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        return None if value is None else step(value, expression, database)

    return convert


class _MadeQuickly:
    """In place of a model in `RelatedPopulator`, which asks it for nothing else."""

    def __init__(self, model: type[Model], names: Sequence[str]) -> None:
        self.make = maker(model, names)

    def from_db(self, alias: str, names: Sequence[str], values: Sequence[Any]) -> Any:
        return self.make(alias, values)


def make_quickly(populators: Iterable[RelatedPopulator]) -> None:
    """Let the rows that come along with a row be made as `maker` makes them."""
    for populator in populators:
        quickly: Any = _MadeQuickly(populator.model_cls, populator.init_list)
        populator.model_cls = quickly
        make_quickly(populator.related_populators)


def maker(model: type[Model], names: Sequence[str]) -> Callable[[str, Sequence[Any]], Any]:
    """What makes an object of `model` from the values of the columns `names`, as `Model.from_db` does.

    The first argument is the alias of the database. Columns that are not named are deferred.
    """
    if not (quick_rows.is_plain(model) and model.from_db.__func__ is Model.from_db.__func__):  # type: ignore[attr-defined]
        return lambda alias, values: model.from_db(alias, names, values)
    new = model.__new__

    def make(alias: str, values: Sequence[Any]) -> Any:
        made = new(model)
        state = ModelState()
        state.adding, state.db = False, alias
        made.__dict__.update(zip(names, values, strict=True))
        made.__dict__["_state"] = state
        return made

    return make
