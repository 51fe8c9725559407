"""Flows by every key that an auditor may hold, newest first; each key is answered by an index."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from runtime.core import id_search
from runtime.flows.models import TRACE_ID, Flow, Proposal, Verdict
from runtime.flows.queries import activity
from runtime.registry.models import Agent
from runtime.resources.models import Reservation, Resource

# A flow's id is made in the request that opens it, so its time is about that of the row.
_AROUND: Final = timedelta(hours=1)
_DAWN: Final = datetime.fromisoformat("1970-01-02T00:00:00+00:00")
_DUSK: Final = datetime.fromisoformat("9000-01-01T00:00:00+00:00")


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowKeys:
    """What is asked; empty fields ask nothing. `since` is included, `until` is not.

    `dfids` is None where any flow will do; `part` is any part of an id (`id_search`).
    """

    dfids: frozenset[UUID] | None = None
    part: str = ""
    agent: str = ""
    kind: str = ""
    state: str = ""
    reason: str = ""
    resource: str = ""
    since: datetime | None = None
    until: datetime | None = None


def search(*, tenant: str, wanted: FlowKeys, before: UUID | None, size: int) -> Sequence[Flow]:
    """The newest flows that match, or those opened before the flow `before`."""
    asked = _asked(tenant, wanted, before)
    if asked is None:
        return []
    rows = Flow.objects.of(tenant).filter(**asked)
    if wanted.part:
        rows = rows.filter(id_search.having(Flow.objects.of(tenant), wanted.part))
    if wanted.resource:
        rows = rows.filter(pk__in=_of_resource(tenant, wanted, rows, before, size))
    return list(rows.select_related("agent").order_by("-pk")[:size])


def _asked(tenant: str, wanted: FlowKeys, before: UUID | None) -> dict[str, Any] | None:
    """The conditions; None where one of them names what does not exist."""
    asked: dict[str, Any] = {
        "policy_kind": wanted.kind.upper(),
        "state": wanted.state,
        "reason": wanted.reason.upper(),
        "opened_at__gte": wanted.since,
        "opened_at__lt": wanted.until,
        "pk__lt": before,
    }
    if wanted.agent:
        # By its key, which the index of flows holds.
        agents = Agent.objects.of(tenant).filter(agent_id=wanted.agent)
        asked["agent_id"] = agents.values_list("pk", flat=True).first() or 0
    if wanted.since:
        asked["pk__gte"] = activity.first_id_of(max(_DAWN, wanted.since - _AROUND))
    if wanted.until:
        asked["pk__lte"] = activity.first_id_of(min(_DUSK, max(_DAWN, wanted.until) + _AROUND))
    if wanted.dfids is not None:
        asked["pk__in"] = wanted.dfids
    if "agent_id" in asked and not asked["agent_id"]:
        return None
    return {name: value for name, value in asked.items() if value or name == "pk__in"}


def _of_resource(
    tenant: str, wanted: FlowKeys, rows: QuerySet[Flow], before: UUID | None, size: int
) -> Sequence[UUID]:
    """The newest of these flows that have reserved of the resource, whatever became of it."""
    resource = Resource.objects.of(tenant).filter(name=wanted.resource).first()
    if resource is None:
        return []
    held = Reservation.objects.filter(resource=resource)
    if before is not None:
        held = held.filter(flow__lt=before)
    if _narrowing(wanted):
        held = held.filter(flow__in=rows.values("pk"))
    return list(held.order_by("-flow").values_list("flow", flat=True).distinct()[:size])


def _narrowing(wanted: FlowKeys) -> list[object]:
    """What is asked beside the resource."""
    words = (wanted.part, wanted.agent, wanted.kind, wanted.state, wanted.reason)
    return [
        given for given in (*words, wanted.dfids, wanted.since, wanted.until) if given or given == frozenset()
    ]


def list_of_trace(*, tenant: str, trace_id: str, size: int) -> frozenset[UUID]:
    """The flows of a trace: 32 hexadecimal digits, those of the DFID where the agent sent no trace."""
    # In no order, or SQLite reads all flows in that order to find the few.
    sent = Flow.objects.of(tenant).filter(traceparent__gt="").order_by()
    flows = sent.alias(trace=TRACE_ID).filter(trace=trace_id)
    found = set(flows.values_list("pk", flat=True)[:size])
    own = Flow.objects.of(tenant).filter(pk=UUID(trace_id), traceparent="")
    return frozenset(found | set(own.values_list("pk", flat=True)))


def list_proposals_of(*, tenant: str, low: str, high: str, size: int) -> list[tuple[str, UUID]]:
    """Digests of proposals from `low` to `high`, each with its flow."""
    rows = Proposal.objects.filter(digest__gte=low, digest__lte=high).order_by("digest")
    return _of_tenant(tenant, rows.values_list("digest", "flow_id", "flow__tenant")[:size])


def list_inputs_of(*, tenant: str, low: str, high: str, size: int) -> list[tuple[str, UUID]]:
    """Digests of what verdicts were given on, each with its flow."""
    rows = Verdict.objects.filter(input_digest__gte=low, input_digest__lte=high).order_by("input_digest")
    columns = ("input_digest", "proposal__flow_id", "proposal__flow__tenant")
    return _of_tenant(tenant, rows.values_list(*columns)[:size])


def list_rules_of(*, tenant: str, low: str, high: str, size: int) -> list[tuple[str, UUID]]:
    """Digests of the rules of verdicts, each with some flows that were judged by them."""
    rows = Verdict.objects.filter(bundle__gte=low, bundle__lte=high).order_by("bundle_id")
    columns = ("bundle_id", "proposal__flow_id", "proposal__flow__tenant")
    return _of_tenant(tenant, rows.values_list(*columns)[:size])


def _of_tenant(tenant: str, rows: Iterable[tuple[str, UUID, str]]) -> list[tuple[str, UUID]]:
    """Those of the tenant. Not asked of the database, which would begin with all flows of the tenant."""
    return [(digest, dfid) for digest, dfid, whose in rows if whose == tenant]
