"""The one place that turns a refusal into HTTP: RFC 9457 problem documents for everything under /api/."""

import json
import logging
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError
from ninja.errors import ValidationError as NinjaValidationError

from runtime.contracts.problem import Problem, ProblemError, Violation

log = logging.getLogger(__name__)
API_PREFIX = "/api/"
Next = Callable[[HttpRequest], HttpResponse]

PLAIN: dict[int, tuple[str, str]] = {
    400: ("BAD_REQUEST", "The request could not be read. Check it against /api/v1/openapi.json."),
    401: ("UNAUTHENTICATED", "Give a valid Authorization: Bearer header."),
    403: ("FORBIDDEN", "This identity may not make this call."),
    404: ("NOT_FOUND", "Nothing is at this address. The calls are listed at /api/v1/openapi.json."),
    405: ("METHOD_NOT_ALLOWED", "This address does not answer this method. See /api/v1/openapi.json."),
    413: ("BODY_TOO_LARGE", "The body is larger than 1,000,000 bytes. Send less."),
    500: ("INTERNAL_ERROR", "The runtime failed. Repeat the call with the same Idempotency-Key."),
    503: ("TEMPORARILY_UNAVAILABLE", "The runtime is busy. Repeat the call with the same Idempotency-Key."),
}


def plain(status: int) -> Problem:
    """The problem for a bare HTTP status, as framework errors give it."""
    code, detail = PLAIN.get(status, PLAIN[500] if status >= 500 else PLAIN[400])
    return Problem(status=status, code=code, detail=detail, retriable=status >= 500)


def body_of(problem: Problem) -> dict[str, Any]:
    """The members of the problem document."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": problem.title or HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        "violations": [asdict(violation) for violation in problem.violations],
        "retriable": problem.retriable,
    }
    if problem.dfid is not None:
        body["dfid"] = problem.dfid
    if problem.supported is not None:
        body["supported"] = problem.supported
    return body


def respond(problem: Problem) -> HttpResponse:
    """The problem as an HTTP response."""
    response = HttpResponse(
        json.dumps(body_of(problem)), status=problem.status, content_type="application/problem+json"
    )
    if problem.status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = "Bearer"
    if problem.status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}:
        response["Retry-After"] = "1"
    return response


def for_exception(error: BaseException) -> Problem:
    """The problem for an exception that reached the edge: a refusal, a framework error, or a bug."""
    match error:
        case ProblemError(problem=problem):
            return problem
        case AuthenticationError():
            return plain(401)
        case RequestDataTooBig():
            return plain(413)
        case HttpError(status_code=status):
            return plain(status)
        case NinjaValidationError(errors=errors):
            violations = tuple(
                Violation(pointer="/" + "/".join(str(part) for part in item["loc"]), message=str(item["msg"]))
                for item in errors
            )
            return Problem(
                status=422, code="INVALID_REQUEST", detail="Correct the fields named.", violations=violations
            )
        case OperationalError() | InterfaceError():
            log.warning("the database did not answer: %s", error)
            return plain(503)
        case _:
            log.error("a call failed", exc_info=error)
            return plain(500)


def register(api: NinjaAPI) -> None:
    """Answer every exception of `api` with a problem document."""

    def answer(request: HttpRequest, error: Exception) -> HttpResponse:
        return respond(for_exception(error))

    for kind in (ProblemError, AuthenticationError, HttpError, NinjaValidationError, Exception):
        api.add_exception_handler(kind, answer)


class ProblemMiddleware:
    """Django's own HTML errors under /api/ become problem documents too."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if (
            request.path.startswith(API_PREFIX)
            and response.status_code >= 400
            and not response.headers.get("Content-Type", "").startswith("application/problem+json")
        ):
            return respond(plain(response.status_code))
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Bad bodies and bugs under /api/; pages keep Django's own error pages."""
        if request.path.startswith(API_PREFIX):
            return respond(for_exception(error))
        return None
