"""Agents that fall silent: their rows as days without a word leave them, and the watchdog's rounds."""

from datetime import datetime, timedelta
from typing import Any
from unittest import mock

from escalations.models import Escalation
from runtime.core import clock
from runtime.maintenance.models import WatchRound
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent, Manifest
from tests.support import factories, gate_cases

SILENT_AFTER_S = 600
LONG_AGO = timedelta(days=60)


def desk(agent_id: str = "monitor", **manifest: Any) -> factories.Desk:
    """An agent that may be silent for ten minutes, registered and activated long ago."""
    contract = gate_cases.manifest(**{"silent_after_s": SILENT_AFTER_S, **manifest})
    made = factories.desk(agent_id=agent_id, manifest=contract)
    then = clock.now() - LONG_AGO
    Agent.objects.filter(pk=made.agent.pk).update(created_at=then)
    Manifest.objects.filter(agent=made.agent).update(activated_at=then)
    see(made, at=clock.now())
    listen(at=clock.now())
    return made


def see(desk: factories.Desk, *, at: datetime | None) -> None:
    """The agent's last call, or that there never was one."""
    Agent.objects.filter(pk=desk.agent.pk).update(last_seen_at=at)


def hush(desk: factories.Desk, *, for_s: int = 2 * SILENT_AFTER_S) -> None:
    """Nothing was heard of the agent for this long."""
    see(desk, at=clock.now() - timedelta(seconds=for_s))


def listen(*, at: datetime, since: datetime | None = None) -> None:
    """The watchdog has gone its rounds without a gap until `at`."""
    rounds = {"last_at": at, "unbroken_since": since or at - LONG_AGO}
    WatchRound.objects.update_or_create(defaults=rounds)


def called(desk: factories.Desk) -> Escalation:
    """The escalation of this silent agent, opened by a sweep; the time of its silence is exact."""
    at = clock.now()
    # A sweep may take a second on a busy machine, and that second would be part of the silence.
    with mock.patch("runtime.core.clock.now", return_value=at):
        hush(desk)
        assert sweeper.sweep().silences == 1
    return Escalation.objects.get(agent_id=desk.agent.agent_id, state="OPEN")
