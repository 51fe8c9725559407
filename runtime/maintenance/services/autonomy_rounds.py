"""Rounds of the sweeper over agents of whom something was recorded that counts against their autonomy."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from runtime.core import clock
from runtime.flows.queries import risk_signals
from runtime.flows.services import autonomy_checks
from runtime.registry.queries import granted_kinds
from runtime.registry.services import agents

# What a transaction recorded may become visible so long after the time that it has.
LATE = timedelta(seconds=30)
# What a process looks back on in its first round.
FIRST = timedelta(hours=1)


@dataclass
class _Rounds:
    """What one process knows of its rounds; another process has its own."""

    looked_at: datetime | None = None
    # Agents of whom something has happened and who were not counted since: a round that fails loses nobody.
    waiting: set[int] = field(default_factory=set)


_rounds = _Rounds()


def list_due(*, at: datetime) -> list[int]:
    """Agents, by primary key, to be counted anew: something has happened since the last round."""
    before = _rounds.looked_at
    since = at - FIRST if before is None or before > at else before - LATE
    due = risk_signals.list_stirred(tenant=settings.DIR_TENANT, since=since, beside=_rounds.waiting)
    _rounds.waiting, _rounds.looked_at = set(due), at
    return due


def lower_one(agent_pk: int) -> bool:
    """Count one agent under its lock, and lower its level where it is due. In the caller's transaction."""
    agent = agents.lock_by_pk(pk=agent_pk)
    transaction.on_commit(lambda: _rounds.waiting.discard(agent_pk))
    return autonomy_checks.lower_if_due(
        agent=agent, manifest=granted_kinds.manifest_of(agent), at=clock.now()
    )
