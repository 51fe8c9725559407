"""Frozen contexts for the page that shows one."""

from uuid import UUID

from runtime.models import Snapshot


def get_snapshot(*, tenant: str, dfid: UUID, context_ref: str) -> Snapshot | None:
    """A context of a flow with the flow and its agent, or None."""
    rows = Snapshot.objects.select_related("flow", "flow__agent")
    return rows.filter(flow=dfid, flow__tenant=tenant, context_ref=context_ref).first()
