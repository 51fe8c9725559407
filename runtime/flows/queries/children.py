"""Parents and children among flows."""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import QuerySet

from runtime.contracts.states import ENDED
from runtime.flows.models import Flow

# What an answer and a page show; a long-lived parent may have had more.
SHOWN = 200


def open_below(parent_ids: Sequence[UUID]) -> QuerySet[Flow]:
    """The open children of the flows, in the order of opening."""
    return Flow.objects.filter(parent__in=parent_ids).exclude(state__in=ENDED).order_by("dfid")


def ids_of(flow: Flow) -> tuple[str, ...]:
    """The newest children of a flow, oldest first."""
    if not flow.children_opened:
        return ()
    rows = Flow.objects.filter(parent=flow).order_by("-dfid").values_list("dfid", flat=True)[:SHOWN]
    return tuple(reversed([str(dfid) for dfid in rows]))


def list_children(flow: Flow) -> list[Flow]:
    """The newest children of a flow with their agents, oldest first."""
    if not flow.children_opened:
        return []
    return list(reversed(Flow.objects.filter(parent=flow).select_related("agent").order_by("-dfid")[:SHOWN]))


def are_ancestors_open(flow: Flow) -> bool:
    """Whether the flow itself and every flow above it are open. A query for each level: there are few."""
    while flow.state not in ENDED:
        if flow.parent_id is None:
            return True
        flow = Flow.objects.get(pk=flow.parent_id)
    return False


def count_open(*, parent: Flow) -> int:
    """How many children of a flow are open."""
    return open_below([parent.pk]).count()


def count_open_family(*, root_id: UUID) -> int:
    """How many flows below a root are open, at any depth."""
    return Flow.objects.filter(root=root_id).exclude(state__in=ENDED).count()
