"""Flows for the search page and the timeline."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from audit.models import LedgerEntry
from runtime.models import Flow, Intent, Proposal
from runtime.queries.pages import paging

PAGE = 50
ENTRIES = 200
ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Filter:
    """What the search asks; empty fields ask nothing. `dfid` may be the beginning of an id."""

    dfid: str = ""
    agent: str = ""
    kind: str = ""
    state: str = ""
    reason: str = ""
    since: datetime | None = None
    until: datetime | None = None


def list_flows(*, tenant: str, wanted: Filter, before: UUID | None) -> paging.Page[Flow]:
    """Newest first; DFIDs are UUIDv7, so their order is the order of opening."""
    rows = Flow.objects.of(tenant).select_related("agent")
    if wanted.dfid:
        low, high = _range_of(wanted.dfid)
        rows = rows.filter(dfid__gte=low, dfid__lte=high) if low and high else rows.none()
    exact = {"agent__agent_id": wanted.agent, "policy_kind": wanted.kind, "state": wanted.state}
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if wanted.reason:
        rows = rows.filter(reason=wanted.reason)
    if wanted.since:
        rows = rows.filter(opened_at__gte=wanted.since)
    if wanted.until:
        rows = rows.filter(opened_at__lte=wanted.until)
    if before:
        rows = rows.filter(dfid__lt=before)
    return paging.cut(list(rows.order_by("-dfid")[: PAGE + 1]), PAGE)


def _range_of(text: str) -> tuple[UUID | None, UUID | None]:
    """The ids that begin with `text`: a prefix search that the primary key answers."""
    digits = text.replace("-", "").lower()
    if not digits or len(digits) > ID_DIGITS or any(char not in "0123456789abcdef" for char in digits):
        return None, None
    return UUID(digits.ljust(ID_DIGITS, "0")), UUID(digits.ljust(ID_DIGITS, "f"))


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
    rows = Proposal.objects.filter(flow_id=dfid).select_related("verdict").order_by("proposal_id")
    return list(rows[:50])


def list_intents(*, dfid: UUID) -> Sequence[Intent]:
    """The intents of a flow with their outcomes, oldest first."""
    return list(Intent.objects.filter(flow_id=dfid).select_related("outcome").order_by("intent_id")[:50])


def kinds_in_use(*, tenant: str) -> list[str]:
    """Names for the filter's list."""
    from_flows = Flow.objects.of(tenant).filter(~Q(policy_kind="")).order_by("policy_kind")
    return list(from_flows.values_list("policy_kind", flat=True).distinct()[:100])
