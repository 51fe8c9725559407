"""`/memory/{scope}/{key}`: what an agent remembers for later contexts, within its manifest's grants."""

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query, Router

from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem, ProblemError
from runtime.core.api import body_parsing, openapi
from runtime.core.api.responses import reply
from runtime.registry.api import auth
from runtime.state.queries import memory_layers
from runtime.state.services import memory, memory_reads

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
def read_memory(
    request: HttpRequest,
    scope: Scope,
    key: Key,
    dfid: Annotated[
        UUID | None, Query(description="The flow that it is read for: the read is recorded there.")
    ] = None,
) -> HttpResponse:
    """The active value of a key, with its source and writer. Each read, also a refused one, is recorded."""
    agent = auth.session_of(request).agent
    found = memory_reads.read(agent=agent, scope=scope, key=key, dfid=dfid)
    if isinstance(found, Problem):
        raise ProblemError(found)
    return reply(api_schemas.MemoryView.model_validate(memory_layers.remembered(found).model_dump()))
