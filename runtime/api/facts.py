"""State feeds: versioned facts, written by feeds under their prefix."""

from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import WithJsonSchema

from audit import canonical
from runtime.api import auth, documents, envelopes, headers
from runtime.api.replies import reply, tagged
from runtime.contracts import wire
from runtime.contracts.problem import Problem, ProblemError
from runtime.models import Key
from runtime.queries import world
from runtime.services import facts

router = Router(tags=["State"], auth=auth.FeedKey())
MAX_VERSION = 2**53 - 1
# Said in the document, asked by `facts.check_path`: its sentence tells more than a pattern does.
FactPath = Annotated[
    str,
    WithJsonSchema({"type": "string", "pattern": wire.FACT_PATH, "maxLength": wire.MAX_FACT_PATH_CHARS}),
]
_NO_VERSION = -1


@router.put(
    "/state/facts/{path}",
    response=wire.FactVersion,
    openapi_extra=documents.describe(body=wire.FactRequest, headers=[documents.IF_MATCH]),
)
def write_fact(request: HttpRequest, path: FactPath) -> HttpResponse:
    """Write the next version of a fact. With If-Match only while it is still at that etag, else 412."""
    key = _guarded(request, path)
    _, checked = envelopes.read(request, wire.FactRequest)
    written = facts.write(
        tenant=key.tenant,
        path=path,
        value=checked.value["value"],
        writer=f"feed:{key.feed}",
        expected_version=_expected(request, key, path),
    )
    if isinstance(written, Problem):
        raise ProblemError(written)
    etag = wire.etag_of_version(written.version)
    response = reply(wire.FactVersion(path=path, version=written.version, etag=etag))
    response["ETag"] = etag
    return response


@router.get(
    "/state/facts/{path}",
    response=wire.FactView,
    openapi_extra=documents.describe(headers=[documents.IF_NONE_MATCH], not_modified=True),
)
def read_fact(
    request: HttpRequest,
    path: FactPath,
    at_version: Annotated[int | None, Query(ge=1, le=MAX_VERSION)] = None,
) -> HttpResponse:
    """The current version of a fact, or an earlier one; versions never change."""
    key = _guarded(request, path)
    row = world.get_fact(tenant=key.tenant, path=path, at_version=at_version)
    if row is None:
        detail = "This version of the fact does not exist. Read it without at_version, or write it first."
        raise ProblemError(Problem(status=404, code="FACT_NOT_FOUND", detail=detail))
    etag = wire.etag_of_version(row.version)
    view = wire.FactView(path=path, version=row.version, etag=etag, value=canonical.decode(bytes(row.value)))
    return tagged(request, view, etag=etag)


def _guarded(request: HttpRequest, path: FactPath) -> Key:
    key = auth.feed_key_of(request)
    refusal = facts.check_path(path)
    if refusal is not None:
        raise ProblemError(refusal)
    if not path.startswith(key.fact_prefix):
        detail = f"This feed key covers only facts under {key.fact_prefix}. Use the key of the right feed."
        raise ProblemError(Problem(status=403, code="UNAUTHORIZED", detail=detail))
    return key


def _expected(request: HttpRequest, key: Key, path: str) -> int | None:
    """The version that If-Match asks for. Of several tags, and of `*`, only the current one can be it."""
    versions = headers.matched_versions(request)
    if versions is None:
        return None
    if len(versions) == 1:
        return next(iter(versions))
    row = world.get_fact(tenant=key.tenant, path=path, at_version=None)
    if row is not None and (row.version in versions or headers.matches_any(request)):
        return row.version
    return _NO_VERSION
