"""Whether this installation works, from evidence only: what `/readyz` and `/metrics` report.

The heartbeat is a write: the sweeper commits one every few seconds. So a database that is full, locked or
gone, a beat that has died and a worker that is stuck all show in its age, wherever the sweeper runs.
"""

import os
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import redis
from django.conf import settings
from django.db import DatabaseError, connection

from audit.models import LedgerEntry
from audit.sealing import proofs, witnesses
from audit.sealing.witnesses import WitnessReport
from runtime.core import clock
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import boots
from runtime.maintenance.queries import silent_agents
from runtime.workers import embedded, sweep_rounds

# The heartbeat is at most five seconds apart; a sweep of a busy house takes a few more.
LATE_S: Final = 20.0
# A server that has just begun waits so long for the first heartbeat before it misses it.
STARTING_S: Final = 30.0
# A checkpoint is signed every minute at least.
UNSEALED_S: Final = 180.0
LEAST_FREE_BYTES: Final = 8_000_000
REDIS_WAIT_S: Final = 1.0

_began_s = time.monotonic()


def examine() -> dict[str, str]:
    """Each part with what is wrong with it; an empty text where it is well."""
    try:
        LedgerEntry.objects.order_by("-id").values_list("id", flat=True).first()
        beaten_at = silent_agents.last_round_at()
        superseded = boots.is_superseded()
        recovering = current_epoch.is_recovering()
        sealed_at = proofs.sealed_at()
        failing_since = sweep_rounds.failing_since()
        reports = witnesses.reports()
        now = clock.now()
    except DatabaseError:
        connection.close()
        return {"database": "the database does not answer", **_without_database()}
    found = {
        "database": "another server has taken the database" if superseded else "",
        "sweeper": _fault_of_sweeper(beaten_at, failing_since, now=now),
        # In recovery nothing is sealed on purpose.
        "sealer": "" if recovering else _fault_of_sealer(sealed_at, now=now),
        "recovery": "a backup was restored: see manage.py leave_recovery" if recovering else "",
    }
    if reports:
        # In recovery nothing is sent on purpose.
        found["witness"] = "" if recovering else _fault_of_witnesses(reports, now=now)
    return found | _without_database()


def free_bytes() -> int | None:
    """Room left beside the database's file; None where the database is not a file."""
    if connection.vendor != "sqlite":
        return None
    found = os.statvfs(settings.DATA_DIR)
    return found.f_bavail * found.f_frsize


def _without_database() -> dict[str, str]:
    free, dead = free_bytes(), embedded.list_dead_threads()
    found = {
        "disk": ""
        if free is None or free >= LEAST_FREE_BYTES
        else f"{free // 1_000_000} MB are free on the disk of the data folder",
        "threads": f"a thread has stopped: {', '.join(dead)}" if dead else "",
    }
    if settings.REDIS_URL:
        found["redis"] = ""
        try:
            with redis.Redis.from_url(
                settings.REDIS_URL, socket_connect_timeout=REDIS_WAIT_S, socket_timeout=REDIS_WAIT_S
            ) as client:
                client.ping()
        except redis.RedisError:
            found["redis"] = "Redis does not answer: nothing is executed until it does"
    return found


def _fault_of_sealer(sealed_at: datetime | None, *, now: datetime) -> str:
    if time.monotonic() - _began_s < STARTING_S:
        return ""
    if sealed_at is None:
        return "the ledger has never been sealed"
    late = now - sealed_at
    # A clock that was set back signs no earlier time, so a checkpoint of the future is no fault.
    if late > timedelta(seconds=UNSEALED_S):
        return f"the ledger has not been sealed for {late.total_seconds():.0f} s: see manage.py verify_ledger"
    return ""


def _fault_of_witnesses(reports: Sequence[WitnessReport], *, now: datetime) -> str:
    faults = []
    for report in reports:
        if report.state is not None and report.state.finding:
            faults.append(f"{report.name}: {report.state.finding} is not what this ledger signed")
        elif time.monotonic() - _began_s >= STARTING_S and report.is_late(now):
            error = report.state.error if report.state is not None else ""
            faults.append(f"{report.name} has no new checkpoint{': ' if error else ''}{error}")
    return "; ".join(faults)


def _fault_of_sweeper(beaten_at: datetime | None, failing_since: datetime | None, *, now: datetime) -> str:
    if time.monotonic() - _began_s >= STARTING_S:
        if beaten_at is None:
            return "the sweeper has never run"
        # A clock that was set back leaves the last heartbeat in the future; the next one puts that right.
        late = abs(now - beaten_at)
        if late > timedelta(seconds=LATE_S):
            return f"the sweeper has sent no heartbeat for {late.total_seconds():.0f} s"
    # One failure may pass; what fails in each round needs a person.
    if failing_since is not None and abs(now - failing_since) > timedelta(seconds=LATE_S):
        return "the sweeper fails in every round: see its log"
    return ""
