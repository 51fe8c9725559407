"""Levels of autonomy: the runtime only lowers them, and only a person raises them."""

from datetime import datetime

from audit import actors, events, ledger
from runtime.contracts.autonomy import AutonomyRule
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentStatus, AutonomyLevel
from runtime.core import clock, given_reasons, transactions
from runtime.core.mismatches import Mismatch
from runtime.kernel import autonomy
from runtime.kernel.autonomy import Score
from runtime.registry.models import Agent
from runtime.registry.queries import autonomy_levels
from runtime.registry.queries.autonomy_levels import RecordedLevel
from runtime.registry.services import agents, separate_owners

TASK = "raise its level"


def lower(
    *, agent: Agent, recorded: RecordedLevel, found: Score, rule: AutonomyRule, since: datetime
) -> bool:
    """Lower the level of an agent to that of a score; False where that is not below the recorded one.

    `found` is of what was counted from `since` on. In the caller's transaction, which holds the agent.
    """
    if not autonomy.is_lower(found.level, than=recorded.level):
        return False
    shown = ", ".join(f"{part.signal} {part.points}" for part in found.parts if part.points)
    _change(
        agent,
        actor=actors.SYSTEM,
        at=clock.now(),
        entry=events.AgentAutonomyChanged(
            agent_id=agent.agent_id,
            from_level=recorded.level,
            to_level=found.level,
            reason=f"Risk score {found.total} of {autonomy.HIGHEST}: {shown}",
            score=found.total,
            signals=tuple(part.signal.value for part in found.parts),
            counts=tuple(part.count for part in found.parts),
            points=tuple(part.points for part in found.parts),
            window_from=since,
            supervised_at=rule.supervised_at,
            read_only_at=rule.read_only_at,
            counts_from=recorded.counts_from,
        ),
    )
    return True


@transactions.retried
def raise_level(
    *, tenant: str, agent_id: str, level: AutonomyLevel, shown: str, reason: str, actor: str
) -> Agent | Problem:
    """Raise the level of an agent; what was counted of it until now does not count again.

    `shown` is the digest of the last change that the person looked at: 409 where there is a later one. 403
    for who owns the agent, 409 for a level that is not higher.
    """
    if (missing := given_reasons.refuse(reason)) is not None:
        return missing
    agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
    if isinstance(agent, Problem):
        return agent
    recorded = autonomy_levels.get_recorded(agent)
    if recorded.digest != shown:
        detail = (
            f"The level was changed after the page was loaded: it is now {recorded.level}. Look at the agent "
            "again before you raise it."
        )
        return Problem(code=ProblemCode.AUTONOMY_MOVED, detail=detail)
    if agent.status == AgentStatus.RETIRED:
        detail = f"{agent_id} is retired, so its level cannot be raised."
        return Problem(code=ProblemCode.AUTONOMY_NOT_RAISED, detail=detail)
    if not autonomy.is_lower(recorded.level, than=level):
        detail = f"An agent that is {recorded.level} cannot be raised to {level}."
        return Problem(code=ProblemCode.AUTONOMY_NOT_RAISED, detail=detail)
    at = ledger.time_of_next(tenant=tenant, stream=actors.agent(agent_id), at=clock.now())
    allowed = separate_owners.allow(agent=agent, actor=actor, at=at, task=TASK)
    if isinstance(allowed, Problem):
        return allowed
    _change(
        agent,
        actor=actor,
        at=at,
        entry=events.AgentAutonomyChanged(
            agent_id=agent_id,
            from_level=recorded.level,
            to_level=level,
            reason=reason.strip(),
            counts_from=at,
            solo=allowed.solo,
        ),
    )
    return agent


def restore(
    agent: Agent, recorded: RecordedLevel | None = None
) -> tuple[AutonomyLevel, tuple[Mismatch, ...]]:
    """The recorded level, put back into the row where that differs. The caller holds the agent.

    The ledger is asked for it, unless the caller has read it while holding the agent (`recorded`).
    """
    recorded = recorded or autonomy_levels.get_recorded(agent)
    unlike = autonomy_levels.list_unlike(agent, recorded.level)
    # Of an entry that cannot be read there is nothing to put back.
    if unlike and (recorded.at is not None or recorded.level is AutonomyLevel.AUTONOMOUS):
        _write(agent, recorded)
    return recorded.level, unlike


def _change(agent: Agent, *, actor: str, at: datetime, entry: events.AgentAutonomyChanged) -> None:
    """Append the entry, and bring the row to what it records."""
    stream = actors.agent(agent.agent_id)
    ledger.append_to(tenant=agent.tenant, stream=stream, actor=actor, at=at, events=[entry])
    _write(agent, autonomy_levels.get_recorded(agent))


def _write(agent: Agent, recorded: RecordedLevel) -> None:
    for name, value in recorded.columns.items():
        setattr(agent, name, value)
    agent.save(update_fields=list(recorded.columns))
