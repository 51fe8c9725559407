"""Flows for the search page and the timeline."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from audit import statements
from audit.models import LedgerEntry
from runtime.core import id_search, paging
from runtime.flows.models import Flow, Intent, Proposal
from runtime.registry.models import Agent

PAGE = 50
ENTRIES = 200
# Proposals and intents of one flow.
MOST_OF_FLOW = 50
# With more different reasons than this, a part of one is looked for in the rows.
MOST_REASONS = 200


@dataclass(frozen=True, slots=True)
class FlowFilter:
    """What the search asks; empty fields ask nothing. `dfid` may be any part of an id (`id_search`).

    `agent` and `reason` may be parts, too; `kind` is found however it is written.
    """

    dfid: str = ""
    agent: str = ""
    kind: str = ""
    state: str = ""
    reason: str = ""
    since: datetime | None = None
    until: datetime | None = None


def list_flows(*, tenant: str, wanted: FlowFilter, before: UUID | None) -> paging.Page[Flow]:
    """Newest first; DFIDs are UUIDv7, so their order is the order of opening."""
    rows = Flow.objects.of(tenant).select_related("agent")
    if wanted.dfid:
        rows = rows.filter(id_search.having(Flow.objects.of(tenant), wanted.dfid))
    asked = {
        "agent__agent_id__icontains": wanted.agent,
        "policy_kind": wanted.kind.upper(),
        "state": wanted.state,
    }
    if wanted.reason:
        reasons = _reasons_in_use(tenant)
        if reasons is None:
            asked["reason__icontains"] = wanted.reason
        else:
            part = wanted.reason.lower()
            rows = rows.filter(reason__in=[reason for reason in reasons if part in reason.lower()])
    rows = rows.filter(**{name: value for name, value in asked.items() if value})
    if wanted.since:
        rows = rows.filter(opened_at__gte=wanted.since)
    if wanted.until:
        rows = rows.filter(opened_at__lte=wanted.until)
    if before:
        rows = rows.filter(dfid__lt=before)
    return paging.cut(list(rows.order_by("-dfid")[: PAGE + 1]), PAGE)


def _reasons_in_use(tenant: str) -> list[str] | None:
    """Every reason that a flow has, each found by one step along an index; None where there are too many.

    Reasons are codes, so there are few: to compare them is quicker than to look for a part in every row.
    """
    rows = Flow.objects.of(tenant).order_by("reason").values_list("reason", flat=True)
    found: list[str] = []
    while (following := rows.filter(reason__gt=found[-1] if found else "").first()) is not None:
        if len(found) == MOST_REASONS:
            return None
        found.append(following)
    return found


def get_flow(*, tenant: str, dfid: UUID) -> Flow | None:
    """The flow with its agent, or None."""
    return _FLOW.first(tenant=tenant, dfid=dfid)


def _flow(*, tenant: str, dfid: UUID) -> QuerySet[Flow]:
    return Flow.objects.of(tenant).select_related("agent").filter(dfid=dfid)


_FLOW: Final = statements.Read(_flow)


def list_entries(*, tenant: str, stream: str, after: int) -> paging.Page[LedgerEntry]:
    """Entries of one stream, oldest first, after the sequence number `after`."""
    return paging.cut(_ENTRIES.rows(ENTRIES + 1, tenant=tenant, stream=stream, after=after), ENTRIES)


def _entries(most: int, *, tenant: str, stream: str, after: int) -> QuerySet[LedgerEntry]:
    rows = LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq__gt=after)
    return rows.order_by("seq")[:most]


_ENTRIES: Final = statements.Read(_entries)


def get_entry(*, tenant: str, stream: str, seq: int) -> LedgerEntry | None:
    """One entry, or None."""
    return LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq=seq).first()


def list_proposals(*, dfid: UUID) -> Sequence[Proposal]:
    """The proposals of a flow with their verdicts, oldest first. At most a handful: attempts are bounded."""
    return _PROPOSALS.rows(dfid=dfid)


def _proposals(*, dfid: UUID) -> QuerySet[Proposal]:
    rows = Proposal.objects.filter(flow_id=dfid).select_related("verdict__bundle")
    return rows.order_by("proposal_id")[:MOST_OF_FLOW]


_PROPOSALS: Final = statements.Read(_proposals)


def list_intents(*, dfid: UUID) -> Sequence[Intent]:
    """The intents of a flow with their outcomes, oldest first."""
    return _INTENTS.rows(dfid=dfid)


def _intents(*, dfid: UUID) -> QuerySet[Intent]:
    rows = Intent.objects.filter(flow_id=dfid).select_related("outcome")
    return rows.order_by("intent_id")[:MOST_OF_FLOW]


_INTENTS: Final = statements.Read(_intents)


def kinds_in_use(*, tenant: str) -> list[str]:
    """Names for the filter's list."""
    from_flows = Flow.objects.of(tenant).filter(~Q(policy_kind="")).order_by("policy_kind")
    return list(from_flows.values_list("policy_kind", flat=True).distinct()[:100])


def get_previous(flow: Flow) -> Flow | None:
    """The flow of the same agent and kind that was opened before this one, or None."""
    if not flow.policy_kind:
        return None
    return _PREVIOUS.first(
        tenant=flow.tenant, policy_kind=flow.policy_kind, agent=flow.agent_id, before=flow.pk
    )


def _previous(*, tenant: str, policy_kind: str, agent: int, before: UUID) -> QuerySet[Flow]:
    rows = Flow.objects.of(tenant).filter(policy_kind=policy_kind, agent=agent, pk__lt=before)
    return rows.order_by("-pk")[:1]


_PREVIOUS: Final = statements.Read(_previous)


def list_recent_of(*, agent: Agent, size: int) -> Sequence[Flow]:
    """The newest flows of an agent."""
    return list(Flow.objects.filter(agent=agent).select_related("agent").order_by("-dfid")[:size])
