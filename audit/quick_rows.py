"""Models of which an action makes new objects: their values are set at once, not field by field.

`Model.__init__` asks each field of each object for its name, its default and its way of being set. What is
the same for each object that is made of the same names is worked out once here.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from django.db import models
from django.db.models import signals
from django.db.models.base import ModelState
from django.db.models.fields.related_descriptors import ForeignKeyDeferredAttribute
from django.db.models.query_utils import DeferredAttribute

_MOST_FORMS: Final = 1024


class QuickRow(models.Model):
    """A model whose objects are as `models.Model` makes them, and made sooner."""

    def __init__(self, *args: Any, **given: Any) -> None:
        making = None if args else _making(type(self), tuple(given))
        if making is None:
            super().__init__(*args, **given)
            return
        values = self.__dict__
        values["_state"] = state = ModelState()
        values.update(making.constants)
        for name, default in making.defaults:
            values[name] = default()
        values.update(given)
        for name, plain in making.related:
            other = values.pop(name)
            if plain is not None and type(other) is plain.model and other._state.db is not None:
                state.db = state.db or other._state.db
                values[plain.column], state.fields_cache[name] = other.pk, other
            else:
                setattr(self, name, other)

    class Meta:
        abstract = True


class _Plain(NamedTuple):
    """A reference to the key of another model, whose rows know nothing of it until they are asked."""

    model: type[models.Model]
    column: str


class _Making(NamedTuple):
    """How an object is made of named values: what the others are, and names of related objects."""

    constants: Mapping[str, Any]
    defaults: Sequence[tuple[str, Callable[[], Any]]]
    related: Sequence[tuple[str, _Plain | None]]


@lru_cache(maxsize=_MOST_FORMS)
def _making(model: type[models.Model], names: tuple[str, ...]) -> _Making | None:
    """None where `Model.__init__` has to do it: nothing but columns can be set here, and nobody is told."""
    left, related = set(names), list[tuple[str, _Plain | None]]()
    constants, defaults = dict[str, Any](), list[tuple[str, Callable[[], Any]]]()
    for field in model._meta.concrete_fields:
        if field.name in left and isinstance(field, models.ForeignKey):
            related.append((field.name, _plain(field)))
            left.discard(field.name)
        elif field.attname in left:
            left.discard(field.attname)
        elif field.has_default() and callable(field.default):
            defaults.append((field.attname, field.get_default))
        elif not field.generated:
            constants[field.attname] = field.get_default()
    return None if left or not is_plain(model) else _Making(constants, defaults, related)


def _plain(field: "models.ForeignKey[Any, Any]") -> _Plain | None:
    """None for a reference of another sort: that of one row to one row is noted at both."""
    model = field.related_model
    if (
        type(field) is not models.ForeignKey
        or not isinstance(model, type)
        or not field.target_field.primary_key
    ):
        return None
    return _Plain(model, field.attname)


def is_plain(model: type[models.Model]) -> bool:
    """Whether nothing but the values of columns is set on a new object, and nobody is told of it."""
    return (
        model.__init__ in {models.Model.__init__, QuickRow.__init__}
        and all(
            type(getattr(model, field.attname)) in {DeferredAttribute, ForeignKeyDeferredAttribute}
            for field in model._meta.concrete_fields
        )
        and not any(signal.has_listeners(model) for signal in (signals.pre_init, signals.post_init))
    )
