"""Texts that a statement always has are written into it, so that a database plans with them."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit import statement_text
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
    with statement_text.cursor(connection) as cursor:
        cursor.execute(*statement_text.with_constants(sql, params))
        return list(cursor.fetchall())


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
