"""State feeds: versioned facts, written by feeds under their prefix."""

from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import WithJsonSchema

from audit import actors, canonical
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.api import body_parsing, headers, openapi
from runtime.core.api.responses import reply, tagged
from runtime.registry.api import auth
from runtime.registry.models import Key
from runtime.state.queries import visible_facts
from runtime.state.services import facts

router = Router(tags=["State"], auth=auth.FeedKey())
MAX_VERSION = 2**53 - 1
# Said in the document, asked by `facts.check_path`: its sentence tells more than a pattern does.
FactPath = Annotated[
    str,
    WithJsonSchema(
        {"type": "string", "pattern": api_schemas.FACT_PATH, "maxLength": api_schemas.MAX_FACT_PATH_CHARS}
    ),
]
_NO_VERSION = -1


@router.put(
    "/state/facts/{path}",
    response=api_schemas.FactVersion,
    openapi_extra=openapi.describe(body=api_schemas.FactRequest, headers=[openapi.IF_MATCH]),
)
def write_fact(request: HttpRequest, path: FactPath) -> HttpResponse:
    """Write the next version of a fact. With If-Match only while it is still at that etag, else 412."""
    key = _guarded(request, path)
    _, checked = body_parsing.read(request, api_schemas.FactRequest)
    written = facts.write(
        tenant=key.tenant,
        path=path,
        value=checked.value["value"],
        writer=actors.feed(key.feed),
        expected_version=_expected(request, key, path),
    )
    if isinstance(written, Problem):
        raise ProblemError(written)
    etag = api_schemas.etag_of_version(written.version)
    response = reply(api_schemas.FactVersion(path=path, version=written.version, etag=etag))
    response["ETag"] = etag
    return response


@router.get(
    "/state/facts/{path}",
    response=api_schemas.FactView,
    openapi_extra=openapi.describe(headers=[openapi.IF_NONE_MATCH], not_modified=True),
)
def read_fact(
    request: HttpRequest,
    path: FactPath,
    at_version: Annotated[int | None, Query(ge=1, le=MAX_VERSION)] = None,
) -> HttpResponse:
    """The current version of a fact, or an earlier one; versions never change."""
    key = _guarded(request, path)
    row = visible_facts.get_fact(tenant=key.tenant, path=path, at_version=at_version)
    if row is None:
        detail = (
            "This version of the fact does not exist, or is not kept any more. Read it without at_version."
        )
        raise ProblemError(Problem(code=ProblemCode.FACT_NOT_FOUND, detail=detail))
    etag = api_schemas.etag_of_version(row.version)
    view = api_schemas.FactView(
        path=path, version=row.version, etag=etag, value=canonical.decode(bytes(row.value))
    )
    return tagged(request, view, etag=etag)


def _guarded(request: HttpRequest, path: FactPath) -> Key:
    key = auth.feed_key_of(request)
    refusal = facts.check_path(path)
    if refusal is not None:
        raise ProblemError(refusal)
    if not path.startswith(key.fact_prefix):
        detail = f"This feed key covers only facts under {key.fact_prefix}. Use the key of the right feed."
        raise ProblemError(Problem(code=ProblemCode.UNAUTHORIZED, detail=detail))
    return key


def _expected(request: HttpRequest, key: Key, path: str) -> int | None:
    """The version that If-Match asks for. Of several tags, and of `*`, only the current one can be it."""
    versions = headers.matched_versions(request)
    if versions is None:
        return None
    if len(versions) == 1:
        return next(iter(versions))
    row = visible_facts.get_fact(tenant=key.tenant, path=path, at_version=None)
    if row is not None and (row.version in versions or headers.matches_any(request)):
        return row.version
    return _NO_VERSION
