"""Rounds that delete versions of facts whose time is over, some hundred facts in one transaction.

What is deleted is recorded in the same transaction, so `verify_ledger` tells it from a row that somebody took
away. The row of the round is the lock: of several workers one goes on, and the others find it further on.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from audit import actors, events, ledger, row_locks
from runtime.core import clock, transactions
from runtime.epochs.services import epochs
from runtime.maintenance.models import ONLY, FactRound
from runtime.maintenance.queries import old_facts
from runtime.maintenance.queries.old_facts import OldVersions
from runtime.state.models import FactVersion

MOST_BATCHES: Final = 10
# From the end of a round until the next begins.
REST: Final = timedelta(days=1)

_log = logging.getLogger(__name__)


def prune_due(*, tenant: str, is_stopping: Callable[[], bool] = lambda: False) -> int:
    """Go on with the round where it stopped, for `MOST_BATCHES` batches at most; how many versions went."""
    if not old_facts.list_classes() or epochs.refuse_while_recovering() is not None:
        return 0
    at, pruned = clock.now(), 0
    for _ in range(MOST_BATCHES):
        went = None if is_stopping() else _prune_next(tenant=tenant, at=at)
        if went is None:
            break
        pruned += went
    return pruned


def walk(*, tenant: str, dry_run: bool = False) -> Iterator[OldVersions]:
    """Look at every fact once, and delete what is over its time; with `dry_run` only say what that is."""
    if not old_facts.list_classes():
        return
    at = clock.now()
    look = old_facts.list_old if dry_run else _prune_after
    after: str | None = ""
    while after is not None:
        found, after = look(tenant=tenant, at=at, after=after)
        yield from found


@transactions.retried
def _prune_next(*, tenant: str, at: datetime) -> int | None:
    """Delete what is due of the next facts of the round; None at its end, and while it rests."""
    stored = _lock(at)
    if stored.next_at > at:
        return None
    gone, after = _prune(tenant=tenant, at=at, after=stored.path)
    if after is None:
        stored.path, stored.next_at = "", at + REST
    else:
        stored.path = after
    stored.save()
    return None if after is None else sum(old.count for old in gone)


@transactions.retried
def _prune_after(*, tenant: str, at: datetime, after: str) -> tuple[list[OldVersions], str | None]:
    """`_prune`, whatever the round has come to."""
    _lock(at)
    return _prune(tenant=tenant, at=at, after=after)


def _lock(at: datetime) -> FactRound:
    return row_locks.lock_or_create(FactRound.objects.filter(only=ONLY), only=ONLY, next_at=at)


def _prune(*, tenant: str, at: datetime, after: str) -> tuple[list[OldVersions], str | None]:
    """Delete what is due of the next facts after a path; what went, and the path after which to go on.

    That is the same path again while a fact has more than goes at once, and None after the last fact.
    """
    found, last = old_facts.list_old(tenant=tenant, at=at, after=after)
    gone = _delete(found, tenant=tenant, at=at)
    has_more = any(old.count >= old_facts.VERSIONS_AT_ONCE for old in gone)
    return gone, after if has_more else last


def _delete(found: Sequence[OldVersions], *, tenant: str, at: datetime) -> list[OldVersions]:
    """Delete these versions and append what went; a fact of which versions are missing is left as it is."""
    gone = list[OldVersions]()
    for old in found:
        rows = FactVersion.objects.filter(tenant=tenant, path=old.path, version__lte=old.through)
        if rows.count() == old.count:
            rows.delete()
            gone.append(old)
        else:
            _log.error("versions of %s are missing, so none is deleted: run verify_ledger", old.path)
    by_class = groupby(sorted(gone, key=lambda old: old.of.selector), key=lambda old: old.of)
    pruned = [
        events.FactsPruned(
            selector=of.selector,
            days=of.days,
            pruned=tuple(
                events.PrunedFact(path=old.path, first=old.first, through=old.through) for old in group
            ),
        )
        for of, group in by_class
    ]
    if pruned:
        ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actors.SYSTEM, at=at, events=pruned)
    return gone
