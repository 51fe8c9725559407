"""Answers as bytes: models as JSON, stored answers as they are."""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from pydantic import BaseModel

from runtime.contracts.problem import Problem, ProblemError


def reply(answer: BaseModel | Problem, *, status: int = HTTPStatus.OK) -> HttpResponse:
    """The answer as JSON; raises ProblemError for a refusal."""
    if isinstance(answer, Problem):
        raise ProblemError(answer)
    return raw(answer.model_dump_json().encode(), status=status)


def raw(body: bytes, *, status: int = HTTPStatus.OK) -> HttpResponse:
    """JSON bytes as they are."""
    return HttpResponse(body, status=status, content_type="application/json")


def tagged(request: HttpRequest, answer: BaseModel, *, etag: str) -> HttpResponse:
    """The answer with its entity tag, or 304 where the caller has it already."""
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]
    response = (
        HttpResponse(status=HTTPStatus.NOT_MODIFIED) if etag in known or known == ["*"] else reply(answer)
    )
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    return response
