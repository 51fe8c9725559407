"""Frozen contexts for the page that shows one."""

from typing import Final
from uuid import UUID

from audit import canonical, queries
from audit.events import Kind
from audit.verification.verify import UNREADABLE
from runtime.contexts.models import Snapshot
from runtime.contracts.states import ENDED
from runtime.core import mismatches

MOST_READ: Final = 200


def get_snapshot(*, tenant: str, dfid: UUID, context_ref: str) -> Snapshot | None:
    """A context of a flow with the flow and its agent, or None."""
    rows = Snapshot.objects.select_related("flow", "flow__agent")
    return rows.filter(flow=dfid, flow__tenant=tenant, context_ref=context_ref).first()


def list_flows_of(*, tenant: str, low: str, high: str, size: int) -> list[tuple[str, UUID]]:
    """References of contexts from `low` to `high`, each with a flow whose agent was given it."""
    rows = Snapshot.objects.filter(context_ref__gte=low, context_ref__lte=high).order_by("context_ref")
    # The tenant is compared here: a database that was asked would begin with all flows of the tenant.
    found = rows.values_list("context_ref", "flow_id", "flow__tenant")[:size]
    return [(ref, dfid) for ref, dfid, whose in found if whose == tenant]


def compare_recorded(row: Snapshot) -> mismatches.Mismatch | None:
    """Whether a context is the one that was given to its agent, in one query."""
    ref, kinds = row.context_ref, (Kind.CONTEXT_COMPILED,)
    told = queries.list_payloads(tenant=row.flow.tenant, stream=str(row.flow_id), kinds=kinds)
    recorded = ref if any(said["context_ref"] == ref for _, said in told) else mismatches.NOT_RECORDED
    return mismatches.compare("snapshot.body", ref, recorded, row.body)


def list_naming(*, tenant: str, path: str) -> list[tuple[Snapshot, int]]:
    """The contexts of open flows that show a fact, each with its version then, the newest first.

    Among the newest MOST_READ contexts of such flows; one that cannot be read is left out.
    """
    rows = Snapshot.objects.filter(flow__tenant=tenant).exclude(flow__state__in=ENDED)
    found = []
    for row in rows.select_related("flow", "flow__agent").order_by("-created_at", "-pk")[:MOST_READ]:
        try:
            version = canonical.decode(bytes(row.body))["versions"].get(path)
        except UNREADABLE:
            continue
        if isinstance(version, int):
            found.append((row, version))
    return found
