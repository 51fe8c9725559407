"""Where a result is asked for, and what an answer there means."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts.kind_steps import ResultAsked
from runtime.kernel import following
from runtime.kernel.following import Found

BASE = "https://warehouse.example/api"


def place(*locations: str, base_url: str = BASE, path: str = "/orders") -> str | None:
    headers = [("content-type", "application/json"), *(("Location", one) for one in locations)]
    return following.location_of(headers, base_url=base_url, path=path)


def asked(**parts: Any) -> ResultAsked:
    return ResultAsked(deadline_s=600, **parts)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/jobs/7", "/jobs/7"),
        ("jobs/7?part=1", "/api/jobs/7?part=1"),
        ("https://warehouse.example/jobs/7#top", "/jobs/7"),
        ("https://warehouse.example", "/"),
        ("../jobs/7", "/jobs/7"),
        (" /jobs/7 ", "/jobs/7"),
        # Anywhere else.
        ("http://warehouse.example/jobs/7", None),
        ("https://warehouse.example:8443/jobs/7", None),
        ("https://warehouse.example@evil.example/jobs/7", None),
        ("https://user@warehouse.example/jobs/7", None),
        ("//evil.example/jobs/7", None),
        ("https://169.254.169.254/latest", None),
        ("file:///etc/passwd", None),
        ("https://[warehouse.example/", None),
        # What no request line carries.
        ("/jobs/\N{SNOWMAN}", None),
        ("/jobs/a b", "/jobs/a b"),
        ("/" + "a" * 2000, None),
        ("/" + "a" * 1999, "/" + "a" * 1999),
    ],
)
def test_a_target_is_asked_where_it_lives_and_nowhere_else(location: str, expected: str | None) -> None:
    assert place(location) == expected


def test_an_answer_names_one_place() -> None:
    assert place() is None
    assert place("/jobs/7", "/jobs/8") is None


@given(st.text(max_size=80))
def test_no_location_leads_to_another_origin(location: str) -> None:
    found = place(location)
    assert found is None or (
        found.startswith("/") and following.origin_of(BASE) == "https://warehouse.example"
    )
    if found is not None:
        assert following.location_of([("location", found)], base_url=BASE, path="/") is not None


@pytest.mark.parametrize(
    ("parts", "status", "body", "expected"),
    [
        ({}, 200, {"a": 1}, Found.DONE),
        ({}, 201, {}, Found.DONE),
        ({}, 202, {"a": 1}, Found.OPEN),
        ({}, 200, None, Found.OPEN),
        ({}, 303, {"a": 1}, Found.OPEN),
        ({}, 404, {"a": 1}, Found.OPEN),
        ({}, 500, None, Found.OPEN),
        ({"done": "answer.body.state == 'DONE'"}, 202, {"state": "DONE"}, Found.DONE),
        ({"done": "answer.body.state == 'DONE'"}, 200, {"state": "BUSY"}, Found.OPEN),
        # A condition that cannot be evaluated, or gives no boolean, does not hold.
        ({"done": "answer.body.state == 'DONE'"}, 200, {}, Found.OPEN),
        ({"done": "answer.body.state"}, 200, {"state": "DONE"}, Found.OPEN),
        ({"done": "answer.body.state == 'DONE'"}, 404, {"state": "DONE"}, Found.OPEN),
        ({"failed": "answer.status_code == 410"}, 410, None, Found.FAILED),
        ({"failed": "answer.body.state == 'FAILED'"}, 200, {"state": "FAILED"}, Found.FAILED),
        ({"failed": "answer.body.state == 'FAILED'"}, 200, {"state": "OK"}, Found.DONE),
        # What says that it failed is not done, whatever else it says.
        ({"done": "true", "failed": "has(answer.body.error)"}, 200, {"error": "x"}, Found.FAILED),
    ],
)
def test_what_an_answer_means(
    parts: dict[str, str], status: int, body: dict[str, Any] | None, expected: Found
) -> None:
    assert following.judge(asked(**parts), status_code=status, body=body) is expected


@pytest.mark.parametrize(("told_s", "expected"), [(None, 30), (5.0, 30), (90.0, 90.0), (1e9, 3600)])
def test_a_target_may_ask_for_more_time_and_for_no_more_than_an_hour(
    told_s: float | None, expected: float
) -> None:
    assert following.wait_s(asked(), told_s=told_s) == expected
