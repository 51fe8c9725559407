"""The world at a version of it, and the versions: by agents, feeds and auditors."""

import re
from typing import Annotated, Final, NoReturn

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import WithJsonSchema

from audit.canonical import MAX_SAFE_INTEGER
from runtime.contracts import api_schemas, state_schemas
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.receiver import STATE_CHANGED
from runtime.core.api import openapi
from runtime.core.api.responses import raw, reply, tagged
from runtime.core.mismatches import Mismatch
from runtime.flows.api.feedback_calls import MAX_SEQ
from runtime.registry.api import auth
from runtime.registry.queries import ontology_versions, version_states
from runtime.state.api import readers
from runtime.state.queries import changes, world
from runtime.state.queries.sight import Sight
from runtime.state.queries.world import Missing

router = Router(tags=["State"], auth=auth.StateReader())
_PREFIX: Final = re.compile(r"^([a-z0-9_]+(\.[A-Za-z0-9_\-:]*)?)?$", re.ASCII)
# The number of a version, or the id (ULID) of the write that made it.
# Said in the document, asked below, where a sentence tells more than a pattern does.
_Prefix = Annotated[
    str,
    Query(max_length=api_schemas.MAX_FACT_PATH_CHARS),
    WithJsonSchema(
        {"type": "string", "pattern": _PREFIX.pattern, "maxLength": api_schemas.MAX_FACT_PATH_CHARS}
    ),
]
_Version = Annotated[
    str | None,
    Query(max_length=26),
    WithJsonSchema({"type": "string", "pattern": state_schemas.WORLD_VERSION}),
]
MAX_WRITER_CHARS: Final = 160
_MAX_TAG_CHARS: Final = 1_300


@router.get(
    "/state/world",
    response=state_schemas.WorldView,
    openapi_extra=openapi.describe(headers=[openapi.IF_NONE_MATCH], not_modified=True),
)
def read_world(
    request: HttpRequest,
    prefix: _Prefix = "",
    at_version: _Version = None,
    after: Annotated[str, Query(max_length=api_schemas.MAX_FACT_PATH_CHARS)] = "",
    tags: Annotated[str, Query(max_length=_MAX_TAG_CHARS)] = "",
) -> HttpResponse:
    """All facts that the caller may read, as they were at one version of the world, or at the last one.

    `tags`, with commas between: only facts that the ontology in force declares with all of them.
    `at_version` is the number of a version or the `write_id` of a write. A version reads the same each time,
    for as long as all facts of it are kept.
    """
    if not _PREFIX.fullmatch(prefix):
        _invalid("prefix is the beginning of a fact's path, such as price. or price.AA.")
    if at_version is not None and not state_schemas.names_world_version(at_version):
        _invalid("at_version is the number of a version of the world, or a write_id.")
    sight = readers.sight_of(request)
    readers.refuse_outside(request, prefix, is_covered=sight.covers_some(prefix))
    version = world.find_version(tenant=sight.tenant, named=at_version)
    if isinstance(version, Missing):
        raise ProblemError(missing(version))
    within, declared = _tagged(sight, prefix, tags, after=after)
    seen = world.read(sight=sight, version=version, prefix=prefix, after=after, within=within)
    if isinstance(seen, Missing):
        raise ProblemError(missing(seen))
    view = state_schemas.WorldView(world_version_id=version, facts=seen.values(), next=seen.after)
    # What else than the address and the version decides what is shown is part of the tag.
    tag = ".".join(filter(None, (str(version), sight.depends_on, declared)))
    return tagged(request, view, etag=f'"{tag}"')


@router.get("/state/versions", response=state_schemas.WorldVersions, openapi_extra=openapi.describe())
def list_versions(
    request: HttpRequest,
    first: Annotated[int, Query(alias="from", ge=0, le=MAX_SAFE_INTEGER)] = 1,
    last: Annotated[int | None, Query(alias="to", ge=0, le=MAX_SAFE_INTEGER)] = None,
    writer: Annotated[str | None, Query(max_length=MAX_WRITER_CHARS)] = None,
) -> HttpResponse:
    """Versions of the world in order, `from` and `to` included, each with the one before it.

    Every version is named. Who wrote it is told where it wrote a fact that the caller may read; with `writer`
    only such versions are.
    """
    page = world.list_versions(sight=readers.sight_of(request), first=first, last=last, writer=writer)
    versions = tuple(
        state_schemas.WorldVersionView(
            version_id=seen.version,
            parent_version_id=seen.parent,
            write_id=seen.write_id,
            writer_id=seen.writer,
            discipline=seen.discipline,
            toolchain={"dir_console": seen.toolchain},
            at=seen.at,
            facts=dict(seen.written),
        )
        for seen in page.versions
    )
    return reply(state_schemas.WorldVersions(versions=versions, next=page.following))


@router.get("/state/changes", response=state_schemas.StateChanges, openapi_extra=openapi.describe())
def read_changes(
    request: HttpRequest,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ)] = 0,
    wait_s: Annotated[int, Query(ge=0, le=api_schemas.MAX_WAIT_S)] = 0,
) -> HttpResponse:
    """`state:changed` events past version `after` of the world, of the facts that the caller may read.

    With `wait_s` the answer may be held back so many seconds for the first one. With `resync` in it, read the
    world again.
    """
    page = changes.read(sight=readers.sight_of(request), after=after)
    seen = tuple(
        state_schemas.StateChangedView(
            event_type=STATE_CHANGED,
            world_version_id=change.version.version or 0,
            write_id=change.version.write_id,
            writer_id=change.version.writer,
            at=change.version.written_at,
            facts=dict(change.facts),
        )
        for change in page.changes
    )
    return reply(state_schemas.StateChanges(events=seen, next=page.following, resync=page.is_resync))


@router.get(
    "/state/ontology/{schema_version}", response=state_schemas.OntologyView, openapi_extra=openapi.describe()
)
def read_ontology(request: HttpRequest, schema_version: str) -> HttpResponse:
    """What one version of the ontology declares of the facts that the caller may read."""
    sight = readers.sight_of(request)
    row = ontology_versions.get_version(tenant=sight.tenant, version=schema_version)
    if row is None:
        detail = "No ontology has this schema_version. A pack brings one (load_pack)."
        raise ProblemError(Problem(code=ProblemCode.ONTOLOGY_NOT_FOUND, detail=detail))
    if ontology_versions.compare(row) is not None:
        raise ProblemError(_tampered())
    document = ontology_versions.contract_of(row)
    facts = tuple(
        state_schemas.FactTypeView(
            path=declared.path,
            value_schema=declared.value_schema,
            unit=declared.unit,
            tags=declared.tags,
            source=declared.writer,
            max_age_s=declared.max_age_s,
        )
        for declared in document.facts
        if (sight.covers(declared.path) if declared.prefix is None else sight.covers_some(declared.prefix))
    )
    state = str(version_states.state_of(row))
    view = state_schemas.OntologyView(schema_version=row.version, state=state, digest=row.digest, facts=facts)
    return raw(view.model_dump_json(by_alias=True).encode())


def _tagged(sight: Sight, prefix: str, tags: str, *, after: str) -> tuple[list[str] | None, str]:
    """The next paths that carry all tags, and what that depends on; None where no tag is asked for."""
    asked = [tag.strip() for tag in tags.split(",") if tag.strip()]
    if not asked:
        return None, ""
    document = ontology_versions.find_in_force(tenant=sight.tenant)
    if isinstance(document, Mismatch):
        raise ProblemError(_tampered())
    if document is None:
        return [], "none"
    paths = world.list_tagged(sight=sight, prefix=prefix, after=after, document=document, tags=asked)
    return paths, document.digest[:16]


def _tampered() -> Problem:
    detail = "This version of the ontology does not match the ledger. Run manage.py verify_ledger."
    return Problem(code=ProblemCode.TAMPERED, detail=detail)


def missing(why: Missing) -> Problem:
    """The refusal to read a version of the world."""
    match why:
        case Missing.NOT_KEPT:
            detail = "Facts of this version were deleted when their time was over. Read a later version."
            return Problem(code=ProblemCode.WORLD_VERSION_NOT_KEPT, detail=detail)
        case Missing.NOT_NUMBERED:
            detail = "The write is committed but not numbered yet. Repeat the call in a moment."
        case Missing.UNKNOWN:
            detail = "There is no such version of the world. GET /state/versions lists those there are."
    return Problem(code=ProblemCode.WORLD_VERSION_NOT_FOUND, detail=detail)


def _invalid(detail: str) -> NoReturn:
    raise ProblemError(Problem(code=ProblemCode.INVALID_REQUEST, detail=detail))
