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
    at, after = clock.now(), ""
    while old_facts.list_classes():
        found, last = old_facts.list_old(tenant=tenant, at=at, after=after)
        if last is None:
            return
        if dry_run:
            yield from found
        else:
            gone = _prune_again(tenant=tenant, at=at, after=after)
            yield from gone
            while _has_more(gone):
                gone = _prune_again(tenant=tenant, at=at, after=after)
                yield from gone
        after = last


@transactions.retried
def _prune_next(*, tenant: str, at: datetime) -> int | None:
    """Delete what is due of the next facts of the round; None at its end, and while it rests."""
    stored = row_locks.lock_or_create(FactRound.objects.filter(only=ONLY), only=ONLY, next_at=at)
    if stored.next_at > at:
        return None
    found, last = old_facts.list_old(tenant=tenant, at=at, after=stored.path)
    gone = _delete(found, tenant=tenant, at=at)
    if last is None:
        stored.path, stored.next_at = "", at + REST
    elif not _has_more(gone):
        stored.path = last
    stored.save()
    return None if last is None else sum(old.count for old in gone)


@transactions.retried
def _prune_again(*, tenant: str, at: datetime, after: str) -> list[OldVersions]:
    """Delete what is due of the facts after a path, whatever the round has come to."""
    row_locks.lock_or_create(FactRound.objects.filter(only=ONLY), only=ONLY, next_at=at)
    found, _ = old_facts.list_old(tenant=tenant, at=at, after=after)
    return _delete(found, tenant=tenant, at=at)


def _has_more(gone: Sequence[OldVersions]) -> bool:
    """Whether a fact may have more versions that are over their time than go at once."""
    return any(old.count >= old_facts.VERSIONS_AT_ONCE for old in gone)


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
