"""Texts that a statement always has are written into it, so that a database plans with them."""

from datetime import timedelta
from threading import Thread
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


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one form of results")
def test_results_in_binary_form_are_the_values_that_django_reads() -> None:
    sql = (
        "SELECT clock_timestamp(), DATE '2026-01-02', '\\xab00'::bytea, 3::int2, 4::int4, 5::int8, COUNT(*),"
        " SUM(6::int8), 1.50::numeric, TRUE, '00000000-0000-0000-0000-000000000007'::uuid, 'a', NULL::bytea"
    )
    [binary] = statement_text.rows(connection, sql, [])
    with connection.cursor() as cursor:
        cursor.execute(sql)
        [plain] = cursor.fetchall()
    assert binary[1:] == tuple(bytes(one) if isinstance(one, memoryview) else one for one in plain[1:])
    assert [type(one) for one in binary] == [type(one) for one in plain]
    assert binary[0].utcoffset() == plain[0].utcoffset() == timedelta()
    assert binary[0].tzinfo is plain[0].tzinfo


@pytest.mark.django_db
def test_each_connection_has_a_cursor_of_its_own() -> None:
    def found() -> Any:
        return getattr(connection.connection, statement_text._KEPT, None)

    assert asked("SELECT %s || %s", ["a", "b"]) == [("ab",)]
    first = found()
    assert asked("SELECT %s || %s", ["c", "d"]) == [("cd",)]
    assert found() is first
    in_thread = []

    def ask() -> None:
        in_thread.append((asked("SELECT 1", []), found()))
        connection.close()

    thread = Thread(target=ask)
    thread.start()
    thread.join()
    [(rows, other)] = in_thread
    assert rows == [(1,)]
    assert (first is None) is (other is None) is (connection.vendor == "sqlite")
    assert first is None or first is not other
