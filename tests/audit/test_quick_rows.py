"""Objects of models that are made at once are those that `Model.__init__` makes."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import models
from django.db.models import signals

from audit import quick_rows
from audit.models import LedgerEntry
from audit.quick_rows import QuickRow
from runtime.flows.models import Flow, Intent

_VALUES: dict[type, Any] = {
    models.BooleanField: True,
    models.DateTimeField: datetime(2026, 1, 2, tzinfo=UTC),
    models.UUIDField: UUID(int=7),
    models.BinaryField: b"bytes",
    models.JSONField: {"a": [1]},
    models.DecimalField: "1.50",
    models.ForeignKey: 7,
    models.OneToOneField: 7,
}


def value_of(field: Any) -> Any:
    if isinstance(field, models.IntegerField):
        return 7
    return _VALUES.get(type(field), "text")


def made(model: type[models.Model], given: dict[str, Any]) -> tuple[Any, Any]:
    plain = model.__new__(model)
    models.Model.__init__(plain, **given)
    return model(**given), plain


def described(row: models.Model) -> Any:
    state = row._state
    values = {name: value for name, value in vars(row).items() if name != "_state"}
    return values, state.adding, state.db, state.fields_cache


def without_own_defaults(row: Any) -> Any:
    """Defaults such as a random id differ from object to object."""
    values, *state = described(row)
    random = {field.attname for field in row._meta.concrete_fields if callable(field.default)}
    return {name: type(value) if name in random else value for name, value in values.items()}, state


@pytest.mark.parametrize("model", QuickRow.__subclasses__(), ids=lambda model: model.__name__)
def test_an_object_is_as_django_makes_it(model: type[models.Model]) -> None:
    fields = model._meta.concrete_fields
    whole = {field.attname: value_of(field) for field in fields}
    quick, plain = made(model, whole)
    assert described(quick) == described(plain)
    for left_out in fields:
        given = {name: value for name, value in whole.items() if name != left_out.attname}
        assert quick_rows._making(model, tuple(given)) is not None
        quick, plain = made(model, given)
        assert without_own_defaults(quick) == without_own_defaults(plain)


def test_a_related_object_is_kept_with_its_key() -> None:
    flow = Flow(dfid=UUID(int=9))
    quick, plain = made(Intent, {"flow": flow})
    assert quick.flow is plain.flow is flow
    assert quick.flow_id == plain.flow_id == flow.dfid
    flow = Flow(dfid=UUID(int=8))
    flow._state.db = "default"
    quick, plain = made(Intent, {"flow": flow})
    assert described(quick)[0]["flow_id"] == flow.dfid
    assert described(quick)[2:] == described(plain)[2:] == ("default", {"flow": flow})
    assert Flow(parent=None).parent_id is None
    with pytest.raises(ValueError, match="must be a"):
        made(Intent, {"flow": "no flow"})


def test_each_object_has_its_own_default() -> None:
    assert made(Flow, {})[0].dfid != Flow().dfid


def test_what_is_no_column_is_taken_as_ever() -> None:
    assert LedgerEntry(5).pk == LedgerEntry(pk=5).pk == 5
    quick, plain = made(Intent, {"flow": Flow(), "flow_id": UUID(int=1)})
    assert quick.flow_id == plain.flow_id == UUID(int=1)
    with pytest.raises(TypeError):
        made(Intent, {"no_such": 1})


@contextmanager
def heard(model: type[models.Model]) -> Iterator[list[Any]]:
    told: list[Any] = []

    def hear(instance: Any, **_: Any) -> None:
        told.append(instance)

    signals.post_init.connect(hear, sender=model)
    quick_rows._making.cache_clear()
    try:
        yield told
    finally:
        signals.post_init.disconnect(hear, sender=model)
        quick_rows._making.cache_clear()


def test_who_listens_to_new_objects_hears_of_them() -> None:
    with heard(LedgerEntry) as told:
        entry = LedgerEntry(tenant="one")
    assert told == [entry]
