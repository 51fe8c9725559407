"""Flows for the search page and the timeline."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from audit.models import LedgerEntry
from runtime.core import clock, paging
from runtime.flows.models import Flow, Intent, Proposal
from runtime.flows.queries import activity
from runtime.registry.models import Agent

PAGE = 50
ENTRIES = 200
ID_DIGITS = 32
# No index answers for the end of an id: of so many days, and from so many digits on.
SEARCHED_BY_END = timedelta(days=30)
LEAST_END = 6


@dataclass(frozen=True, slots=True)
class FlowFilter:
    """What the search asks; empty fields ask nothing. `dfid` may be the beginning of an id, or its end.

    `agent` may be a part of its id; `kind` and `reason` are found however they are written.
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
        rows = rows.filter(_names(wanted.dfid))
    asked = {
        "agent__agent_id__icontains": wanted.agent,
        "policy_kind": wanted.kind.upper(),
        "state": wanted.state,
        "reason__iexact": wanted.reason,
    }
    rows = rows.filter(**{name: value for name, value in asked.items() if value})
    if wanted.since:
        rows = rows.filter(opened_at__gte=wanted.since)
    if wanted.until:
        rows = rows.filter(opened_at__lte=wanted.until)
    if before:
        rows = rows.filter(dfid__lt=before)
    return paging.cut(list(rows.order_by("-dfid")[: PAGE + 1]), PAGE)


def _names(text: str) -> Q:
    """The flows whose id begins with `text`, or ends with it as lists show it: the end of recent ids only."""
    digits = text.replace("-", "").lower()
    if not digits or len(digits) > ID_DIGITS or any(char not in "0123456789abcdef" for char in digits):
        return Q(pk__in=())
    # A prefix search that the primary key answers.
    low, high = UUID(digits.ljust(ID_DIGITS, "0")), UUID(digits.ljust(ID_DIGITS, "f"))
    begins = Q(dfid__gte=low, dfid__lte=high)
    if len(digits) < LEAST_END:
        return begins
    recent = activity.first_id_of(clock.now() - SEARCHED_BY_END)
    # The end of an id as PostgreSQL writes it. Django takes the hyphens out where ids are stored without.
    padded = str(UUID(digits.rjust(ID_DIGITS, "0")))
    shown = len(digits) + sum(len(digits) > size for size in (12, 16, 20, 24))
    return begins | Q(dfid__gte=recent, dfid__endswith=padded[-shown:])


def get_flow(*, tenant: str, dfid: UUID) -> Flow | None:
    """The flow with its agent, or None."""
    return Flow.objects.of(tenant).select_related("agent").filter(dfid=dfid).first()


def list_entries(*, tenant: str, stream: str, after: int) -> paging.Page[LedgerEntry]:
    """Entries of one stream, oldest first, after the sequence number `after`."""
    rows = LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq__gt=after).order_by("seq")
    return paging.cut(list(rows[: ENTRIES + 1]), ENTRIES)


def get_entry(*, tenant: str, stream: str, seq: int) -> LedgerEntry | None:
    """One entry, or None."""
    return LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq=seq).first()


def list_proposals(*, dfid: UUID) -> Sequence[Proposal]:
    """The proposals of a flow with their verdicts, oldest first. At most a handful: attempts are bounded."""
    rows = Proposal.objects.filter(flow_id=dfid).select_related("verdict__bundle").order_by("proposal_id")
    return list(rows[:50])


def list_intents(*, dfid: UUID) -> Sequence[Intent]:
    """The intents of a flow with their outcomes, oldest first."""
    return list(Intent.objects.filter(flow_id=dfid).select_related("outcome").order_by("intent_id")[:50])


def kinds_in_use(*, tenant: str) -> list[str]:
    """Names for the filter's list."""
    from_flows = Flow.objects.of(tenant).filter(~Q(policy_kind="")).order_by("policy_kind")
    return list(from_flows.values_list("policy_kind", flat=True).distinct()[:100])


def list_recent_of(*, agent: Agent, size: int) -> Sequence[Flow]:
    """The newest flows of an agent."""
    return list(Flow.objects.filter(agent=agent).select_related("agent").order_by("-dfid")[:size])
