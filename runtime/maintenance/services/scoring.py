"""Scorecards of flows that have ended: worked out off the request, each in a transaction of its own.

A flow's row says that a scorecard is due; whoever finds it locks the flow and looks again. The entry and the
record that takes the place of the one before are written together, so a crash leaves neither.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Final
from uuid import UUID

from audit import actors
from audit.events import RecordScored, ScoreEntry
from audit.records import emission, evaluators
from runtime.core import clock, transactions
from runtime.epochs.services import epochs
from runtime.flows.models import Flow
from runtime.flows.queries import judged_rules
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal

BATCH: Final = 100
# A backlog is worked off batch by batch; what comes after this many waits for the next round.
_MOST_BATCHES: Final = 5
# One that could not be scored is tried again after this long, and does not keep the others waiting.
_REST_S: Final = 60.0

_resting: dict[UUID, float] = {}
_log = logging.getLogger(__name__)


def score_due(*, is_stopping: Callable[[], bool] = lambda: False) -> int:
    """Score what has ended since the last round; returns how many records were scored.

    Any number of workers may do so at once. Nothing is scored while a restored backup waits for an admin.
    """
    if epochs.refuse_while_recovering() is not None:
        return 0
    scored = 0
    for _ in range(_MOST_BATCHES):
        found = _list_due()
        for dfid in found:
            if is_stopping():
                return scored
            scored += _score_quietly(dfid)
        if len(found) < BATCH:
            break
    return scored


def score(dfid: UUID) -> bool:
    """Score the last record of a flow, unless that is done; in the caller's transaction."""
    flow = locks.lock_one(dfid=dfid)
    if flow is None or not flow.score_due:
        return False
    newest = _newest(flow)
    if newest.since:
        # Something came after the end while no record followed such entries: a record says it first.
        Journal(flow=flow, actor=actors.SYSTEM, at=clock.now()).write()
        newest = _newest(flow)
    if newest.record is None:
        raise LookupError(f"flow {dfid} has ended, and has no decision record")
    scored = evaluators.evaluate(newest.record)
    journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
    journal.add(
        RecordScored(
            record_id=newest.record["record_id"],
            record_hash=newest.record_hash,
            suite=scored.suite,
            result=scored.result,
            reason=scored.reason,
            scores=tuple(ScoreEntry(**asdict(score)) for score in scored.scores),
        )
    )
    journal.write()
    return True


def _list_due() -> list[UUID]:
    """The longest waiting first, by when they were opened."""
    now_s = time.monotonic()
    for dfid in [dfid for dfid, until_s in _resting.items() if until_s <= now_s]:
        del _resting[dfid]
    due = Flow.objects.filter(score_due=True).exclude(dfid__in=list(_resting))
    return list(due.order_by("dfid").values_list("dfid", flat=True)[:BATCH])


def _score_quietly(dfid: UUID) -> bool:
    try:
        return transactions.retry_on_conflict(partial(score, dfid))
    except Exception:
        _log.exception("the last record of flow %s could not be scored", dfid)
        _resting[dfid] = time.monotonic() + _REST_S
        return False


def _newest(flow: Flow) -> emission.Newest:
    return emission.newest(
        tenant=flow.tenant, dfid=flow.dfid, head_seq=flow.head_seq, find_rules=judged_rules.find_stored
    )
