"""`GET /schema/policy...`: the schemas of granted kinds, by version, with entity tags."""

from django.http import HttpRequest, HttpResponse
from ninja import Router

from audit import canonical
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.api import openapi
from runtime.core.api.responses import tagged
from runtime.registry.api import auth
from runtime.registry.queries import granted_kinds

router = Router(tags=["Schemas"], auth=auth.SessionToken())
TAGGED = openapi.describe(headers=[openapi.IF_NONE_MATCH], not_modified=True)


@router.get("/schema/policy", response=api_schemas.SchemaList, openapi_extra=TAGGED)
def list_schemas(request: HttpRequest) -> HttpResponse:
    """The active version of every policy kind that the agent's manifest grants."""
    agent = auth.session_of(request).agent
    rows = granted_kinds.list_granted(agent)
    answer = api_schemas.SchemaList(
        policy_kinds=tuple(
            api_schemas.SchemaEntry(
                kind=row.kind,
                version=row.version,
                title=row.title,
                schema_url=api_schemas.schema_url(row.kind, row.version),
            )
            for row in rows
        )
    )
    digest = canonical.digest(canonical.encode([[row.kind, row.version, row.digest] for row in rows]))
    return tagged(request, answer, etag=f'"{digest}"')


@router.get("/schema/policy/{kind}/latest", response=api_schemas.SchemaDocument, openapi_extra=TAGGED)
def get_latest_schema(request: HttpRequest, kind: str) -> HttpResponse:
    """The schemas of the active version."""
    return _document(request, kind, None)


@router.get("/schema/policy/{kind}/{version}", response=api_schemas.SchemaDocument, openapi_extra=TAGGED)
def get_schema(request: HttpRequest, kind: str, version: str) -> HttpResponse:
    """The schemas of one version; a version never changes."""
    return _document(request, kind, version)


def _document(request: HttpRequest, kind: str, version: str | None) -> HttpResponse:
    agent = auth.session_of(request).agent
    active = granted_kinds.get_version(tenant=agent.tenant, kind=kind, version=None)
    row = (
        active
        if version is None
        else granted_kinds.get_version(tenant=agent.tenant, kind=kind, version=version)
    )
    if active is None and row is None:
        raise ProblemError(_problem(ProblemCode.CAPABILITY_NOT_FOUND, "No active policy kind has this name."))
    if kind not in granted_kinds.granted(agent):
        raise ProblemError(
            _problem(ProblemCode.UNAUTHORIZED, "The active manifest does not grant this policy kind.")
        )
    if row is None:
        supported = None if active is None else active.version
        detail = "The policy kind has no such version. Use the latest."
        raise ProblemError(
            Problem(status=404, code=ProblemCode.VERSION_UNSUPPORTED, detail=detail, supported=supported)
        )
    contract = granted_kinds.contract_of(row)
    answer = api_schemas.SchemaDocument(
        kind=row.kind,
        version=row.version,
        params_schema=contract.params_schema,
        constraints_schema=contract.constraints_schema,
    )
    return tagged(request, answer, etag=f'"{row.digest}"')


def _problem(code: ProblemCode, detail: str) -> Problem:
    return Problem(code=code, detail=f"{detail} GET /api/v1/schema/policy lists the available kinds.")
