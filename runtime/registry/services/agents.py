"""Agents: their status by one table of allowed moves, and their locks."""

from typing import Final

from django.db.models import QuerySet

from audit import actors, events, ledger, statements
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus
from runtime.core import clock, ports, transactions
from runtime.registry.models import Agent, Session

S = AgentStatus

MOVES: dict[AgentStatus, tuple[AgentStatus, ...]] = {
    S.ACTIVE: (S.PASSIVE, S.LOCKED, S.SUSPENDED, S.RETIRED),
    S.PASSIVE: (S.ACTIVE, S.LOCKED, S.SUSPENDED, S.RETIRED),
    S.LOCKED: (S.ACTIVE, S.PASSIVE, S.SUSPENDED, S.RETIRED),
    S.SUSPENDED: (S.ACTIVE, S.PASSIVE, S.LOCKED, S.RETIRED),
    S.RETIRED: (),
}
_AT_WORK = (S.ACTIVE, S.PASSIVE)
_STANDING = ("status", "status_reason", "watched_from", "locked_from", "locked_from_reason")


@transactions.retried
def set_status(
    *,
    tenant: str,
    agent_id: str,
    status: AgentStatus,
    reason: str,
    actor: str,
    seen: AgentStatus | None = None,
) -> Agent | Problem:
    """Move an agent to `status`. The same status again changes nothing; RETIRED is for good (409).

    With `seen`, the status that the page showed, 409 where it has changed since. An agent
    that comes back from SUSPENDED while one of its flows is half done is LOCKED until that has converged.
    """
    agent = lock_by_name(tenant=tenant, agent_id=agent_id)
    if isinstance(agent, Problem):
        return agent
    before = AgentStatus(agent.status)
    if before is status:
        return agent
    if seen is not None and before is not seen:
        detail = f"The agent is now {before}. Review it again before you change it."
        return Problem(code=ProblemCode.STATUS_MOVED, detail=detail)
    if status not in MOVES[before]:
        detail = f"An agent that is {before} cannot become {status}."
        return Problem(code=ProblemCode.STATUS_NOT_ALLOWED, detail=detail)
    at = clock.now()
    agent.status, agent.status_reason, agent.watched_from = status, reason[:200], at
    if before is S.SUSPENDED and status in _AT_WORK and ports.has_dirty_flows(agent=agent):
        # Nobody locked it when it turned back: it was out of work for the graver reason.
        agent.locked_from, agent.locked_from_reason = status, reason[:200]
        agent.status, agent.status_reason = S.LOCKED, Reason.PARTIAL_SUCCESS_DIRTY.value
    agent.save(update_fields=_STANDING)
    changed = events.AgentStatusChanged(
        agent_id=agent_id, from_status=before, to_status=agent.status, reason=agent.status_reason
    )
    ledger.append_to(tenant=tenant, stream=actors.agent(agent_id), actor=actor, at=at, events=[changed])
    return agent


def lock_by_name(*, tenant: str, agent_id: str) -> Agent | Problem:
    """The agent, locked for this transaction; a Problem where there is none."""
    pk = Agent.objects.of(tenant).filter(agent_id=agent_id).values_list("pk", flat=True).first()
    if pk is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No agent has this id.")
    return lock_by_pk(pk=pk)


def lock_by_pk(*, pk: int) -> Agent:
    """The agent, locked: its status, bucket and history cannot be passed by two flows at once.

    Its manifest is left to a query of its own. PostgreSQL joins with what was there before it waited for the
    lock: an agent whose manifest was replaced since would seem to have none. Rows that refer to the agent
    can be written meanwhile: two agents that write to each other would wait for each other.
    """
    agent = _LOCKED.first(pk=pk)
    if agent is None:
        raise Agent.DoesNotExist
    return agent


def lock_of(session: Session) -> Agent:
    """The agent of a session, locked; its manifest is read again only where another is active by now."""
    agent = lock_by_pk(pk=session.agent_id)
    if agent.active_manifest_id == session.agent.active_manifest_id:
        agent.active_manifest = session.agent.active_manifest
    return agent


def _locked(*, pk: int) -> QuerySet[Agent]:
    return Agent.objects.select_for_update(no_key=True).filter(pk=pk)


_LOCKED: Final = statements.Read(_locked)
