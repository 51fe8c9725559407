"""Whatever goes wrong under /api/ is a problem document, also where the framework would answer in HTML."""

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import OperationalError
from django.http.request import UnreadablePostError
from django.test import Client
from ninja.errors import HttpError

from dir_console import problems
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import refusals
from runtime.flows.queries import feedback
from tests.support import api_client


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/",
        "/api/v1/nothing",
        "/api/v1/flows/",
        "/api/v2/flows",
        "/api/",
        "/api/v1/../v1/x",
        "/api/v1//flows",
    ],
)
def test_an_unknown_address_is_a_problem(db: None, path: str) -> None:
    answer = api_client.Heard(Client().get(path))
    answer.problem(404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/handshake"),
        ("DELETE", "/flows"),
        ("PUT", "/flows"),
        ("POST", "/schema/policy"),
        ("OPTIONS", "/flows"),
        ("POST", "/state/facts/price.AAPL"),
        ("DELETE", "/state/facts/price.AAPL"),
    ],
)
def test_a_wrong_method_is_a_problem_that_names_the_right_ones(db: None, method: str, path: str) -> None:
    answer = api_client.Caller().call(method, path)
    answer.problem(405, "METHOD_NOT_ALLOWED")
    assert answer.headers["Allow"]


def test_a_foreign_host_is_a_problem(db: None) -> None:
    answer = api_client.Heard(Client().get("/api/v1/schema/policy", headers={"Host": "evil.example"}))
    answer.problem(400, "BAD_REQUEST")


def test_a_body_that_is_declared_too_large_is_a_problem(trader: api_client.Caller) -> None:
    response = trader.client.generic(
        "POST",
        "/api/v1/flows",
        b"{}",
        content_type="application/json",
        headers={"Authorization": f"Bearer {trader.token}"},
        CONTENT_LENGTH="1000001",
    )
    api_client.Heard(response).problem(413, "BODY_TOO_LARGE")


def test_a_bug_is_a_problem_that_tells_nothing_of_it(
    trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**asked: Any) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(feedback, "get_flow", broken)
    answer = trader.get(f"/flows/{trader.open_flow()}")
    assert answer.problem(500, "INTERNAL_ERROR")["retriable"] is True
    assert b"secret" not in answer.content


def test_a_database_that_does_not_answer_is_temporary(
    trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(**asked: Any) -> None:
        raise OperationalError("the connection is gone")

    dfid = trader.open_flow()
    monkeypatch.setattr(feedback, "get_flow", gone)
    answer = trader.get(f"/flows/{dfid}")
    assert answer.problem(503, "TEMPORARILY_UNAVAILABLE")["retriable"] is True
    assert answer.headers["Retry-After"] == "1"


def test_a_refusal_stands_where_it_cannot_be_recorded(
    trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(**refused: Any) -> None:
        raise OperationalError("the connection is gone")

    monkeypatch.setattr(refusals, "record_refusal", gone)
    trader.post("/flows", {"trigger": 1}).problem(422, "INVALID_REQUEST")


def test_an_answer_is_never_kept_by_a_cache(trader: api_client.Caller) -> None:
    answer = trader.get(f"/flows/{trader.open_flow()}")
    assert answer.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnreadablePostError("hung up"), 400),
        (HttpError(418, "x"), 418),
        (HttpError(403, "x"), 403),
        (HttpError(502, "x"), 502),
        (PermissionDenied(), 403),
        (SuspiciousOperation(), 400),
    ],
)
def test_errors_of_the_framework_have_their_status(error: Exception, status: int) -> None:
    problem = problems.for_exception(error)
    assert problem.status == status
    assert problem.retriable is (status >= 500)


def test_a_document_has_the_members_of_rfc_9457() -> None:
    problem = Problem(
        code=ProblemCode.VERSION_UNSUPPORTED,
        detail="Use another.",
        violations=(Violation(pointer="/a", message="is wrong"),),
        dfid="d",
        supported=">=1",
    )
    assert problems.body_of(problem) == {
        "type": "about:blank",
        "title": "Not Acceptable",
        "status": 406,
        "code": "VERSION_UNSUPPORTED",
        "detail": "Use another.",
        "violations": [{"pointer": "/a", "message": "is wrong"}],
        "retriable": False,
        "dfid": "d",
        "supported": ">=1",
    }


def test_a_problem_names_the_flow_that_its_address_names(desk: None) -> None:
    dfid = "01890000-0000-7000-8000-000000000000"
    assert api_client.Caller().get(f"/flows/{dfid}").problem(401, "UNAUTHENTICATED")["dfid"] == dfid
    assert "dfid" not in api_client.Caller().get("/schema/policy").problem(401, "UNAUTHENTICATED")


def test_a_page_keeps_its_own_errors(db: None) -> None:
    assert not Client().get("/no-such-page/").headers["Content-Type"].startswith("application/problem")
