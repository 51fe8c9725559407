"""Every column that can hold words is either emptied by an erasure, or named with the reason why it stays."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import models

from audit import erasure_columns

# Shorter ones hold codes, names and digests.
LONG = 200
APPS = ("audit", "escalations", "runtime", "sessions")


def columns_with_words() -> Iterator[str]:
    for model in apps.get_models():
        if model._meta.app_label not in APPS:
            continue
        for field in model._meta.concrete_fields:
            is_text = isinstance(field, models.BinaryField | models.TextField | models.JSONField)
            is_long = isinstance(field, models.CharField) and (field.max_length or LONG) >= LONG
            if is_text or (is_long and not field.choices):
                yield f"{model._meta.label}.{field.name}"


def emptied() -> list[str]:
    return [f"{words.model}.{column}" for words in erasure_columns.list_words() for column in words.columns]


def kept() -> list[str]:
    return [
        f"{others.model}.{column}" for others in erasure_columns.list_others() for column in others.columns
    ]


def test_every_column_is_in_one_of_both_lists() -> None:
    missing = sorted(set(columns_with_words()) - {*emptied(), *kept()})
    assert missing == [], "say in an erasure_columns.py whether an erasure empties these, or why they stay"


def test_no_column_is_named_twice_and_each_exists() -> None:
    named = [*emptied(), *kept()]
    assert len(named) == len(set(named))
    for name in named:
        label, _, column = name.rpartition(".")
        assert apps.get_model(label)._meta.get_field(column)


@pytest.mark.django_db
def test_each_table_leads_to_its_flow() -> None:
    for words in erasure_columns.list_words():
        rows = apps.get_model(words.model)._default_manager.filter(**{f"{words.flow}__in": []})
        assert list(rows) == []


def test_each_has_its_reason() -> None:
    reasons = [words.columns for words in erasure_columns.list_words()]
    reasons += [others.columns for others in erasure_columns.list_others()]
    assert all(all(columns.values()) for columns in reasons)
