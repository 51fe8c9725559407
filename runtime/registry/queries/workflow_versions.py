"""Registered versions of workflows, by the name under which a manifest has them: `name@version`."""

from functools import lru_cache

from audit import actors, cells, queries
from audit.events import Kind
from runtime.contracts.workflow import WorkflowDocument
from runtime.core import mismatches
from runtime.registry.models import Workflow


def list_names(*, tenant: str) -> frozenset[str]:
    """Every `name@version` of the tenant."""
    return frozenset(str(row) for row in Workflow.objects.of(tenant).defer("body"))


def find(*, tenant: str, name: str) -> Workflow | None:
    """The row of a `name@version`."""
    workflow, _, version = name.partition("@")
    return Workflow.objects.of(tenant).filter(workflow=workflow, version=version).first()


@lru_cache(maxsize=256)
def document_of(body: bytes) -> WorkflowDocument:
    """The workflow of its stored bytes, read once."""
    return WorkflowDocument.from_bytes(body)


def compare(row: Workflow) -> mismatches.Mismatch | None:
    """Whether a workflow is the one that was registered."""
    recorded = [
        said["digest"]
        for _, said in queries.list_payloads(
            tenant=row.tenant, stream=actors.SYSTEM, kinds=(Kind.WORKFLOW_REGISTERED,)
        )
        if said["workflow"] == row.workflow and said["version"] == row.version
    ]
    return mismatches.compare_digests(
        "workflow.body",
        str(row),
        recorded[0] if recorded else mismatches.NOT_RECORDED,
        cells.digest_of(row.body),
    )


def missing(name: str) -> mismatches.Mismatch:
    """What a manifest names, and no row holds."""
    return mismatches.Mismatch(row="workflow.body", row_id=name, recorded=mismatches.NOT_RECORDED, found="")
