"""What an answer means where a result is asked for."""

from typing import Any

import pytest

from runtime.contracts.kind_steps import ResultAsked
from runtime.kernel import following
from runtime.kernel.following import Found


def asked(**parts: Any) -> ResultAsked:
    return ResultAsked(deadline_s=600, **parts)


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
