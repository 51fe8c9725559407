"""Registered versions of workflows, by the name under which a manifest has them: `name@version`."""

from collections.abc import Mapping, Sequence
from typing import Final

from audit.verification.verify import UNREADABLE
from runtime.core import mismatches
from runtime.registry.models import Agent, Workflow
from runtime.registry.queries import stored_documents

MOST_VERSIONS: Final = 200


def list_names(*, tenant: str) -> frozenset[str]:
    """Every `name@version` of the tenant."""
    return frozenset(str(row) for row in Workflow.objects.of(tenant).defer("body"))


def find(*, tenant: str, name: str) -> Workflow | None:
    """The row of a `name@version`."""
    workflow, _, version = name.partition("@")
    return Workflow.objects.of(tenant).filter(workflow=workflow, version=version).first()


def missing(name: str) -> mismatches.Mismatch:
    """What a manifest names, and no row holds."""
    return mismatches.Mismatch(row="workflow.body", row_id=name, recorded=mismatches.NOT_RECORDED, found="")


def list_newest(*, tenant: str) -> Sequence[Workflow]:
    """The newest version of each workflow, by name."""
    found: dict[str, Workflow] = {}
    for row in Workflow.objects.of(tenant).order_by("workflow", "-id"):
        found.setdefault(row.workflow, row)
    return list(found.values())


def list_versions(*, tenant: str, workflow: str) -> Sequence[Workflow]:
    """The versions of a workflow, the newest first; none for a name that is unknown."""
    if "\x00" in workflow:
        return []
    return list(Workflow.objects.of(tenant).filter(workflow=workflow).order_by("-id")[:MOST_VERSIONS])


def list_followers(*, tenant: str) -> Mapping[str, Sequence[str]]:
    """The agents whose active manifest names a workflow, by its `name@version`.

    A manifest that cannot be read grants nothing, so nobody follows by it.
    """
    found: dict[str, list[str]] = {}
    rows = Agent.objects.of(tenant).filter(active_manifest__isnull=False).order_by("agent_id")
    for agent_id, body in rows.values_list("agent_id", "active_manifest__body"):
        try:
            followed = stored_documents.manifest_of(bytes(body)).workflow
        except UNREADABLE:
            continue
        if followed is not None:
            found.setdefault(followed, []).append(agent_id)
    return found
