"""Tasks: flows in the words of IAE, with a context that the agent keeps. No check reads it.

A task is opened as a flow is, and ends as one. Its context has versions, each an entry of the flow, which
commits to the words: so it is proved, kept and erased with the flow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import UUID

from audit import actors, canonical, events, ledger
from audit.payload_keys import PayloadClass
from runtime.contracts import api_schemas, state_schemas, task_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.task_schemas import ContextPart, LinkTarget
from runtime.core import clock, ids, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.flows.models import Flow
from runtime.flows.services import flows
from runtime.flows.services.flow_transaction import Journal
from runtime.flows.services.flows import FlowClaims
from runtime.kernel import merge_patch
from runtime.registry.models import Agent
from runtime.state.models import Artifact
from runtime.state.queries import sight, tasks, visible_facts, world
from runtime.state.queries.tasks import TaskContext, Unreadable
from runtime.state.queries.world import Missing

_ENDED: Final = ", and the context of the task no longer changes."


@dataclass(frozen=True, kw_only=True)
class TaskCall:
    """Whose call it is, about which task, and what it asks for beside the change.

    `expected_versions` are those of the context that may be changed; None: any.
    """

    agent: Agent
    dfid: UUID
    expected_versions: frozenset[int] | None = None
    repeatable: IdempotentRequest | None = None


def open_task(
    *,
    agent: Agent,
    asked: task_schemas.TaskRequest,
    trigger: Any,
    seed: dict[str, Any],
    traceparent: str,
    claims: FlowClaims,
    repeatable: IdempotentRequest | None,
) -> task_schemas.TaskChanged | Problem:
    """Open a flow, and with `seed` the first version of its context. Refusals are those of `open_flow`."""
    opened = flows.open_flow(
        agent=agent,
        trigger=trigger,
        traceparent=traceparent,
        parent_dfid=None if asked.parent_task_id is None else UUID(asked.parent_task_id),
        claims=claims,
        repeatable=repeatable,
        also_begin=partial(_begin_context, seed) if seed else flows.begin_no_more,
    )
    if isinstance(opened, Problem):
        return opened
    return _changed(opened.dfid, opened.state, tasks.FIRST_VERSION)


def change(call: TaskCall, *, patch: dict[str, Any]) -> task_schemas.TaskChanged | Problem:
    """Merge `patch` into the context's document, as JSON Merge Patch (RFC 7396) has it.

    404 for a task that is not the agent's, 409 FLOW_NOT_OPEN once it has ended, 412 when the context is at
    none of `expected_versions`, 422 for a document over MAX_CONTEXT_BYTES.
    """

    def make(flow: Flow, before: TaskContext) -> events.TaskContextChanged | Problem:
        body = canonical.encode(merge_patch.apply(before.document, patch))
        if len(body) > task_schemas.MAX_CONTEXT_BYTES:
            most = f"{task_schemas.MAX_CONTEXT_BYTES:,} bytes"
            detail = f"A task's context is at most {most} of JSON. Keep less, or link an artifact."
            return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail, dfid=str(flow.dfid))
        return events.TaskContextChanged(
            version=before.version + 1,
            part=ContextPart.CONTEXT.value,
            words_commitment=_commit(flow, body),
        )

    return _append(call, make)


def add_event(call: TaskCall, *, event_type: str, data: Any) -> task_schemas.TaskChanged | Problem:
    """Add an event to a task. Refusals are those of `change`."""

    def make(flow: Flow, before: TaskContext) -> events.TaskContextChanged:
        words = canonical.encode({"event_type": event_type, "data": data})
        return events.TaskContextChanged(
            version=before.version + 1,
            part=ContextPart.EVENT.value,
            words_commitment=_commit(flow, words),
            event_id=ids.new_ulid(),
        )

    return _append(call, make)


def add_link(call: TaskCall, *, asked: task_schemas.TaskLinkRequest) -> task_schemas.TaskChanged | Problem:
    """Link an artifact or task of the agent, a fact that it may read, or a version of the world.

    404 for what the agent may not see or is not there; other refusals are those of `change`.
    """

    def make(flow: Flow, before: TaskContext) -> events.TaskContextChanged | Problem:
        version = _find_linked(call.agent, asked)
        if isinstance(version, Problem):
            return version
        return events.TaskContextChanged(
            version=before.version + 1,
            part=ContextPart.LINK.value,
            link_to=asked.to.value,
            link_ref=asked.ref,
            link_version=version,
        )

    return _append(call, make)


def unreadable(why: Unreadable, *, dfid: str | None = None) -> Problem:
    """The refusal to show a task."""
    match why:
        case Unreadable.TAMPERED:
            code = ProblemCode.TAMPERED
            detail = "The task's context does not match the ledger. Ask an operator to run verify_ledger."
        case Unreadable.ERASED:
            code, detail = ProblemCode.FLOW_ERASED, "The words of this task were erased."
        case Unreadable.NOT_THERE:
            code = ProblemCode.FLOW_NOT_FOUND
            detail = "The task had no such version, or was not there at that version of the world."
        case Unreadable.NOT_PLACED:
            code = ProblemCode.WORLD_VERSION_NOT_KEPT
            detail = "No entry tells when this version of the world was made. Read a later version."
    return Problem(code=code, detail=detail, dfid=dfid)


@transactions.retried
def _append(
    call: TaskCall, make: Callable[[Flow, TaskContext], events.TaskContextChanged | Problem]
) -> task_schemas.TaskChanged | Problem:
    flow = flows.lock_for_call(
        agent=call.agent, dfid=call.dfid, call=call.repeatable, makes="change", once_ended=_ENDED
    )
    if isinstance(flow, bytes):
        return task_schemas.TaskChanged.model_validate_json(flow)
    if isinstance(flow, Problem):
        return flow
    dfid = str(flow.dfid)
    before = _changeable(flow, call)
    made = before if isinstance(before, Problem) else make(flow, before)
    if isinstance(made, Problem):
        return made
    journal = Journal(flow=flow, actor=actors.agent(call.agent.agent_id), at=clock.now())
    journal.add(made)
    changed = _changed(dfid, str(flow.state), made.version, event_id=made.event_id)
    if call.repeatable is not None:
        body = canonical.encode(api_schemas.plain(changed))
        journal.keep_answer(agent_pk=call.agent.pk, call=call.repeatable, body=body)
    journal.write()
    return changed


def _changeable(flow: Flow, call: TaskCall) -> TaskContext | Problem:
    """The context that a call changes, or why it may not."""
    dfid = str(flow.dfid)
    before = tasks.read_document(flow)
    if isinstance(before, Unreadable):
        return unreadable(before, dfid=dfid)
    if call.expected_versions is not None and before.version not in call.expected_versions:
        detail = f"The context is now at version {before.version}. Read it again and retry with its ETag."
        return Problem(code=ProblemCode.VERSION_MISMATCH, detail=detail, dfid=dfid)
    if before.version >= task_schemas.MAX_VERSIONS:
        detail = f"A task's context has at most {task_schemas.MAX_VERSIONS} versions. Open another task."
        return Problem(code=ProblemCode.TOO_MANY_TASK_CHANGES, detail=detail, dfid=dfid)
    return before


def _begin_context(seed: dict[str, Any], journal: Journal) -> None:
    journal.add(
        events.TaskContextChanged(
            version=tasks.FIRST_VERSION,
            part=ContextPart.CONTEXT.value,
            words_commitment=_commit(journal.flow, canonical.encode(seed)),
        )
    )


def _commit(flow: Flow, body: bytes) -> str:
    return ledger.commit_payload(tenant=flow.tenant, data_class=PayloadClass.PARAMETERS, body=body)


def _find_linked(agent: Agent, asked: task_schemas.TaskLinkRequest) -> int | Problem | None:
    """The version of the fact that is linked, None for anything else that the agent may link."""
    match asked.to:
        case LinkTarget.FACT:
            own = sight.of_agent(agent)
            row = (
                visible_facts.get_fact(tenant=agent.tenant, path=asked.ref, at_version=asked.version)
                if own.covers(asked.ref)
                else None
            )
            if row is not None:
                return row.version
            detail = "The agent's manifest subscribes to no fact of this path, or it has no such version."
            return Problem(code=ProblemCode.FACT_NOT_FOUND, detail=detail)
        case LinkTarget.WORLD_VERSION:
            is_there = state_schemas.names_world_version(asked.ref) and not isinstance(
                world.find_version(tenant=agent.tenant, named=asked.ref), Missing
            )
        case LinkTarget.ARTIFACT:
            digest = asked.ref.removeprefix("sha256:")
            is_there = Artifact.objects.filter(agent=agent, digest=digest).exists()
        case LinkTarget.TASK:
            is_there = _is_own_task(agent, asked.ref)
    if is_there:
        return None
    detail = "The agent has nothing of this kind with this ref to link."
    return Problem(code=ProblemCode.NOT_FOUND, detail=detail)


def _is_own_task(agent: Agent, ref: str) -> bool:
    try:
        dfid = UUID(ref)
    except ValueError:
        return False
    return tasks.get_flow(tenant=agent.tenant, dfid=dfid, agent_pk=agent.pk) is not None


def _changed(dfid: str, state: str, version: int, *, event_id: str | None = None) -> task_schemas.TaskChanged:
    return task_schemas.TaskChanged(
        task_id=dfid,
        state=state,
        context_version=version,
        etag=api_schemas.etag_of_version(version),
        event_id=event_id,
    )
