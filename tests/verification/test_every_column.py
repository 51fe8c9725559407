"""Every column of every table: `verify_ledger` finds it changed, or says that it cannot."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, time, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import DatabaseError, models, transaction

from audit.verification import findings
from escalations import evidence_contracts
from escalations.models import Evidence
from runtime.core import clock
from tests.support import (
    advised_story,
    consulted_story,
    finished_history,
    interrupted_flow,
    ontology_story,
    poisoned_memory,
    talking,
    tool_story,
    worlds,
)
from tests.support.finished_history import History

# Of these the history has no row: tests/registry/test_registration.py, tests/escalations/test_signed_rows.py,
# tests/maintenance/test_replay_runs.py, tests/execution/test_human_steps.py and test_callbacks.py;
# a notice is compared with nothing.
ELSEWHERE = {
    "Artifact",
    "EffectStatement",
    "HumanTask",
    "Notice",
    "ReplayFinding",
    "ReplayRun",
    "TargetCallback",
}
MODELS = [
    model
    for model in apps.get_models()
    if model._meta.app_label in {"runtime", "escalations", "audit"} and model.__name__ not in ELSEWHERE
]


@contextmanager
def opened() -> Iterator[History]:
    """The finished history, flows that follow a workflow, one that took advice, an ontology, and more."""
    with finished_history.opened() as history:
        advised_story.write()
        ontology_story.write()
        tool_story.write()
        interrupted_flow.tell(User.objects.get(username="olivia"))
        talking.tell()
        consulted_story.tell()
        poisoned_memory.tell_marked()
        yield history


history = worlds.opened(opened)


def test_all_evidence_is_written_back_as_it_was_stored(history: History) -> None:
    rows = Evidence.objects.all()
    assert rows
    for row in rows:
        assert evidence_contracts.read_evidence(bytes(row.body)).to_bytes() == bytes(row.body)


def others(field: Any, held: Any) -> Iterator[Any]:
    """Values of the field's type that are not the one it holds, the likeliest first."""
    if isinstance(field, models.ForeignKey):
        rows = field.related_model._default_manager.exclude(pk=held)
        yield from rows.values_list("pk", flat=True)[:3]
    elif isinstance(field, models.BooleanField):
        yield not held
    elif isinstance(field, models.IntegerField):
        yield from ((held or 0) + 1, (held or 0) - 1)
    elif isinstance(field, models.DateTimeField):
        moment = held if isinstance(held, datetime) else clock.now()
        yield from (moment + timedelta(days=1), moment - timedelta(days=1))
    elif isinstance(field, models.DateField):
        yield clock.now().date() + timedelta(days=99)
    elif isinstance(field, models.TimeField):
        yield time(3, 33)
    elif isinstance(field, models.UUIDField):
        yield uuid.uuid4()
    elif isinstance(field, models.BinaryField):
        yield bytes(held or b"") + b" "
    else:
        yield from (value for value, _ in field.choices or () if value != held)
        yield "f" * min(field.max_length or 9, 9) if held != "f" * 9 else "g"


def change(model: type[models.Model], field: Any) -> str:
    """Change a column of the newest row; how that ended."""
    rows = model._default_manager.order_by("-pk")
    held_somewhere = rows.exclude(**{field.name: None})
    if isinstance(field, models.CharField):
        # Of an empty column the database may allow no other value in that row, as for the holder of a key.
        held_somewhere = held_somewhere.exclude(**{field.name: ""})
    row = held_somewhere.first() or rows.first()
    if row is None:
        return "no row"
    held = getattr(row, field.attname)
    for value in others(field, held):
        try:
            with transaction.atomic():
                assert model._default_manager.filter(pk=row.pk).update(**{field.attname: value}) == 1
        except DatabaseError:
            continue
        return "changed"
    return "refused"


def is_excepted(model: type[models.Model], column: str) -> bool:
    """Whether `verify_ledger` says that it does not compare a column, or not always."""
    named = (item for check in findings.all_checks() for item in check.not_proved)
    return any(
        item.table == model._meta.db_table and (not item.columns or column in item.columns) for item in named
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=[model.__name__ for model in MODELS])
def test_a_change_of_any_column_is_found_or_said_not_to_be(
    history: History, django_db_blocker: Any, model: type[models.Model]
) -> None:
    unseen = []
    with django_db_blocker.unblock():
        for field in model._meta.concrete_fields:
            if field.primary_key or is_excepted(model, field.name):
                continue
            with transaction.atomic():
                how = change(model, field)
                if how == "no row" or (how == "changed" and not findings.verify_all().findings):
                    unseen.append(f"{field.name}: {how}")
                transaction.set_rollback(True)
    assert unseen == []


def test_what_is_said_not_to_be_compared_is_a_column(history: History, django_db_blocker: Any) -> None:
    with django_db_blocker.unblock():
        assert findings.verify_all().findings == []
    tables = {model._meta.db_table: model for model in apps.get_models()}
    for check in findings.all_checks():
        for item in check.not_proved:
            columns = {field.name for field in tables[item.table]._meta.concrete_fields}
            assert columns >= set(item.columns), item
