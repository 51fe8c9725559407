"""What a proposal asks about its caller once the agent is locked, in one statement."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import QuerySet, Subquery

from audit import actors, statements
from audit.events import Kind
from runtime.core import idempotency
from runtime.core.idempotency import IdempotentRequest
from runtime.epochs.queries import current_epoch
from runtime.registry.models import Agent, Session
from runtime.registry.queries import agent_entries, autonomy_levels
from runtime.registry.queries.autonomy_levels import RecordedLevel
from runtime.state.queries import memory_layers


@dataclass(frozen=True, kw_only=True)
class CallerFacts:
    """What the database says of a call and its agent, which is locked.

    `session_ends_at` is None for a session that is gone, or whose key was revoked; `level` is the level of
    autonomy as the ledger has it.
    """

    is_recovering: bool
    is_answered: bool
    session_ends_at: datetime | None
    level: RecordedLevel
    has_artifacts: bool

    def is_session_valid(self, at: datetime) -> bool:
        """Whether the session that was let in before has not ended by `at`, nor its key been revoked."""
        return self.session_ends_at is not None and self.session_ends_at > at


def look(*, session: Session, agent: Agent, call: IdempotentRequest) -> CallerFacts:
    """Ask for the call of a session, once its agent is locked. Never cached."""
    [(is_recovering, is_answered, session_ends_at, level, has_artifacts)] = _FACTS.rows(
        agent=agent.pk,
        session=session.pk,
        path=call.path,
        key=call.key,
        tenant=agent.tenant,
        stream=actors.agent(agent.agent_id),
        kind=Kind.AGENT_AUTONOMY_CHANGED,
    )
    return CallerFacts(
        is_recovering=is_recovering,
        is_answered=is_answered,
        session_ends_at=session_ends_at,
        level=autonomy_levels.read(level),
        has_artifacts=has_artifacts,
    )


def _caller(
    *, agent: int, session: int, path: str, key: str, tenant: str, stream: str, kind: str
) -> QuerySet[Agent, Any]:
    asked: QuerySet[Agent, Any] = Agent.objects.filter(pk=agent).order_by()
    return asked.values_list(
        current_epoch.recovering(),
        idempotency.is_answered(agent_pk=agent, path=path, key=key),
        Subquery(_end_of(session)),
        Subquery(agent_entries.last_of_kind(tenant=tenant, stream=stream, kind=kind)),
        memory_layers.has_artifacts(agent_pk=agent),
    )


def _end_of(session: int) -> QuerySet[Session, Any]:
    return Session.objects.filter(pk=session, key__revoked_at__isnull=True).values("expires_at")


_FACTS: Final = statements.Read(_caller)
