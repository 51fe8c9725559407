"""`GET /capabilities`: who offers what, among those that the caller may ask."""

from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from runtime.contracts.capability import CapabilityName
from runtime.contracts.message import Short, Version
from runtime.contracts.message_answers import CapabilitiesAnswer
from runtime.conversations.queries import capability_list
from runtime.core import clock
from runtime.core.api import openapi
from runtime.core.api.responses import reply
from runtime.kernel.capability_matching import Wanted
from runtime.registry.api import auth

MOST = 1_000_000_000_000
router = Router(tags=["Messages"], auth=auth.SessionToken())


@router.get("/capabilities", response=CapabilitiesAnswer, openapi_extra=openapi.describe())
def list_capabilities(
    request: HttpRequest,
    capability_name: Annotated[CapabilityName | None, Query()] = None,
    latency_ms: Annotated[float | None, Query(ge=0, le=MOST)] = None,
    cost_ceiling: Annotated[float | None, Query(ge=0, le=MOST)] = None,
    jurisdiction: Annotated[Short | None, Query()] = None,
    required_schema: Annotated[Short | None, Query()] = None,
    tag: Annotated[Short | None, Query()] = None,
    version: Annotated[Version | None, Query()] = None,
) -> HttpResponse:
    """The providers that the registry names, the cheapest first. What they state of themselves is a claim."""
    at = clock.now()
    wanted = Wanted(
        capability_name=capability_name,
        latency_ms=latency_ms,
        cost_ceiling=cost_ceiling,
        jurisdiction=jurisdiction,
        required_schema=required_schema,
        tag=tag,
        version=version,
    )
    named = capability_list.resolve(agent=auth.session_of(request).agent, wanted=wanted, at=at)
    return reply(CapabilitiesAnswer(capabilities=tuple(capability_list.record_of(n, at=at) for n in named)))
