"""`/tasks`: flows in the words of IAE, with the context that the agent keeps."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import WithJsonSchema

from runtime.contracts import api_schemas, state_schemas, task_schemas
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.api import body_parsing, headers, openapi
from runtime.core.api.responses import reply
from runtime.flows.models import Flow
from runtime.flows.services import flows
from runtime.flows.services.flows import FlowClaims
from runtime.kernel import ijson
from runtime.registry.api import auth
from runtime.registry.models import Key
from runtime.state.api import world_calls
from runtime.state.queries import tasks, world
from runtime.state.queries.tasks import TaskContext, Unreadable
from runtime.state.queries.world import Missing
from runtime.state.services import tasks as services
from runtime.state.services.tasks import TaskCall

router = Router(tags=["Tasks"], auth=auth.SessionToken())
_MERGE_PATCH: Final = "application/merge-patch+json"
_CHANGE_HEADERS = [openapi.IF_MATCH, openapi.IDEMPOTENCY_KEY]


@router.post(
    "/tasks",
    response={201: task_schemas.TaskChanged},
    openapi_extra=openapi.describe(
        body=task_schemas.TaskRequest, headers=[openapi.IDEMPOTENCY_KEY, openapi.TRACEPARENT]
    ),
)
def open_task(request: HttpRequest) -> HttpResponse:
    """Open a task: a flow as `POST /flows` opens one, by the same rules, with a context that the agent keeps.

    Its `task_id` is the flow's DFID, and all calls about flows take it.
    """
    body, checked = body_parsing.read(request, task_schemas.TaskRequest)
    session = auth.session_of(request)
    opened = services.open_task(
        agent=session.agent,
        asked=body,
        trigger=checked.value["trigger"],
        seed=checked.value.get("seed_context", {}),
        traceparent=headers.traceparent(request),
        claims=FlowClaims.of(session, delegated_user_id=body.delegated_user_id),
        repeatable=headers.repeatable(request, checked),
    )
    return _tagged(opened, status=HTTPStatus.CREATED)


@router.get(
    "/tasks/{uuid:task_id}",
    auth=auth.StateReader(),
    response=task_schemas.TaskView,
    openapi_extra=openapi.describe(),
)
def read_task(
    request: HttpRequest,
    task_id: UUID,
    at_version: Annotated[
        str | None,
        Query(max_length=26),
        WithJsonSchema({"type": "string", "pattern": state_schemas.WORLD_VERSION}),
    ] = None,
    at_context_version: Annotated[int | None, Query(ge=1, le=task_schemas.MAX_VERSIONS)] = None,
) -> HttpResponse:
    """A task with its context, as it is now; for its agent, and for auditors.

    With `at_version`, a version of the world, the task as it was when that was made, with its state then.
    With `at_context_version` the context as it was at one of its own versions.
    """
    flow = _flow_of(request, task_id)
    if at_version is not None and at_context_version is not None:
        detail = "Send at_version or at_context_version, and not both."
        raise ProblemError(Problem(code=ProblemCode.INVALID_REQUEST, detail=detail))
    if at_version is not None:
        seen = tasks.read_at(flow, version=_world_version(flow, at_version))
    elif at_context_version is not None:
        seen = tasks.read_at_context(flow, version=at_context_version)
    else:
        seen = tasks.read(flow)
    if isinstance(seen, Unreadable):
        raise ProblemError(services.unreadable(seen, dfid=str(flow.dfid)))
    response = reply(_view(flow, seen))
    response["ETag"] = api_schemas.etag_of_version(seen.version)
    response["Cache-Control"] = "private, no-cache"
    return response


@router.patch(
    "/tasks/{uuid:task_id}",
    response=task_schemas.TaskChanged,
    openapi_extra=openapi.describe(body=task_schemas.TaskPatch, headers=_CHANGE_HEADERS),
)
def change_task(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """Merge into the context of a task, as JSON Merge Patch (RFC 7396) has it: `{"context": {...}}`.

    With If-Match only while the context is still at that etag, else 412. The body may be
    `application/merge-patch+json` or `application/json`.
    """
    checked = body_parsing.read_json(request, media_types=(_MERGE_PATCH, "application/json"))
    body_parsing.check(checked, task_schemas.TaskPatch)
    return _tagged(services.change(_call(request, task_id, checked), patch=checked.value["context"]))


@router.post(
    "/tasks/{uuid:task_id}/events",
    response={201: task_schemas.TaskChanged},
    openapi_extra=openapi.describe(body=task_schemas.TaskEventRequest, headers=_CHANGE_HEADERS),
)
def add_event(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """Add an event to a task. It is the agent's own: nothing follows from it."""
    body, checked = body_parsing.read(request, task_schemas.TaskEventRequest)
    return _tagged(
        services.add_event(
            _call(request, task_id, checked), event_type=body.event_type, data=checked.value.get("data")
        ),
        status=HTTPStatus.CREATED,
    )


@router.post(
    "/tasks/{uuid:task_id}/links",
    response={201: task_schemas.TaskChanged},
    openapi_extra=openapi.describe(body=task_schemas.TaskLinkRequest, headers=_CHANGE_HEADERS),
)
def add_link(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """Link an artifact or another task of the agent, a fact that it may read, or a version of the world."""
    body, checked = body_parsing.read(request, task_schemas.TaskLinkRequest)
    return _tagged(services.add_link(_call(request, task_id, checked), asked=body), status=HTTPStatus.CREATED)


def _flow_of(request: HttpRequest, task_id: UUID) -> Flow:
    reader = auth.state_reader_of(request)
    flow = None
    if not isinstance(reader, Key):
        flow = tasks.get_flow(tenant=reader.agent.tenant, dfid=task_id, agent_pk=reader.agent.pk)
    elif reader.auditor:
        flow = tasks.get_flow(tenant=reader.tenant, dfid=task_id, agent_pk=None)
    if flow is None:
        raise ProblemError(flows.not_found())
    return flow


def _world_version(flow: Flow, named: str) -> int:
    if not state_schemas.names_world_version(named):
        detail = "at_version is the number of a version of the world, or a write_id."
        raise ProblemError(Problem(code=ProblemCode.INVALID_REQUEST, detail=detail))
    version = world.find_version(tenant=flow.tenant, named=named)
    if isinstance(version, Missing):
        raise ProblemError(world_calls.missing(version))
    return version


def _view(flow: Flow, seen: TaskContext) -> task_schemas.TaskView:
    return task_schemas.TaskView(
        task_id=str(flow.dfid),
        agent_id=flow.agent.agent_id,
        state=seen.state,
        reason=seen.reason or None,
        parent_task_id=str(flow.parent_id) if flow.parent_id else None,
        opened_at=flow.opened_at,
        context_version=seen.version,
        etag=api_schemas.etag_of_version(seen.version),
        world_version_id=seen.world_version,
        context=seen.document,
        events=tuple(
            task_schemas.TaskEventView(
                event_id=event.event_id,
                context_version=event.version,
                at=event.at,
                event_type=event.words["event_type"],
                data=event.words["data"],
            )
            for event in seen.events
        ),
        links=tuple(
            task_schemas.TaskLinkView(
                context_version=link.version, at=link.at, to=link.to, ref=link.ref, version=link.fact_version
            )
            for link in seen.links
        ),
    )


def _call(request: HttpRequest, task_id: UUID, checked: ijson.Checked) -> TaskCall:
    return TaskCall(
        agent=auth.session_of(request).agent,
        dfid=task_id,
        expected_versions=_expected(request),
        repeatable=headers.repeatable(request, checked),
    )


def _expected(request: HttpRequest) -> frozenset[int] | None:
    """The versions that If-Match asks for; `*` is any, for a task always has a context."""
    return None if headers.matches_any(request) else headers.matched_versions(request)


def _tagged(changed: task_schemas.TaskChanged | Problem, *, status: int = HTTPStatus.OK) -> HttpResponse:
    response = reply(changed, status=status)
    if not isinstance(changed, Problem):
        response["ETag"] = changed.etag
    return response
