"""Whose words are due: the classes of retention, the flows behind them, and what keeps some of those."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from audit import cells
from audit.events import Kind
from audit.models import DecisionRecord, LedgerEntry, RecordTerm
from audit.records import evaluators
from runtime.contracts.policy_kind import ApprovalMode
from runtime.contracts.retention import KeptBecause
from runtime.contracts.states import Decision
from runtime.flows.models import Attempt, Flow, Verdict
from runtime.incidents.queries import kept
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.maintenance.models import RetentionRound
from runtime.maintenance.queries import holds
from runtime.registry.models import Bundle, PolicyKind
from runtime.registry.queries import kind_versions, recorded_versions

# A count on a page ends here.
MOST_COUNTED = 1000
MOST_LATELY = 20
# How many flows a page judges beforehand.
MOST_PREVIEWED = 200
SETTING = "DIR_RETENTION_DAYS"


@dataclass(frozen=True, slots=True)
class RetentionClass:
    """How long the words of a kind's flows are kept; `kind` is empty for flows without a proposal.

    `version` is the active version that says so, or empty where the setting does.
    """

    kind: str
    version: str
    days: int

    @property
    def reason(self) -> str:
        """Why words are erased, as the entry says it."""
        by = f"{self.kind} {self.version}" if self.version else SETTING
        return f"Retention: {by} keeps words for {self.days} days after the end"

    def due_before(self, at: datetime) -> datetime:
        """Flows that ended before this are due at `at`."""
        return at - timedelta(days=self.days)


# The end and the id of the last flow that was looked at.
Place = tuple[datetime, UUID]


def list_classes(*, tenant: str) -> Sequence[RetentionClass]:
    """The classes in force, by kind. A kind whose words are kept permanently has none.

    Nor has one whose active version is not what was activated: nobody knows what it would say.
    """
    default = settings.DIR_RETENTION_DAYS
    found = [RetentionClass("", "", default)] if default else []
    names = PolicyKind.objects.of(tenant).order_by("kind").values_list("kind", flat=True).distinct()
    active = {row.kind: row for row in PolicyKind.objects.of(tenant).filter(active=True)}
    for name in names:
        row = active.get(name)
        if row is None:
            found += [RetentionClass(name, "", default)] if default else []
            continue
        if recorded_versions.compare_kind(row) is not None:
            continue
        days = kind_versions.contract_of(row).retention_days
        if days is not None:
            found.append(RetentionClass(name, row.version, days))
        elif default:
            found.append(RetentionClass(name, "", default))
    return found


@dataclass(frozen=True, slots=True)
class Preview:
    """What comes of the next flows that are due, as far as rows tell: how many of them go, and are kept.

    `looked` is how many were judged; with `MOST_PREVIEWED` of them there may be more.
    """

    looked: int
    would_go: int
    kept: Mapping[KeptBecause, int]


def list_due(
    of: RetentionClass, *, tenant: str, at: datetime, after: Place | None = None, limit: int
) -> Sequence[Flow]:
    """Flows of a class whose time is over and whose words were never erased; the longest ended first."""
    rows = Flow.objects.filter(
        tenant=tenant, policy_kind=of.kind, ended_at__lt=of.due_before(at), erased_at=None
    )
    if after is not None:
        ended_at, dfid = after
        rows = rows.filter(ended_at__gte=ended_at).filter(Q(ended_at__gt=ended_at) | Q(dfid__gt=dfid))
    return list(rows.order_by("ended_at", "dfid")[:limit])


def count_due(of: RetentionClass, *, tenant: str, at: datetime) -> int:
    """How many flows of a class are due, kept or not; `MOST_COUNTED` stands for that many or more."""
    rows = Flow.objects.filter(
        tenant=tenant, policy_kind=of.kind, ended_at__lt=of.due_before(at), erased_at=None
    )
    return len(rows.order_by("ended_at", "dfid").values_list("pk")[:MOST_COUNTED])


def why_kept(flows: Sequence[Flow], *, tenant: str) -> dict[UUID, KeptBecause]:
    """Those of the flows that retention keeps, each with the first reason.

    What also keeps a flow from everybody, such as a call in doubt, is asked when it is to be erased.
    """
    dfids = [flow.pk for flow in flows]
    streams = {str(dfid): dfid for dfid in dfids}
    escalated = LedgerEntry.objects.filter(
        tenant=tenant, stream__in=list(streams), kind=Kind.ESCALATION_OPENED
    ).values_list("stream", flat=True)
    verdicts = Verdict.objects.filter(proposal__flow__in=dfids).exclude(decision=Decision.ACCEPT)
    judged = set(verdicts.values_list("proposal__flow", "decision"))
    found: dict[KeptBecause, set[UUID]] = {
        KeptBecause.HOLD: set(holds.holds_among(dfids, tenant=tenant)),
        KeptBecause.INCIDENT: kept.linked_among(dfids),
        KeptBecause.DESTRUCTIVE: set(_destructive(dfids)),
        KeptBecause.DENIED: {dfid for dfid, decision in judged if decision == Decision.REJECT},
        KeptBecause.ESCALATED: {dfid for dfid, decision in judged if decision == Decision.ESCALATE}
        | {streams[stream] for stream in escalated},
        KeptBecause.FAILED_SCORECARD: set(_failed(dfids, tenant)),
        KeptBecause.NOT_SCORED: {flow.pk for flow in flows if flow.score_due},
    }
    # The last that is put in is the first reason.
    return {dfid: why for why in reversed(KeptBecause) for dfid in found.get(why, ())}


def preview(classes: Sequence[RetentionClass], *, tenant: str, at: datetime) -> Preview:
    """The next flows that a round comes to, judged without a lock and without the calls in doubt."""
    stored = RetentionRound.objects.first()
    place = stored if stored is not None and stored.next_at <= at else None
    flows: list[Flow] = []
    for of in classes:
        if place is None or of.kind >= place.kind:
            after = place_in(place, of)
            left = MOST_PREVIEWED - len(flows)
            flows += list_due(of, tenant=tenant, at=at, after=after, limit=left) if left else ()
    kept_flows = why_kept(flows, tenant=tenant)
    counts = Counter(kept_flows.values())
    return Preview(
        looked=len(flows),
        would_go=len(flows) - len(kept_flows),
        kept={why: counts[why] for why in KeptBecause if counts[why]},
    )


def place_in(stored: RetentionRound | None, of: RetentionClass) -> Place | None:
    """Where a round stopped among the flows of a class; None where it begins with the first."""
    if stored is None or stored.kind != of.kind or stored.ended_at is None or stored.dfid is None:
        return None
    return stored.ended_at, stored.dfid


def list_lately(kind: Kind, *, tenant: str) -> Sequence[LedgerEntry]:
    """The newest entries of a kind, FLOW_ERASED or FACTS_PRUNED, by whomever; at most `MOST_LATELY`."""
    rows = LedgerEntry.objects.filter(tenant=tenant, kind=kind)
    return list(rows.order_by("-id")[:MOST_LATELY])


def _destructive(dfids: Sequence[UUID]) -> Iterator[UUID]:
    """Those in which a call was made for what cannot be undone, or for what nobody can say."""
    rows = Attempt.objects.filter(intent__flow__in=dfids).order_by()
    called = set(rows.values_list("intent__flow", "intent__proposal__verdict__bundle").distinct())
    bundles: Mapping[str, Bundle] = Bundle.objects.in_bulk({digest for _, digest in called if digest})
    for dfid, digest in called:
        bundle = bundles.get(digest) if digest else None
        if bundle is None or not _is_reversible(cells.bytes_of(bundle.body) or b""):
            yield dfid


@lru_cache(maxsize=256)
def _is_reversible(body: bytes) -> bool:
    try:
        kind = PolicyBundle.from_bytes(body).kind
    except ValueError:
        return False
    return kind is not None and kind.reversible and kind.least_approval is not ApprovalMode.DESTRUCTIVE


def _failed(dfids: Sequence[UUID], tenant: str) -> Iterator[UUID]:
    records = dict(DecisionRecord.objects.filter(tenant=tenant, dfid__in=dfids).values_list("pk", "dfid"))
    terms = RecordTerm.objects.filter(
        record__in=list(records), name=RecordTerm.Name.SCORECARD, value=evaluators.FAILED
    )
    for record in terms.values_list("record", flat=True):
        yield records[record]
