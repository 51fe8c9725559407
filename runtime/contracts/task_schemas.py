"""Bodies of the calls about tasks. A task is a flow, and its context what its agent keeps with it.

The context is a claim of the agent: no check reads it.
"""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, JsonValue, StringConstraints

from audit import canonical
from runtime.contracts.api_schemas import At, Body, Dfid, Trigger, UserClaim
from runtime.contracts.states import Choice

MAX_CONTEXT_BYTES: Final = 16_384
MAX_EVENT_BYTES: Final = 4_096
# With the first one. Each is read when the task is.
MAX_VERSIONS: Final = 500


class ContextPart(Choice):
    """What a version of a task's context is about: the document, an event or a link."""

    CONTEXT = "CONTEXT"
    EVENT = "EVENT"
    LINK = "LINK"


class LinkTarget(Choice):
    """What a task may be linked to."""

    ARTIFACT = "ARTIFACT"
    FACT = "FACT"
    TASK = "TASK"
    WORLD_VERSION = "WORLD_VERSION"


def _fits_context(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if len(canonical.encode(value)) > MAX_CONTEXT_BYTES:
        raise ValueError(f"must have at most {MAX_CONTEXT_BYTES} bytes")
    return value


def _fits_event(value: JsonValue) -> JsonValue:
    if len(canonical.encode(value)) > MAX_EVENT_BYTES:
        raise ValueError(f"must have at most {MAX_EVENT_BYTES} bytes")
    return value


Context = Annotated[dict[str, JsonValue], AfterValidator(_fits_context)]


class TaskRequest(Body):
    """What started the task, what it belongs to, and the first version of its context."""

    trigger: Trigger | dict[str, JsonValue]
    parent_task_id: Dfid | None = None
    seed_context: Context = Field(default_factory=dict)
    delegated_user_id: UserClaim | None = None


class TaskPatch(Body):
    """A JSON Merge Patch (RFC 7396) of the task, of which only `context` can be changed."""

    context: Context


class TaskEventRequest(Body):
    """An event that the agent adds to its task: a type of its own, and any JSON value."""

    event_type: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$", max_length=64)]
    data: Annotated[JsonValue, AfterValidator(_fits_event)] = None


class TaskLinkRequest(Body):
    """What to link: the digest of an artifact, the path of a fact, a task's id, a version of the world.

    `version` is that of the fact; without it, the current one.
    """

    to: LinkTarget
    ref: Annotated[str, StringConstraints(pattern=r"^[!-~]+$", max_length=200)]
    version: Annotated[int, Field(ge=1, le=canonical.MAX_SAFE_INTEGER)] | None = None


class TaskChanged(Body):
    """A task after a change. `etag` is the header's value, quotes included; `event_id` names an event."""

    task_id: str
    state: str
    context_version: int
    etag: str
    event_id: str | None = None


class TaskEventView(Body):
    """An event as it was added, and which version of the context it made."""

    event_id: str
    context_version: int
    at: At
    event_type: str
    data: JsonValue


class TaskLinkView(Body):
    """A link as it was made, and which version of the context it made."""

    context_version: int
    at: At
    to: str
    ref: str
    version: int | None


class TaskView(Body):
    """A task with its context. `world_version_id` is the version of the world at which it was read.

    Of events and links the newest are shown, at most 100 of each, oldest first.
    """

    task_id: str
    agent_id: str
    state: str
    reason: str | None
    parent_task_id: str | None
    opened_at: At
    context_version: int
    etag: str
    world_version_id: int
    context: dict[str, JsonValue]
    events: tuple[TaskEventView, ...]
    links: tuple[TaskLinkView, ...]
