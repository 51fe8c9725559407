"""Rounds of retention: the words of flows whose time is over are erased, one flow in one transaction.

A round goes through the flows that are due, by kind and end, and leaves alone what must be kept. Where it
stopped is stored, so a crash costs nothing and any number of workers may do so at once.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from audit import actors
from runtime.contracts.problem import Problem
from runtime.contracts.retention import KeptBecause
from runtime.core import clock
from runtime.epochs.services import epochs
from runtime.flows.models import Flow
from runtime.maintenance.models import ONLY, RetentionRound
from runtime.maintenance.queries import retention
from runtime.maintenance.queries.retention import Place, RetentionClass
from runtime.maintenance.services import erasure

BATCH: Final = 50
# What is due beyond this waits for the next ring, a minute later.
MOST_BATCHES: Final = 10
# From the end of a round until the next begins: what was kept is looked at again once a day.
REST: Final = timedelta(days=1)
_CHANGED: Final = "Its policy kind has another time now."

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Looked:
    """What came of one flow: erased (or would be), kept because of something, or neither: without words.

    `detail` says more of why it is kept, in words.
    """

    dfid: UUID
    of: RetentionClass
    is_erased: bool = False
    kept: KeptBecause | None = None
    detail: str = ""


@dataclass(kw_only=True)
class Totals:
    """How many flows were erased, kept by reason, had no words, or could not be erased (see the log)."""

    erased: int = 0
    kept: Counter[KeptBecause] = field(default_factory=Counter)
    without_words: int = 0
    failed: int = 0

    def add(self, looked: Looked) -> None:
        """Count one."""
        if looked.is_erased:
            self.erased += 1
        elif looked.kept is not None:
            self.kept[looked.kept] += 1
        else:
            self.without_words += 1


def walk(*, tenant: str, totals: Totals, dry_run: bool = False) -> Iterator[Looked]:
    """Look at every flow that is due, once, and erase what may go; `totals` counts along.

    With `dry_run` nothing is written. Without, a flow that could not be erased is logged and left out.
    """
    at = clock.now()
    for of in retention.list_classes(tenant=tenant):
        after: Place | None = None
        while flows := retention.list_due(of, tenant=tenant, at=at, after=after, limit=BATCH):
            after = _place_of(flows[-1])
            for looked in _look(flows, of, tenant=tenant, totals=totals, dry_run=dry_run):
                totals.add(looked)
                yield looked


def erase_due(*, tenant: str, is_stopping: Callable[[], bool] = lambda: False) -> Totals:
    """Go on with the round where it stopped, for `MOST_BATCHES` batches at most."""
    totals = Totals()
    classes = retention.list_classes(tenant=tenant)
    if not classes or epochs.refuse_while_recovering() is not None:
        return totals
    at = clock.now()
    first = RetentionRound(only=ONLY, began_at=at, next_at=at)
    RetentionRound.objects.bulk_create([first], ignore_conflicts=True)
    for _ in range(MOST_BATCHES):
        stored = RetentionRound.objects.get(only=ONLY)
        if is_stopping() or stored.next_at > at:
            break
        of, flows = _next(stored, classes, tenant=tenant, at=at)
        if of is None:
            _store(stored, kind="", ended_at=None, dfid=None, began_at=at, next_at=at + REST)
            break
        for looked in _look(flows, of, tenant=tenant, totals=totals, is_stopping=is_stopping):
            totals.add(looked)
        if is_stopping():
            break
        ended_at, dfid = _place_of(flows[-1])
        _store(stored, kind=of.kind, ended_at=ended_at, dfid=dfid)
    return totals


def _next(
    stored: RetentionRound, classes: Sequence[RetentionClass], *, tenant: str, at: datetime
) -> tuple[RetentionClass | None, Sequence[Flow]]:
    """The next flows of the round with their class; None at its end."""
    for of in classes:
        if of.kind < stored.kind:
            continue
        after = retention.place_in(stored, of)
        flows = retention.list_due(of, tenant=tenant, at=at, after=after, limit=BATCH)
        if flows:
            return of, flows
    return None, []


def _store(stored: RetentionRound, **columns: object) -> None:
    """Another worker may have come further meanwhile: then its place counts."""
    rows = RetentionRound.objects.filter(
        only=ONLY, kind=stored.kind, dfid=stored.dfid, began_at=stored.began_at
    )
    rows.update(**columns)


def _look(
    flows: Sequence[Flow],
    of: RetentionClass,
    *,
    tenant: str,
    totals: Totals,
    dry_run: bool = False,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Iterator[Looked]:
    kept = retention.why_kept(flows, tenant=tenant)
    for flow in flows:
        if is_stopping():
            return
        if flow.pk in kept:
            yield Looked(flow.pk, of, kept=kept[flow.pk])
            continue
        try:
            yield _try_out(flow, of) if dry_run else _erase(flow, of, tenant=tenant)
        except Exception:
            _log.exception("the words of flow %s could not be erased", flow.pk)
            totals.failed += 1


def _try_out(flow: Flow, of: RetentionClass) -> Looked:
    why = erasure.why_kept(flow)
    if why:
        return Looked(flow.pk, of, kept=KeptBecause.UNSETTLED, detail=why)
    return Looked(flow.pk, of, is_erased=True)


def _erase(flow: Flow, of: RetentionClass, *, tenant: str) -> Looked:
    """Erase one flow, of which all is asked again under its lock."""
    found: list[KeptBecause] = []

    def also_kept(locked: Flow) -> str:
        found[:] = retention.why_kept([locked], tenant=tenant).values()
        if found:
            return found[0].value
        is_due = of in retention.list_classes(tenant=tenant) and locked.policy_kind == of.kind
        return "" if is_due else _CHANGED

    answer = erasure.erase(
        tenant=tenant, dfids=[flow.pk], reason=of.reason, actor=actors.SYSTEM, also_kept=also_kept
    )
    if isinstance(answer, Problem):
        return Looked(flow.pk, of, kept=KeptBecause.UNSETTLED, detail=answer.detail)
    if answer.kept:
        why = found[0] if found else KeptBecause.UNSETTLED
        return Looked(flow.pk, of, kept=why, detail=answer.kept[0].why)
    return Looked(flow.pk, of, is_erased=bool(answer.flows))


def _place_of(flow: Flow) -> Place:
    if flow.ended_at is None:
        raise ValueError(f"flow {flow.pk} has not ended")
    return flow.ended_at, flow.pk
