"""Labels of agents: gained with what they receive, and ended by time or by a person (DARE, source_labels)."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from audit import actors, events, ledger
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.source_labels import UNREADABLE, LabelSource
from runtime.core import clock, given_reasons, transactions
from runtime.kernel import source_labels
from runtime.registry.models import Agent
from runtime.registry.queries import agent_labels, granted_kinds
from runtime.registry.services import agents, separate_owners

TASK = "end its labels"


def gain(*, agent_pk: int, labels: Iterable[str], because: LabelSource, source: str, at: datetime) -> None:
    """Give an agent labels, in the caller's transaction, which holds no agent but this one.

    Nothing is written where it has them already, until the same moment. `source` names where they come from:
    a flow, a conversation, a scope of memory. What an agent says of itself (STEP) is taken while it has few
    labels; what it has received is always taken. A RESULT is written each time, since results are counted.
    """
    agent = agents.lock_by_pk(pk=agent_pk)
    recorded = agent_labels.get_recorded(agent)
    if recorded is None:
        return  # the gate refuses what asks for labels, which a new entry would hide
    now_ms = timestamps.to_ms(at)
    gained = tuple(dict.fromkeys(labels))
    if because is LabelSource.STEP:
        gained = source_labels.claimed(recorded.held, gained, now_ms=now_ms)
    manifest = granted_kinds.manifest_of(agent)
    after = source_labels.gain(
        recorded.held,
        gained,
        ends_after_s={} if manifest is None else manifest.labels_end_after_s,
        now_ms=now_ms,
    )
    is_counted = because is LabelSource.RESULT and bool(gained)
    if is_counted or after != recorded.at(at):
        _append(agent, actor=actors.SYSTEM, at=at, because=because, source=source, gained=gained, after=after)


def pass_on(*, giver: Agent, agent: Agent, because: LabelSource, source: str, at: datetime) -> None:
    """Give an agent the labels that another has, as `gain` does."""
    held = held_by(giver, at=at)
    if held:
        gain(agent_pk=agent.pk, labels=held, because=because, source=source, at=at)


@transactions.retried
def receive(*, agent: Agent, labels: Iterable[str], because: LabelSource, source: str) -> None:
    """Give an agent the labels of what it is about to be given, in a transaction of its own."""
    gain(agent_pk=agent.pk, labels=labels, because=because, source=source, at=clock.now())


def held_by(agent: Agent, *, at: datetime) -> tuple[str, ...]:
    """The labels of an agent, in order, for what it gives to others; UNREADABLE where nobody knows them."""
    recorded = agent_labels.get_recorded(agent)
    return (UNREADABLE,) if recorded is None else tuple(recorded.at(at))


@transactions.retried
def end(
    *, tenant: str, agent_id: str, labels: Iterable[str], shown: str, reason: str, actor: str
) -> Agent | Problem:
    """End labels of an agent. `shown` is the digest of the last change that the person looked at.

    409 where there is a later one, or it has none of the labels; 403 for who owns the agent.
    """
    if (missing := given_reasons.refuse(reason)) is not None:
        return missing
    agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
    if isinstance(agent, Problem):
        return agent
    recorded = agent_labels.get_recorded(agent)
    at = ledger.time_of_next(tenant=tenant, stream=actors.agent(agent_id), at=clock.now())
    held, asked = {} if recorded is None else recorded.at(at), tuple(dict.fromkeys(labels))
    if recorded is None or recorded.digest != shown or not asked or not held.keys() >= set(asked):
        detail = "The labels of the agent have changed since they were shown. Review them again."
        return Problem(code=ProblemCode.LABELS_MOVED, detail=detail)
    allowed = separate_owners.allow(agent=agent, actor=actor, at=at, task=TASK)
    if isinstance(allowed, Problem):
        return allowed
    after = {label: ends for label, ends in held.items() if label not in asked}
    _append(
        agent,
        actor=actor,
        at=at,
        because=LabelSource.PERSON,
        ended=asked,
        reason=reason.strip(),
        solo=allowed.solo,
        after=after,
    )
    return agent


def _append(
    agent: Agent,
    *,
    actor: str,
    at: datetime,
    because: LabelSource,
    after: Mapping[str, int | None],
    source: str = "",
    gained: tuple[str, ...] = (),
    ended: tuple[str, ...] = (),
    reason: str = "",
    solo: bool = False,
) -> None:
    changed = events.AgentLabelsChanged(
        agent_id=agent.agent_id,
        because=because,
        source=source,
        gained=gained,
        ended=ended,
        reason=reason,
        labels=tuple(after),
        until=tuple(None if end is None else timestamps.from_ms(end) for end in after.values()),
        solo=solo,
    )
    stream = actors.agent(agent.agent_id)
    ledger.append_to(tenant=agent.tenant, stream=stream, actor=actor, at=at, events=[changed])
