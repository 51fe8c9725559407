"""`/memory/{scope}/{key}`: what an agent remembers for later contexts, within its manifest's grants."""

from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Path, Router

from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock
from runtime.core.api import body_parsing, openapi
from runtime.core.api.responses import reply
from runtime.registry.api import auth
from runtime.state.queries import memory_layers
from runtime.state.services import memory

router = Router(tags=["Memory"], auth=auth.SessionToken())
NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$"
Scope = Annotated[str, Path(pattern=NAME)]
Key = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]


@router.put(
    "/memory/{scope}/{key}",
    response=api_schemas.MemoryAnswer,
    openapi_extra=openapi.describe(body=api_schemas.MemoryRequest),
)
def write_memory(request: HttpRequest, scope: Scope, key: Key) -> HttpResponse:
    """Write the next version under a key; from a source that the runtime does not know, into quarantine."""
    body, checked = body_parsing.read(request, api_schemas.MemoryRequest)
    return reply(
        memory.write(
            agent=auth.session_of(request).agent,
            scope=scope,
            key=key,
            value=checked.value["value"],
            source=body.source,
            ttl_s=body.ttl_s,
        )
    )


@router.get("/memory/{scope}/{key}", response=api_schemas.MemoryView, openapi_extra=openapi.describe())
def read_memory(request: HttpRequest, scope: Scope, key: Key) -> HttpResponse:
    """The active value of a key, with its source and writer."""
    agent = auth.session_of(request).agent
    if scope not in memory_layers.readable(agent):
        detail = "The active manifest does not grant this agent read access to this scope."
        raise ProblemError(Problem(code=ProblemCode.UNAUTHORIZED, detail=detail))
    row = memory_layers.get_item(tenant=agent.tenant, scope=scope, key=key, at=clock.now())
    if row is None:
        detail = "This key has no active value: it was not written, has expired, or is in quarantine."
        raise ProblemError(Problem(code=ProblemCode.NOT_FOUND, detail=detail))
    return reply(api_schemas.MemoryView.model_validate(memory_layers.remembered(row).model_dump()))
