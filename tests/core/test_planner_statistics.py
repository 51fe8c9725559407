"""PostgreSQL's planner learns nothing of bytes: a new column of bytes needs a migration that says so."""

import pytest
from django.apps import apps
from django.db import connection

from audit import planner_statistics
from audit.models import LedgerEntry
from runtime.registry.models import Key

pytestmark = pytest.mark.django_db
OURS = ("audit", "runtime", "escalations")
COLUMNS = """
    SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE a.attnum > 0 AND a.attstattarget = 0 AND c.relnamespace = 'public'::regnamespace
"""


def test_bytes_that_stand_in_no_index_are_left_out() -> None:
    entry = set(planner_statistics.columns_of_bytes(LedgerEntry))
    assert "body" in entry
    assert not {"stream", "hash"} & entry
    assert not list(planner_statistics.columns_of_bytes(Key))


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite takes no statistics by itself")
def test_no_statistics_are_taken_of_any_bytes() -> None:
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS)
        found = set(cursor.fetchall())
    models = [model for label in OURS for model in apps.get_app_config(label).get_models()]
    wanted = {
        (model._meta.db_table, column)
        for model in models
        for column in planner_statistics.columns_of_bytes(model)
    }
    # Call `planner_statistics.ignore_bytes` in a migration for what is missing here.
    assert wanted - found == set()
