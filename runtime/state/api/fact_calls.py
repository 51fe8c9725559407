"""State feeds: versioned facts, written by feeds under their prefix."""

from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import WithJsonSchema

from audit import actors, canonical
from runtime.contracts import api_schemas, state_schemas
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import idempotency
from runtime.core.api import body_parsing, headers, openapi
from runtime.core.api.responses import reply, tagged
from runtime.kernel import ijson
from runtime.registry.api import auth
from runtime.registry.models import Key
from runtime.state.api import readers
from runtime.state.queries import visible_facts
from runtime.state.services import facts
from runtime.state.services.facts import RepeatableWrite, WrittenVersion

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
_MERGE_PATCH = "application/merge-patch+json"
_WRITE_HEADERS = [openapi.IF_MATCH, openapi.IDEMPOTENCY_KEY, openapi.PREFER]


@router.put(
    "/state/facts/{path}",
    response=state_schemas.FactWritten,
    openapi_extra=openapi.describe(body=state_schemas.FactRequest, headers=_WRITE_HEADERS),
)
def write_fact(request: HttpRequest, path: FactPath) -> HttpResponse:
    """Write the next version of a fact. With If-Match only while it is still at that etag, else 412.

    All that one call writes is one version of the world, `world_version_id`; null: it is not numbered yet.
    """
    key = _guarded(request, path)
    _, checked = body_parsing.read(request, state_schemas.FactRequest)
    return _answer(
        facts.write(
            tenant=key.tenant,
            path=path,
            value=checked.value["value"],
            writer=actors.feed(key.feed),
            expected_version=_expected(request, key, path),
            repeatable=_repeatable(request, key, path, checked),
        )
    )


@router.patch(
    "/state/facts/{path}",
    response=state_schemas.FactWritten,
    openapi_extra=openapi.describe(body=state_schemas.FactPatch, headers=_WRITE_HEADERS),
)
def patch_fact(request: HttpRequest, path: FactPath) -> HttpResponse:
    """Write the next version of a fact with `value` merged into it, as JSON Merge Patch (RFC 7396) has it.

    Members that are null go, others are new or other; a value that is no object takes the place of the old
    one. The body may be `application/merge-patch+json` or `application/json`.
    """
    key = _guarded(request, path)
    checked = body_parsing.read_json(request, media_types=(_MERGE_PATCH, "application/json"))
    body_parsing.check(checked, state_schemas.FactPatch)
    return _answer(
        facts.patch(
            tenant=key.tenant,
            path=path,
            change=checked.value["value"],
            writer=actors.feed(key.feed),
            expected_version=_expected(request, key, path),
            repeatable=_repeatable(request, key, path, checked),
        )
    )


@router.get(
    "/state/facts/{path}",
    auth=auth.StateReader(),
    response=state_schemas.FactView,
    openapi_extra=openapi.describe(headers=[openapi.IF_NONE_MATCH], not_modified=True),
)
def read_fact(
    request: HttpRequest,
    path: FactPath,
    at_version: Annotated[int | None, Query(ge=1, le=MAX_VERSION)] = None,
) -> HttpResponse:
    """The current version of a fact, or an earlier one; versions never change."""
    _check_path(path)
    sight = readers.sight_of(request)
    readers.refuse_outside(request, path, is_covered=sight.covers(path))
    row = visible_facts.get_fact(tenant=sight.tenant, path=path, at_version=at_version)
    if row is None:
        detail = (
            "This version of the fact does not exist, or is not kept any more. Read it without at_version."
        )
        raise ProblemError(Problem(code=ProblemCode.FACT_NOT_FOUND, detail=detail))
    etag = api_schemas.etag_of_version(row.version)
    view = state_schemas.FactView(
        path=path, version=row.version, etag=etag, value=canonical.decode(bytes(row.value))
    )
    return tagged(request, view, etag=etag)


def _guarded(request: HttpRequest, path: FactPath) -> Key:
    key = auth.feed_key_of(request)
    _check_path(path)
    if not path.startswith(key.fact_prefix):
        raise ProblemError(readers.outside(key))
    return key


def _check_path(path: str) -> None:
    refusal = facts.check_path(path)
    if refusal is not None:
        raise ProblemError(refusal)


def _answer(written: WrittenVersion | Problem) -> HttpResponse:
    if isinstance(written, Problem):
        raise ProblemError(written)
    etag = api_schemas.etag_of_version(written.version)
    response = reply(
        state_schemas.FactWritten(
            path=written.path,
            version=written.version,
            etag=etag,
            write_id=written.write_id,
            world_version_id=written.world_version,
        )
    )
    response["ETag"] = etag
    return response


def _repeatable(request: HttpRequest, key: Key, path: str, checked: ijson.Checked) -> RepeatableWrite | None:
    """The call as one that may be repeated; None without an Idempotency-Key."""
    sent = headers.idempotency_key(request)
    if sent is None:
        return None
    # The method is part of what is asked: the same body means something else with another one.
    asked = canonical.encode({"method": request.method, "body": checked.value})
    call = idempotency.IdempotentRequest(key=sent, path=path, body=asked)
    return RepeatableWrite(key_pk=key.pk, call=call)


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
