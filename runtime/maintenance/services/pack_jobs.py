"""Making an evidence pack for a person beside the request that asks for it, with its progress in the cache.

One pack of a flow is made at a time for a person, whatever they click and in however many windows: who makes
one holds a lock, which ends with it, or a minute after its last sign of life where its process was ended. The
pack is kept for a while to be downloaded; it is not a record, and can be made again at any time.
"""

import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.core.cache import cache
from django.db import connections

from audit.live.background import PerProcess
from audit.packs import export, progress
from audit.packs.progress import Stage, Watch
from runtime.flows.models import Flow
from runtime.maintenance.services import evidence_packs

KEPT_S: Final = 600
# A sign of life comes every EVERY_S; the lock of a process that was ended holds so long.
LEASE_S: Final = 60
EVERY_S: Final = 0.5
_AT_ONCE: Final = 2
_log = logging.getLogger(__name__)
_builders: Final = PerProcess(lambda: ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="evidence-packs"))


class State(StrEnum):
    """What became of a pack that somebody asked for."""

    RUNNING = "RUNNING"
    READY = "READY"
    NOT_SEALED = "NOT_SEALED"
    FAILED = "FAILED"
    # Its process ended, and nobody makes it any more.
    LOST = "LOST"


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A pack that is being made, or was made a moment ago; `size` in bytes once it is ready."""

    state: State
    stage: Stage = Stage.SEALING
    done: int = 0
    total: int = 0
    size: int = 0

    @property
    def per_cent(self) -> int:
        """How much of it is done."""
        return 100 if self.state is State.READY else progress.per_cent(self.stage, self.done, self.total)


class BusyError(Exception):
    """A pack of this flow is being made for this person."""


@dataclass(frozen=True, slots=True)
class Place:
    """Whose pack of which flow, by the names of its places in the cache."""

    tenant: str
    actor: str
    dfid: UUID

    def key(self, what: str) -> str:
        """The name of one place."""
        return f"pack-{what}-{self.tenant}-{self.actor}-{self.dfid}"


def start(place: Place, *, run: Callable[[Callable[[], None]], Any] | None = None) -> Job:
    """Begin to make a pack, unless one is being made: then the answer is how far that is.

    `run` runs the work; without it, a thread of this process does.
    """
    token = _lock(place)
    if token is None:
        return find(place) or Job(state=State.RUNNING)
    begun = Job(state=State.RUNNING)
    cache.set(place.key("job"), begun, timeout=KEPT_S)
    cache.delete(_file(place))
    work = partial(_make, place, token)
    if run is None:
        _builders.get().submit(_on_a_thread, work)
    else:
        run(work)
    return find(place) or begun


def find(place: Place) -> Job | None:
    """How far it is; None where none was asked for lately."""
    job: Job | None = cache.get(place.key("job"))
    if job is None or job.state is not State.RUNNING or cache.get(place.key("lock")) is not None:
        return job
    # The lock goes after the last word was written, so that is read again.
    last: Job | None = cache.get(place.key("job"))
    return Job(state=State.LOST) if last is None or last.state is State.RUNNING else last


def take(place: Place) -> bytes | None:
    """The pack that was made; None where there is none any more."""
    pack: bytes | None = cache.get(_file(place))
    return pack


def _file(place: Place) -> str:
    """Where the pack lies: elsewhere after each erasure, so that nobody takes words that are gone."""
    flow = Flow.objects.filter(tenant=place.tenant, pk=place.dfid)
    erased = flow.values_list("erased_at", flat=True).first()
    return place.key(f"file-{erased.timestamp():.6f}" if erased else "file")


@contextmanager
def alone(place: Place) -> Iterator[None]:
    """Hold the lock while the caller makes a pack itself. Raises BusyError where one is being made."""
    token = _lock(place)
    if token is None:
        raise BusyError
    try:
        yield
    finally:
        _unlock(place, token)


def _lock(place: Place) -> str | None:
    token = secrets.token_hex(8)
    return token if cache.add(place.key("lock"), token, timeout=LEASE_S) else None


def _unlock(place: Place, token: str) -> None:
    if cache.get(place.key("lock")) == token:
        cache.delete(place.key("lock"))


def _make(place: Place, token: str) -> None:
    """Make it and leave it in the cache."""
    job, file = Job(state=State.FAILED), _file(place)
    try:
        with _reporting(place) as watch:
            pack = evidence_packs.make(tenant=place.tenant, dfid=place.dfid, watch=watch)
        if pack is not None:
            cache.set(file, pack, timeout=KEPT_S)
            job = Job(state=State.READY, size=len(pack))
    except export.NotSealedError:
        job = Job(state=State.NOT_SEALED)
    except Exception:
        _log.exception("no evidence pack could be made of %s", place.dfid)
    finally:
        cache.set(place.key("job"), job, timeout=KEPT_S)
        _unlock(place, token)


@contextmanager
def _reporting(place: Place) -> Iterator[Watch]:
    """Write down how far it is, and that it lives, from a thread of its own.

    The cache of production is a table, and a pack is made in a snapshot, in which nothing can be written.
    """
    seen, ended = [Job(state=State.RUNNING)], threading.Event()

    def watch(stage: Stage, done: int, total: int) -> None:
        seen[0] = Job(state=State.RUNNING, stage=stage, done=done, total=total)

    def report() -> None:
        while not ended.wait(EVERY_S):
            cache.set(place.key("job"), seen[0], timeout=KEPT_S)
            cache.touch(place.key("lock"), LEASE_S)

    reporter = threading.Thread(
        target=_on_a_thread, args=[report], name="evidence-pack-progress", daemon=True
    )
    reporter.start()
    try:
        yield watch
    finally:
        ended.set()
        reporter.join()


def _on_a_thread(work: Callable[[], None]) -> None:
    """Run the work, and give the thread's connections back."""
    try:
        work()
    finally:
        connections.close_all()
