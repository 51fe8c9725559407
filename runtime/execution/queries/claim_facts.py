"""What a claim asks beside the rows that it has locked, in one statement."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists, QuerySet, Subquery

from audit import actors, statements
from audit.events import Kind
from runtime.epochs.queries import current_epoch
from runtime.execution.queries import unrecorded
from runtime.flows.models import Flow, Intent, Verdict
from runtime.flows.queries import calls_in_doubt, due_intents
from runtime.flows.queries.due_intents import AgentStanding
from runtime.registry.queries import agent_entries, autonomy_levels
from runtime.registry.queries.autonomy_levels import RecordedLevel


@dataclass(frozen=True, kw_only=True)
class ClaimFacts:
    """What holds a call back, beside the rules and the facts of the world.

    `level` is the level of autonomy as the ledger has it, `restored_at` is what `unrecorded` asks for, and
    `is_contradicted` what `calls_in_doubt.is_flow_contradicted` says.
    """

    standing: AgentStanding
    level: RecordedLevel
    restored_at: datetime | None
    is_contradicted: bool


def look(flow: Flow, intent: Intent) -> ClaimFacts:
    """Ask for an intent, once its flow, its agent and itself are locked. Never cached.

    The agent's active manifest and the flow's workflow come along: `flow` and its agent have them after it.
    """
    agent = flow.agent
    [found] = _FACTS.rows(
        dfid=flow.pk,
        since=intent.created_at,
        tenant=agent.tenant,
        stream=actors.agent(agent.agent_id),
        kind=Kind.AGENT_AUTONOMY_CHANGED,
    )
    agent.active_manifest = found.agent.active_manifest
    Flow.workflow_position.related.set_cached_value(flow, getattr(found, "workflow_position", None))
    return ClaimFacts(
        standing=due_intents.standing_of(
            found.agent.status,
            found.agent.autonomy,
            found.agent.stopped_at,
            found.is_all_stopped,
            found.is_recovering,
        ),
        level=autonomy_levels.read(found.level),
        restored_at=found.restored_at,
        is_contradicted=found.is_contradicted,
    )


def _facts(*, dfid: UUID, since: datetime, tenant: str, stream: str, kind: str) -> QuerySet[Flow, Any]:
    rows = Flow.objects.select_related("agent__active_manifest", "workflow_position__workflow")
    level = agent_entries.last_of_kind(tenant=tenant, stream=stream, kind=kind)
    found: QuerySet[Flow, Any] = rows.filter(pk=dfid).annotate(
        is_all_stopped=due_intents.all_stopped(),
        is_recovering=current_epoch.recovering(),
        restored_at=Subquery(unrecorded.last_restored(since=since)),
        is_contradicted=Exists(calls_in_doubt.contradicting(dfid=dfid)),
        level=Subquery(level),
    )
    return found.only(
        "agent__status",
        "agent__autonomy",
        "agent__stopped_at",
        "agent__active_manifest",
        "workflow_position__workflow",
    )


def get_verdict(intent: Intent) -> Verdict:
    """The verdict that an intent stands on, with its rules."""
    [verdict] = _VERDICT.rows(proposal=intent.proposal_id)
    return verdict


def _verdict(*, proposal: UUID) -> QuerySet[Verdict]:
    return Verdict.objects.select_related("bundle").filter(pk=proposal)


_FACTS: Final = statements.Read(_facts)
_VERDICT: Final = statements.Read(_verdict)
