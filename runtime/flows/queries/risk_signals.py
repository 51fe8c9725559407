"""What is counted of an agent for its risk score, and of whom something new is to be counted."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from audit import actors, queries, statements
from audit.events import Kind
from audit.models import LedgerEntry
from runtime.contracts.autonomy import DEFAULT_RULE, AutonomyRule
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.reasons import Reason
from runtime.contracts.source_labels import LabelSource
from runtime.contracts.states import AutonomyLevel, FlowState
from runtime.flows.models import Flow, Outcome, Proposal
from runtime.kernel import autonomy
from runtime.kernel.autonomy import Score, Signals
from runtime.registry.models import Agent

# What `StepRefused.asked` says of a step that was reported.
STEP: Final = "step"
# Points are bounded long before; no flood makes a count slow.
MOST_COUNTED: Final = 500
# Flows of a workflow in which refused steps are counted, the newest.
MOST_FLOWS: Final = 100


@dataclass(frozen=True, kw_only=True)
class Assessed:
    """The score of an agent, the rule that it was made by, and since when was counted."""

    score: Score
    rule: AutonomyRule
    since: datetime


def assess(
    *,
    agent: Agent,
    manifest: ManifestDocument | None,
    raised_at: datetime | None,
    at: datetime,
) -> Assessed:
    """Score an agent at a moment, by the rule of its active manifest.

    What came until `raised_at`, when its level was last raised, does not count again.
    """
    rule = DEFAULT_RULE if manifest is None or manifest.autonomy is None else manifest.autonomy
    since = at - timedelta(seconds=rule.window_s)
    if raised_at is not None:
        since = max(since, raised_at)
    signals = count(
        agent=agent,
        granted=None if manifest is None else manifest.policy_kinds,
        follows_workflow=manifest is not None and manifest.workflow is not None,
        since=since,
        labels=_count_labels(agent, since) if rule.labels.points else {},
        raised_at=raised_at,
    )
    return Assessed(score=autonomy.score(signals, rule), rule=rule, since=since)


def count(
    *,
    agent: Agent,
    granted: Collection[str] | None,
    follows_workflow: bool,
    since: datetime,
    labels: Mapping[str, int],
    raised_at: datetime | None,
) -> Signals:
    """Count everything from `since` on; at most MOST_COUNTED of each.

    `granted` are the kinds of the active manifest. Escalations count while they are open, however old, but
    none from before the level was raised. `labels` is how many results had which label.
    """
    tries = _TRIES.rows(agent=agent.pk, since=since)
    rejections, variations, ungranted = autonomy.count_tries(tries, granted=granted)
    deviations = len(_DEVIATING.rows(agent=agent.pk, since=since))
    if follows_workflow:
        deviations += _count_refused_steps(agent, since)
    return Signals(
        rejections=rejections,
        variations=variations,
        ungranted_kinds=ungranted,
        deviations=deviations,
        open_escalations=_count_open(agent, raised_at),
        labels=labels,
    )


def list_stirred(*, tenant: str, since: datetime, beside: Collection[int] = ()) -> list[int]:
    """Agents (by primary key) of whom something has happened since then that is counted, and those `beside`.

    READ_ONLY ones are left out. Rejected proposals are counted where they are judged.
    """
    deviating = Outcome.objects.filter(deviated_at__gte=since).values_list("intent__flow__agent", flat=True)
    asking = Flow.objects.of(tenant).filter(state=FlowState.ESCALATED, updated_at__gte=since)
    refused = LedgerEntry.objects.filter(tenant=tenant, kind=Kind.STEP_REFUSED, at__gte=since)
    streams = refused.order_by("-id").values_list("stream", flat=True)[:MOST_COUNTED]
    stepping = Flow.objects.filter(dfid__in={UUID(stream) for stream in streams})
    labelled = LedgerEntry.objects.filter(tenant=tenant, kind=Kind.AGENT_LABELS_CHANGED, at__gte=since)
    holders = labelled.order_by("-id").values_list("stream", flat=True)[:MOST_COUNTED]
    named = Agent.objects.filter(agent_id__in={stream.removeprefix(actors.AGENT) for stream in holders})
    found: set[Any] = {
        *beside,
        *deviating.order_by().distinct(),
        *asking.order_by().values_list("agent", flat=True).distinct(),
        *stepping.order_by().values_list("agent", flat=True),
        *named.order_by().values_list("pk", flat=True),
    }
    able = Agent.objects.of(tenant).filter(pk__in=found).exclude(autonomy=AutonomyLevel.READ_ONLY)
    return sorted(able.order_by().values_list("pk", flat=True))


def _count_open(agent: Agent, raised_at: datetime | None) -> int:
    asking = Flow.objects.of(agent.tenant).filter(state=FlowState.ESCALATED, agent=agent)
    if raised_at is not None:
        asking = asking.filter(updated_at__gt=raised_at)
    newest = asking.exclude(reason=Reason.AGENT_SILENT).order_by().values_list("pk", flat=True)
    return len(newest[:MOST_COUNTED])


def _count_refused_steps(agent: Agent, since: datetime) -> int:
    """Steps that the workflow refused when they were reported; to ask beforehand is no deviation."""
    flows = Flow.objects.filter(agent=agent).order_by("-dfid")
    newest = flows.values_list("dfid", flat=True)[:MOST_FLOWS]
    told = queries.list_dated_by_stream(
        tenant=agent.tenant, streams=[str(dfid) for dfid in newest], kinds=[Kind.STEP_REFUSED]
    )
    return sum(at > since and said["asked"] == STEP for entries in told.values() for _, at, said in entries)


def _count_labels(agent: Agent, since: datetime) -> dict[str, int]:
    """How many results of its calls had which label."""
    rows = LedgerEntry.objects.filter(
        tenant=agent.tenant,
        stream=actors.agent(agent.agent_id),
        kind=Kind.AGENT_LABELS_CHANGED,
        at__gt=since,
    )
    newest = list(rows.order_by("-seq").values_list("pk", flat=True)[:MOST_COUNTED])
    told = queries.readable(LedgerEntry.objects.filter(pk__in=newest)) if newest else []
    results = (said for _, said in told if said.get("because") == LabelSource.RESULT)
    return dict(Counter(label for said in results for label in said["gained"]))


def _tries(*, agent: int, since: datetime) -> QuerySet[Proposal, tuple[str, str]]:
    """The newest rejected proposals of an agent that cost it an attempt."""
    rows = Proposal.objects.filter(agent=agent, retry_key__gt="", received_at__gt=since)
    return rows.order_by("-received_at").values_list("policy_kind", "retry_key")[:MOST_COUNTED]


def _deviating(*, agent: int, since: datetime) -> QuerySet[Outcome, object]:
    rows = Outcome.objects.filter(deviated_at__gt=since, intent__flow__agent=agent)
    return rows.order_by().values_list("pk", flat=True)[:MOST_COUNTED]


_TRIES: Final = statements.Read(_tries)
_DEVIATING: Final = statements.Read(_deviating)
