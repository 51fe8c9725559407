"""Figures of the overview. Each is bounded by a time window or by an index."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, QuerySet
from django.db.models.functions import TruncMinute

from audit import canonical, statements
from audit.models import LedgerEntry
from runtime.contracts import states
from runtime.contracts.verdict import FindingOutcome
from runtime.flows.models import Flow, Outcome, Verdict

BUCKETS = 24
WINDOW = timedelta(hours=2)
REASON_SAMPLE = 1000
MOST_COUNTED = 10_000
LOOKED_BACK = 5000


@dataclass(frozen=True, slots=True)
class Bucket:
    """Verdicts that fell into one stretch of time."""

    begins_at: datetime
    accepted: int
    escalated: int
    rejected: int

    @property
    def total(self) -> int:
        """All verdicts of the stretch."""
        return self.accepted + self.escalated + self.rejected


def list_throughput(
    *, tenant: str, now: datetime, agent_id: str = "", dfid: UUID | None = None
) -> list[Bucket]:
    """Verdicts of the last two hours in stretches of five minutes that begin on the clock, oldest first.

    Of one agent or of one flow, where it is named.
    """
    step = WINDOW / BUCKETS
    end = datetime.fromtimestamp(
        (now.timestamp() // step.total_seconds() + 1) * step.total_seconds(), now.tzinfo
    )
    start = end - WINDOW
    wanted: dict[str, Any] = {"agent_id": agent_id} if agent_id else {}
    wanted |= {} if dfid is None else {"dfid": dfid}
    rows = _THROUGHPUT.rows(first=first_id_of(start), start=start, end=end, tenant=tenant, **wanted)
    counts: Counter[tuple[int, str]] = Counter()
    for minute, decision, count in rows:
        counts[int((minute - start) / step), decision] += count
    return [
        Bucket(
            begins_at=start + index * step,
            accepted=counts[index, states.Decision.ACCEPT],
            escalated=counts[index, states.Decision.ESCALATE],
            rejected=counts[index, states.Decision.REJECT],
        )
        for index in range(BUCKETS)
    ]


def _throughput(
    *, first: UUID, start: datetime, end: datetime, tenant: str, agent_id: str = "", dfid: UUID | None = None
) -> QuerySet[Verdict, Any]:
    wanted: dict[str, Any] = {"proposal__agent__agent_id": agent_id} if agent_id else {}
    wanted |= {} if dfid is None else {"proposal__flow_id": dfid}
    return (
        Verdict.objects.filter(proposal_id__gte=first, judged_at__gte=start, judged_at__lt=end)
        .filter(proposal__flow__tenant=tenant, **wanted)
        .annotate(minute=TruncMinute("judged_at"))
        .values_list("minute", "decision")
        .annotate(n=Count("proposal_id"))
        .order_by()
    )


_THROUGHPUT: Final = statements.Read(_throughput)


def count_verdicts_since(*, tenant: str, since: datetime) -> dict[str, int]:
    """Verdicts since a moment, by decision, of the newest `MOST_COUNTED`; every decision has a number."""
    found = _VERDICTS.rows(MOST_COUNTED, tenant=tenant, first=first_id_of(since), since=since)
    return dict.fromkeys(states.Decision.values(), 0) | Counter(found)


def _verdicts(most: int, *, tenant: str, first: UUID, since: datetime) -> QuerySet[Verdict, str]:
    rows = Verdict.objects.filter(proposal_id__gte=first, judged_at__gte=since, proposal__flow__tenant=tenant)
    return rows.order_by("-proposal_id").values_list("decision", flat=True)[:most]


_VERDICTS: Final = statements.Read(_verdicts)


def count_receipts_since(*, tenant: str, since: datetime) -> int:
    """Intents that were created since a moment and have ended with a receipt, up to `MOST_COUNTED`."""
    rows = Outcome.objects.filter(intent_id__gte=first_id_of(since), status=states.OutcomeStatus.SUCCEEDED)
    return rows.filter(intent__flow__tenant=tenant, receipt__isnull=False)[:MOST_COUNTED].count()


def first_id_of(moment: datetime) -> UUID:
    """The least UUIDv7 of a moment: the primary key then answers for the time, without another index."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)


def count_reject_reasons(*, tenant: str, now: datetime) -> list[tuple[str, int]]:
    """Reason codes of the newest rejections of the last day, most frequent first."""
    codes: Counter[str] = Counter()
    for body in _REJECTED.rows(REASON_SAMPLE, tenant=tenant, first=first_id_of(now - timedelta(days=1))):
        if bytes(body):  # else it was erased
            codes.update(codes_of(bytes(body)))
    return codes.most_common(6)


def _rejected(most: int, *, tenant: str, first: UUID) -> QuerySet[Verdict, Any]:
    rows = Verdict.objects.filter(
        proposal_id__gte=first, proposal__flow__tenant=tenant, decision=states.Decision.REJECT
    )
    return rows.order_by("-proposal_id").values_list("body", flat=True)[:most]


_REJECTED: Final = statements.Read(_rejected)


def codes_of(body: bytes) -> set[str]:
    """The distinct codes of a stored verdict's findings that reject."""
    found = canonical.decode(body)["findings"]
    return {item["code"] for item in found if item["outcome"] == FindingOutcome.FAIL}


def flow_counts(*, tenant: str) -> dict[str, int]:
    """Open flows by state."""
    return dict(_OPEN.rows(tenant=tenant))


def _open(*, tenant: str) -> QuerySet[Flow, tuple[str, int]]:
    rows = Flow.objects.of(tenant).exclude(state__in=states.ENDED)
    return rows.values_list("state").annotate(n=Count("dfid")).order_by("state")


_OPEN: Final = statements.Read(_open)


def list_latest_entries(
    *, tenant: str, before: int | None, stream: str, kind: str, size: int
) -> Sequence[LedgerEntry]:
    """Newest entries first, by their row number, of one stream or kind where it is named.

    Entries of one stream have rising row numbers and sequence numbers: its own index answers for it.
    """
    rows = LedgerEntry.objects.filter(tenant=tenant)
    if kind:
        rows = rows.filter(kind=kind)
    if not stream:
        rows = rows if before is None else rows.filter(id__lt=before)
        return list(rows.order_by("-id")[:size])
    rows = rows.filter(stream=stream)
    if before is not None:
        # Nothing is below 0, which stands for a row that the stream does not have.
        row = LedgerEntry.objects.filter(pk=before, tenant=tenant, stream=stream)
        rows = rows.filter(seq__lt=row.values_list("seq", flat=True).first() or 0)
    return list(rows.order_by("-seq")[:size])


def list_latest_besides(
    *, tenant: str, besides: Sequence[str], size: int, newest: LedgerEntry | None = None
) -> Sequence[LedgerEntry]:
    """Newest entries first without some kinds, of the last LOOKED_BACK rows: which bounds the cost.

    `newest` is the newest entry of all, where the caller has read it.
    """
    newest = newest or get_newest_entry(tenant=tenant)
    if newest is None:
        return []
    return _BESIDES.rows(tuple(besides), size, tenant=tenant, after=newest.pk - LOOKED_BACK)


def get_newest_entry(*, tenant: str) -> LedgerEntry | None:
    """The newest entry, or None."""
    return _NEWEST.first(tenant=tenant)


def _newest(*, tenant: str) -> QuerySet[LedgerEntry]:
    return LedgerEntry.objects.filter(tenant=tenant).order_by("-id")[:1]


def _besides(besides: Sequence[str], size: int, *, tenant: str, after: int) -> QuerySet[LedgerEntry]:
    rows = LedgerEntry.objects.filter(tenant=tenant, id__gt=after).exclude(kind__in=besides)
    return rows.order_by("-id")[:size]


_NEWEST: Final = statements.Read(_newest)
_BESIDES: Final = statements.Read(_besides)
