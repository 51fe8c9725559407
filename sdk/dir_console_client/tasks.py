"""Calls about tasks: flows in the words of IAE, with a context that the agent keeps. No rule reads it."""

import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from dir_console_client.conversation import Conversation, Talk
from dir_console_client.models import Task, TaskChange, task_change_of, task_of


def open_task(
    console: Conversation,
    /,
    trigger: Any,
    *,
    context: Mapping[str, Any] | None = None,
    parent_task_id: str | None = None,
    key: str | None = None,
) -> Talk[TaskChange]:
    """Open a task with the first version of its context. Its id is a DFID, which all calls about flows take.

    A repeat under the same `key` opens one task.
    """
    body = {"trigger": trigger, "parent_task_id": parent_task_id, "seed_context": dict(context or {})}
    return task_change_of((yield from console.call("POST", "/tasks", body, key=key or str(uuid.uuid4()))))


def task(
    console: Conversation,
    /,
    task_id: str,
    *,
    at_version: int | str | None = None,
    at_context_version: int | None = None,
) -> Talk[Task]:
    """A task as it is now, as it was at a version of the world, or at a version of its own context."""
    asked = {"at_version": at_version, "at_context_version": at_context_version}
    named = urlencode({name: value for name, value in asked.items() if value is not None})
    return task_of((yield from console.call("GET", f"/tasks/{task_id}{'?' if named else ''}{named}")))


def change_task(
    console: Conversation, /, task_id: str, patch: Mapping[str, Any], *, if_match: str | None = None
) -> Talk[TaskChange]:
    """Merge into the context of a task (JSON Merge Patch: None removes a member).

    With `if_match`, an `etag`, only while the context is still that one; else Refused with status 412.
    """
    body = {"context": dict(patch)}
    changed = console.call("PATCH", f"/tasks/{task_id}", body, key=str(uuid.uuid4()), if_match=if_match)
    return task_change_of((yield from changed))


def add_task_event(
    console: Conversation, /, task_id: str, event_type: str, data: Any = None, *, if_match: str | None = None
) -> Talk[TaskChange]:
    """Add an event of the agent's own to a task."""
    body = {"event_type": event_type, "data": data}
    added = console.call("POST", f"/tasks/{task_id}/events", body, key=str(uuid.uuid4()), if_match=if_match)
    return task_change_of((yield from added))


def link_task(
    console: Conversation,
    /,
    task_id: str,
    to: str,
    ref: str,
    *,
    version: int | None = None,
    if_match: str | None = None,
) -> Talk[TaskChange]:
    """Link a task to an ARTIFACT, a FACT, a TASK or a WORLD_VERSION; `version` is that of a fact."""
    body = {"to": to, "ref": ref, "version": version}
    linked = console.call("POST", f"/tasks/{task_id}/links", body, key=str(uuid.uuid4()), if_match=if_match)
    return task_change_of((yield from linked))
