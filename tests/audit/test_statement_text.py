"""Texts that a statement always has are written into it, so that a database plans with them."""

from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from audit import statement_text, statements
from runtime.contracts.states import IntentState

HOSTILE = [
    "",
    "plain",
    "it's",
    "''",
    "100 %",
    "%s",
    "%%s",
    "back\\slash",
    "\\' OR 1=1 --",
    "?",
    "$1",
    "{0}",
    "ü\u202e\n",
]


def asked(sql: str, params: list[Any]) -> list[Any]:
    return statement_text.rows(connection, *statement_text.with_constants(sql, params))


@pytest.mark.django_db
@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_that_is_written_in_is_the_text_that_was_given(text: str) -> None:
    length = "SELECT %s || 'a%%b', LENGTH(%s), %s + 1"
    assert asked(length, [text, text, 4]) == [(f"{text}a%b", len(text), 5)]


def test_only_texts_are_written_in() -> None:
    sql, left = statement_text.with_constants(
        "a = %s AND b = %s AND c LIKE %s", [IntentState.PENDING, 7, "%x"]
    )
    assert (sql, left) == ("a = 'PENDING' AND b = %s AND c LIKE '%%x'", [7])


def test_a_zero_character_is_left_for_the_driver_to_refuse() -> None:
    assert statement_text.with_constants("a = %s", ["a\0b"]) == ("a = %s", ["a\0b"])


@pytest.mark.django_db
def test_statements_that_are_logged_have_their_text() -> None:
    with CaptureQueriesContext(connection) as captured:
        assert asked("SELECT %s || %s", ["one", "two"]) == [("onetwo",)]
    assert "'one' || 'two'" in captured[0]["sql"]


def test_a_quote_inside_a_text_hides_no_name_behind_it() -> None:
    assert '"runtime_flow"' in statement_text.names("""SELECT 'a"b' FROM "runtime_flow" WHERE x = '"'""")


@pytest.mark.django_db
def test_errors_are_those_of_django() -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        statement_text.rows(connection, 'SELECT %s FROM "no_such_table"', ["one"])
    with pytest.raises(IntegrityError), transaction.atomic():
        statement_text.changed(
            connection, 'INSERT INTO "django_content_type" ("app_label") VALUES (%s)', ["one"]
        )
    with transaction.atomic():
        with pytest.raises(DatabaseError):
            statement_text.changed(connection, 'DELETE FROM "no_such_table" WHERE a = %s', ["one"])
        with pytest.raises(transaction.TransactionManagementError):
            statement_text.rows(connection, "SELECT %s || '%%'", ["one"])
    assert asked("SELECT %s || '%%'", ["one"]) == [("one%",)]


@pytest.mark.django_db
def test_a_long_list_is_asked_for_by_the_plain_form() -> None:
    read = statements.Read(_named)
    with CaptureQueriesContext(connection) as captured:
        for count in (statements._LONGEST, statements._LONGEST + 1):
            names = ["ledgerentry", *(f"no_{number}" for number in range(count - 1))]
            assert read.rows(names=names) == ["ledgerentry"]
    assert len(captured) == 2
    assert len(read._forms) == 1


def _named(*, names: list[str]) -> QuerySet[ContentType, str]:
    return ContentType.objects.filter(model__in=names).values_list("model", flat=True)
