"""`/metrics` for Prometheus: counted from the rows when asked, so that every process tells the same."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Min, QuerySet
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from audit.access.permissions import public
from audit.sealing import proofs, witnesses
from dir_console import addresses, health
from escalations import contracts
from escalations.models import Escalation, Notice
from runtime.contracts import states
from runtime.contracts.guard import ReviewState
from runtime.core import clock, transactions
from runtime.flows.models import Attempt, Intent, Verdict
from runtime.flows.queries import calls_in_doubt
from runtime.guards.models import GuardRun, Review
from runtime.maintenance.queries import silent_agents
from runtime.registry.models import Agent, Stop


class Rows:
    """Collects the figures; one small query each."""

    def collect(self) -> Iterator[Metric]:
        """The figures, in the order of the page."""
        now = clock.now()
        yield _by("dir_intents_live", "Intents that have not ended, by state", "state", dict(
            Intent.objects.filter(state__in=states.LIVE_INTENTS).values_list("state").annotate(Count("pk"))
        ))  # fmt: skip
        yield GaugeMetricFamily(
            "dir_intent_oldest_due_seconds",
            "How long the oldest due intent has waited",
            value=_oldest_due_s(Intent.objects.filter(state=states.IntentState.PENDING), now),
        )
        yield _by("dir_escalations_open", "Escalations that wait for a person, by family", "family", dict(
            Escalation.objects.filter(state=contracts.State.OPEN).values_list("family").annotate(Count("pk"))
        ))  # fmt: skip
        yield GaugeMetricFamily(
            "dir_notice_oldest_due_seconds",
            "How long the oldest due notice has waited for a sender",
            value=_oldest_due_s(Notice.objects.filter(state=contracts.NoticeState.PENDING), now),
        )
        yield CounterMetricFamily(
            "dir_transactions_ended",
            "Transactions of this process that the database has ended because they took too long",
            value=transactions.ended_count(),
        )
        yield GaugeMetricFamily(
            "dir_calls_in_doubt",
            "Calls of which nobody knows whether they took effect, and that nothing has settled",
            value=Attempt.objects.filter(calls_in_doubt.IN_DOUBT).count(),
        )
        yield GaugeMetricFamily(
            "dir_calls_contradicted",
            "Calls whose receipt came after a person had stated that they did not take effect",
            value=Attempt.objects.filter(calls_in_doubt.CONTRADICTED).count(),
        )
        yield _by("dir_verdicts_last_hour", "Verdicts of the last hour, by decision", "decision", dict(
            Verdict.objects.filter(judged_at__gt=now - timedelta(hours=1))
            .values_list("decision").annotate(Count("pk"))
        ))  # fmt: skip
        yield _by("dir_agents", "Agents, by status", "status", dict(
            Agent.objects.values_list("status").annotate(Count("pk"))
        ))  # fmt: skip
        flagged = CounterMetricFamily("dir_reviews_flagged", "Flags of soft guards", labels=["guard"])
        for guard_id, count in (
            Review.objects.order_by("guard__guard_id").values_list("guard__guard_id").annotate(Count("pk"))
        ):
            # Those of memory, that people requested, are of no guard.
            flagged.add_metric([guard_id or "memory"], count)
        yield flagged
        yield GaugeMetricFamily(
            "dir_reviews_open",
            "Flags that wait for a person",
            value=Review.objects.filter(state=ReviewState.OPEN).count(),
        )
        yield _by("dir_guard_runs", "Looks of soft guards, by state", "state", dict(
            GuardRun.objects.values_list("state").annotate(Count("pk"))
        ))  # fmt: skip
        yield _by("dir_ready", "1 for each part of /readyz that does its work", "part", {
            part: int(not why) for part, why in health.examine().items()
        })  # fmt: skip
        beaten_at = silent_agents.last_round_at()
        yield GaugeMetricFamily(
            "dir_sweeper_age_seconds",
            "Since when the sweeper has written nothing; -1 before its first round",
            value=-1 if beaten_at is None else abs(now - beaten_at).total_seconds(),
        )
        sealed_at = proofs.sealed_at()
        yield GaugeMetricFamily(
            "dir_sealed_age_seconds",
            "Since when no checkpoint of the ledger was signed; -1 before the first",
            value=-1 if sealed_at is None else max(0.0, (now - sealed_at).total_seconds()),
        )
        yield GaugeMetricFamily(
            "dir_entries_unsealed",
            "Entries that are not in the tree yet",
            value=proofs.count_unsealed(),
        )
        yield from _of_witnesses(now)
        free = health.free_bytes()
        if free is not None:
            yield GaugeMetricFamily("dir_disk_free_bytes", "Room beside the database's file", value=free)
        yield GaugeMetricFamily(
            "dir_stopped", "1 while everything is stopped", value=Stop.objects.filter(lifted_at=None).count()
        )


@require_safe
@public
def metrics(request: HttpRequest) -> HttpResponse:
    """The gauges, for the addresses in DIR_METRICS_ALLOW only."""
    if not _is_allowed(request.META.get("REMOTE_ADDR", "")):
        raise PermissionDenied
    registry = CollectorRegistry()
    registry.register(Rows())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _of_witnesses(now: datetime) -> Iterator[Metric]:
    """Nothing where no witness is configured."""
    reports = witnesses.reports()
    if not reports:
        return
    ages, findings = {}, {}
    for report in reports:
        age_s = report.age_s(now)
        ages[report.name] = -1.0 if age_s is None else age_s
        findings[report.name] = int(report.state is not None and bool(report.state.finding))
    yield _by(
        "dir_witness_age_seconds",
        "How old the checkpoint is that a witness holds; -1 before its first",
        "witness",
        ages,
    )
    yield _by(
        "dir_witness_finding",
        "1 where a witness holds a file that this ledger did not sign",
        "witness",
        findings,
    )


def _oldest_due_s(rows: QuerySet[Any], now: datetime) -> float:
    """How long the row with the earliest `next_at` has been due, in seconds; 0 where none is."""
    oldest = rows.filter(next_at__lte=now).aggregate(Min("next_at"))["next_at__min"]
    return 0.0 if oldest is None else float((now - oldest).total_seconds())


def _by(name: str, words: str, label: str, counts: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], count)
    return family


def _is_allowed(address: str) -> bool:
    """Whether the peer may read; behind a proxy that is the proxy's address, so name it or leave it out."""
    try:
        peer = addresses.parse(address)
        return any(peer in ip_network(allowed) for allowed in settings.DIR_METRICS_ALLOW)
    except ValueError:
        return False
