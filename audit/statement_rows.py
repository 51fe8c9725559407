"""Rows as objects of their model, and objects as parameters: what is the same for each is worked out once.

Django asks each field of each row what to do. Here each field is asked once, and only fields and values of
which Django is known to do nothing take the short way.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, Model, signals
from django.db.models.base import ModelState
from django.db.models.fields.related_descriptors import ForeignKeyDeferredAttribute
from django.db.models.query_utils import DeferredAttribute

_NOTHING: Final = frozenset[type]()
_TEXT: Final = frozenset[type]({str, type(None)})
_TRUTH: Final = frozenset[type]({bool, type(None)})
_NUMBER: Final = frozenset[type]({int, type(None)})
# What a driver takes as it is, by the class of the field. PostgreSQL is told the size of each integer.
_AS_IT_IS: Final[dict[str, dict[type, frozenset[type]]]] = {
    "sqlite": {
        models.CharField: _TEXT,
        models.TextField: _TEXT,
        models.BooleanField: _TRUTH,
        models.IntegerField: _NUMBER,
        models.BigIntegerField: _NUMBER,
        models.SmallIntegerField: _NUMBER,
        models.PositiveIntegerField: _NUMBER,
        models.PositiveSmallIntegerField: _NUMBER,
    },
    "postgresql": {
        models.CharField: _TEXT,
        models.TextField: _TEXT,
        models.BooleanField: _TRUTH,
        models.UUIDField: frozenset({UUID, type(None)}),
    },
}


class Column:
    """One column of an insert: gives the parameter of a row, which is what `get_db_prep_save` gives."""

    __slots__ = ("as_it_is", "attname", "field")

    def __init__(self, field: "Field[Any, Any]", vendor: str) -> None:
        self.field, self.attname = field, field.attname
        self.as_it_is = _AS_IT_IS.get(vendor, {}).get(type(field), _NOTHING)


def params(columns: Sequence[Column], rows: Sequence[Model], database: BaseDatabaseWrapper) -> list[Any]:
    """The parameters of an insert of these rows, row by row."""
    found = []
    for row in rows:
        values = row.__dict__
        for column in columns:
            value = values.get(column.attname, column)
            if type(value) not in column.as_it_is:
                field = column.field
                value = field.get_db_prep_save(field.pre_save(row, add=True), database)
            found.append(value)
    return found


def maker(model: type[Model], names: Sequence[str]) -> Callable[[str, Sequence[Any]], Any]:
    """What makes an object of `model` from the values of the columns `names`, as `Model.from_db` does.

    The first argument is the alias of the database. Columns that are not named are deferred.
    """
    if not _is_plain(model):
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


def _is_plain(model: type[Model]) -> bool:
    """Whether nothing but the values of columns is set on a new object, and nobody is told of it."""
    return (
        model.__init__ is Model.__init__
        and model.from_db.__func__ is Model.from_db.__func__  # type: ignore[attr-defined]
        and all(
            type(getattr(model, field.attname)) in {DeferredAttribute, ForeignKeyDeferredAttribute}
            for field in model._meta.concrete_fields
        )
        and not any(signal.has_listeners(model) for signal in (signals.pre_init, signals.post_init))
    )
