"""The one place that turns a refusal into HTTP: RFC 9457 problem documents for all that programs call."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from django.shortcuts import render
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError
from ninja.errors import ValidationError as NinjaValidationError

from audit.api.refusals import RefusedError, Why
from audit.sealing.own_key import KeyEndedError
from dir_console.crowds import CrowdedError
from runtime.contracts.problem import Problem, ProblemError, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import transactions
from runtime.core.api import body_parsing
from runtime.core.mismatches import TamperedError
from runtime.registry.api import refusal_audit

log = logging.getLogger(__name__)
CLIENT_ERROR, SERVER_ERROR = 400, 500
BUSY_ERRORS = (OperationalError, InterfaceError, transactions.BusyError)
Next = Callable[[HttpRequest], HttpResponse]

# What framework errors are answered with.
PLAIN: Mapping[ProblemCode, str] = {
    ProblemCode.BAD_REQUEST: "The request could not be read. Check it against /api/v1/openapi.json.",
    ProblemCode.UNAUTHENTICATED: "Send a valid Authorization: Bearer header.",
    ProblemCode.FORBIDDEN: "These credentials do not allow this call.",
    ProblemCode.NOT_FOUND: "This address does not exist. See /api/v1/openapi.json for all calls.",
    ProblemCode.METHOD_NOT_ALLOWED: "This address does not support this method. See /api/v1/openapi.json.",
    ProblemCode.TIMEOUT: "The request timed out. Send it again.",
    ProblemCode.BODY_TOO_LARGE: "The body is larger than 1,000,000 bytes. Send a smaller one.",
    ProblemCode.INTERNAL_ERROR: "Internal error. Retry with the same Idempotency-Key.",
    ProblemCode.TEMPORARILY_UNAVAILABLE: "The runtime is busy. Retry with the same Idempotency-Key.",
}
PLAIN_CODES: Mapping[int, ProblemCode] = {code.status: code for code in PLAIN}

# What calls of the audit app, which knows no problem documents, are refused with.
AUDIT_CODES: Mapping[Why, ProblemCode] = {
    Why.UNKNOWN: ProblemCode.NOT_FOUND,
    Why.NOT_SEALED: ProblemCode.NOT_SEALED,
    Why.NO_SUCH_SIZE: ProblemCode.TREE_SIZE_UNKNOWN,
    Why.TAMPERED: ProblemCode.TAMPERED,
}

BUSY = Problem(
    code=ProblemCode.BUSY, detail="Too many concurrent updates. Retry with the same Idempotency-Key."
)


def plain(status: int) -> Problem:
    """The problem for a bare HTTP status, as framework errors give it; a status without a code is kept."""
    other = ProblemCode.INTERNAL_ERROR if status >= SERVER_ERROR else ProblemCode.BAD_REQUEST
    code = PLAIN_CODES.get(status, other)
    return Problem(code=code, status=status, detail=PLAIN[code])


def body_of(problem: Problem) -> dict[str, Any]:
    """The members of the problem document."""
    body: dict[str, Any] = {
        "type": "about:blank",
        # The type is about:blank, so RFC 9457 (4.2.1) asks for the phrase of the status.
        "title": HTTPStatus(problem.status).phrase,
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
    if problem.retriable and problem.status in {
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.TOO_MANY_REQUESTS,
    }:
        response["Retry-After"] = "1"
    return response


def for_exception(error: BaseException) -> Problem:
    """The problem for an exception that reached the edge: a refusal, a framework error, or a bug."""
    match error:
        case ProblemError(problem=problem):
            return problem
        case RefusedError(why=why, detail=detail):
            return Problem(code=AUDIT_CODES[why], detail=detail)
        case transactions.BusyError():
            return BUSY
        case KeyEndedError():
            log.error("nothing is signed: %s", error)
            return Problem(code=ProblemCode.SIGNING_KEY_ENDED, detail=str(error))
        case NinjaValidationError(errors=errors):
            violations = tuple(
                Violation(pointer="/" + "/".join(map(str, item["loc"])), message=body_parsing.words_of(item))
                for item in errors
            )
            detail = "The parameters are invalid. See `violations`."
            return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail, violations=violations)
        case OperationalError() | InterfaceError():
            log.warning("the database did not respond: %s", error)
            return plain(503)
    status = _framework_status(error)
    if status is None:
        log.error("an API call failed", exc_info=error)
    return plain(status or 500)


def _framework_status(error: BaseException) -> int | None:
    match error:
        case AuthenticationError():
            return 401
        case RequestDataTooBig():
            return 413
        case PermissionDenied():
            return 403
        case Http404():
            return 404
        case HttpError(status_code=status):
            return status
        case UnreadablePostError() | SuspiciousOperation():
            return 400
    return None


def answer(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    """The problem document for an exception of the API; refusals of known callers are recorded."""
    problem = for_exception(error if isinstance(error, Exception) else error())
    # The flow that the call was about, where its address names one.
    dfid = request.resolver_match.kwargs.get("dfid") if request.resolver_match else None
    if dfid is not None and problem.dfid is None:
        problem = replace(problem, dfid=str(dfid))
    refusal_audit.note(request, problem)
    return respond(problem)


def register(api: NinjaAPI) -> None:
    """Answer every exception of `api` with a problem document."""
    for kind in (ProblemError, AuthenticationError, HttpError, NinjaValidationError, Exception):
        api.add_exception_handler(kind, answer)


class ProblemMiddleware:
    """Django's own HTML errors for programs become problem documents too."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if (
            request.path.startswith(settings.DIR_FOR_PROGRAMS)
            and response.status_code >= CLIENT_ERROR
            and not response.headers.get("Content-Type", "").startswith("application/problem+json")
        ):
            answer = respond(plain(response.status_code))
            if "Allow" in response.headers:
                answer["Allow"] = response.headers["Allow"]
            return answer
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Bad bodies and bugs for programs; pages keep Django's own error pages for the rest."""
        if request.path.startswith(settings.DIR_FOR_PROGRAMS):
            return respond(for_exception(error))
        if isinstance(error, BUSY_ERRORS):
            return busy_page(request, error)
        if isinstance(error, CrowdedError):
            context = {"status": 503, "title": "Too many sign-ins at once", "detail": str(error)}
            return _soon(render(request, "error.html", context, status=HTTPStatus.SERVICE_UNAVAILABLE))
        if isinstance(error, KeyEndedError):
            log.error("a page was refused: %s", error)
            context = {"status": 503, "title": "The signing key has ended", "detail": str(error)}
            return render(request, "error.html", context, status=HTTPStatus.SERVICE_UNAVAILABLE)
        if isinstance(error, TamperedError):
            log.error("a page was refused because its rows do not match the ledger: %s", error)
            return render(request, "tampered.html", {"found": error.found}, status=HTTPStatus.CONFLICT)
        return None


def busy_page(request: HttpRequest, error: Exception) -> HttpResponse:
    """The page for a database that does not answer, or that another process keeps."""
    log.warning("the database did not respond to a page: %s", error)
    return _soon(render(request, "503.html", status=HTTPStatus.SERVICE_UNAVAILABLE))


def _soon(answer: HttpResponse) -> HttpResponse:
    answer["Retry-After"] = "1"
    return answer
