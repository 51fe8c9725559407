"""Where a flow stands in the workflow that it follows."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from audit import canonical, queries, statements
from audit.events import Kind
from runtime.contracts import api_schemas
from runtime.contracts.workflow import WorkflowDocument, WorkflowFold
from runtime.core import mismatches
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Flow
from runtime.kernel.workflows import steps
from runtime.registry.models import Agent, Workflow
from runtime.registry.queries import granted_kinds, recorded_versions, stored_documents, workflow_versions
from runtime.workflows.models import WorkflowPosition


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The workflow of a flow and the fold over its steps; `row` is None before the first step.

    With a `mismatch` the workflow is not the one that was registered, and nothing may rely on it.
    """

    workflow: Workflow
    document: WorkflowDocument
    fold: WorkflowFold
    row: WorkflowPosition | None


def find(flow: Flow, agent: Agent) -> Standing | Mismatch | None:
    """Where the flow stands; None where neither it nor its agent's active manifest names a workflow.

    A flow keeps the version that it began with. A mismatch is a workflow that is not as it was registered, or
    a fold that is not as the last step left it.
    """
    row = None if flow.is_new else _OF_FLOW.first(dfid=flow.pk)
    if row is not None and not bytes(row.fold):
        return None  # its words were erased: it has ended
    if row is not None:
        workflow = row.workflow
    else:
        manifest = granted_kinds.manifest_of(agent)
        if manifest is None or manifest.workflow is None:
            return None
        named = workflow_versions.find(tenant=flow.tenant, name=manifest.workflow)
        if named is None:
            return workflow_versions.missing(manifest.workflow)
        workflow = named
    mismatch = recorded_versions.compare_workflow(workflow) or (None if row is None else compare(row))
    if mismatch is not None:
        return mismatch
    document = stored_documents.workflow_of(bytes(workflow.body))
    fold = steps.begin(document) if row is None else fold_of(row)
    return Standing(workflow=workflow, document=document, fold=fold, row=row)


def _of_flow(*, dfid: UUID) -> QuerySet[WorkflowPosition]:
    return WorkflowPosition.objects.select_related("workflow").filter(flow=dfid)


_OF_FLOW: Final = statements.Read(_of_flow)


# Their entries hold the commitment to the fold that they left.
_MOVES: Final = (Kind.STEP_TAKEN, Kind.FLOW_CONTINUED)


def compare(row: WorkflowPosition) -> Mismatch | None:
    """Whether the fold is as the last step or person left it, or before the first as its workflow begins."""
    tenant = row.workflow.tenant
    last = queries.last_payload(tenant=tenant, stream=str(row.flow_id), kinds=_MOVES)
    if last is None and is_at_start(row):
        return None
    return mismatches.compare_committed(
        "workflowposition.fold",
        str(row.flow_id),
        tenant=tenant,
        commitment=None if last is None else last["position_commitment"],
        body=row.fold,
    )


def fold_of(row: WorkflowPosition) -> WorkflowFold:
    """The fold of its two stored parts."""
    stored = canonical.decode(bytes(row.fold))
    stored["permits"] = canonical.decode(bytes(row.permits))
    return WorkflowFold.model_validate_json(canonical.encode(stored))


def next_of(fold: WorkflowFold) -> api_schemas.NextStep | None:
    """What a router demands, as agents read it."""
    return None if fold.pending is None else api_schemas.NextStep(**fold.pending.model_dump())


def view(flow: Flow, agent: Agent) -> api_schemas.FlowPosition | None:
    """Where a flow stands, as its agent reads it; None where it follows nothing that can be relied on."""
    found = find(flow, agent)
    if not isinstance(found, Standing):
        return None
    fold = found.fold
    return api_schemas.FlowPosition(position=fold.position, next=next_of(fold), reliability=fold.reliability)


def list_bodies(flows: Collection[Flow]) -> dict[UUID, bytes]:
    """The workflows that these flows began with, by flow; without those that are not as registered.

    A flow that was read with its workflow is not asked for again.
    """
    unread = [flow.pk for flow in flows if not Flow.workflow_position.related.is_cached(flow)]
    read = [getattr(flow, "workflow_position", None) for flow in flows if flow.pk not in unread]
    return {
        row.flow_id: bytes(row.workflow.body)
        for row in (*filter(None, read), *(_OF_FLOWS.rows(flows=unread) if unread else ()))
        if recorded_versions.compare_workflow(row.workflow) is None
    }


def _of_flows(*, flows: list[UUID]) -> QuerySet[WorkflowPosition]:
    return WorkflowPosition.objects.select_related("workflow").filter(flow__dfid__in=flows)


_OF_FLOWS: Final = statements.Read(_of_flows)


def is_at_start(row: WorkflowPosition) -> bool:
    """Whether a flow that took no step stands where its workflow begins, or was erased."""
    begun = steps.begin(stored_documents.workflow_of(bytes(row.workflow.body))).model_dump(mode="json")
    del begun["permits"]
    return bytes(row.fold) in {b"", canonical.encode(begun)}
