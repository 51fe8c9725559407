"""Runs that replay every flow of a period: begun and cancelled by people, worked off in batches by workers.

The row of a run says how far it is, and moves with the results of a batch in one transaction: after a crash
another worker goes on behind the last flow that is counted. What is under way is held by a lease.
"""

import json
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError
from django.db.models import Q

from audit import actors, canonical, events, ledger
from audit.live import hints
from audit.live.topics import Topic
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.replay_run import LONGEST_VALUE, MOST_FINDINGS, FindingResult, ReplayRunState
from runtime.core import clock, ids, transactions
from runtime.epochs.services import epochs
from runtime.flows.models import Flow
from runtime.maintenance.models import ReplayFinding, ReplayRun
from runtime.maintenance.queries import replay_run_list
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import NotReplayable, ReplayDifference

BATCH: Final = 50
# A batch ends after this long, so that the page sees it move; a round ends, so that others have their turn.
BATCH_S: Final = 1.0
ROUND_S: Final = 10.0
# The row of a worker that crashed is free again after this long.
LEASE: Final = timedelta(seconds=60)
_LONGEST_PATH: Final = 1000
_LONGEST_ROW_ID: Final = 200
_FIRST: Final = UUID(int=0)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the replay of one flow came to: the name of a count of the run, and what is listed of it."""

    dfid: UUID
    counts: str
    finding: ReplayFinding | None = None

    def told(self) -> list[Any]:
        """What the digest of the results is over."""
        return [
            str(self.dfid),
            self.counts,
            *([] if self.finding is None else replay_run_list.told(self.finding)[2:]),
        ]


@transactions.retried
def start(
    *, tenant: str, actor: str, since: datetime | None = None, until: datetime | None = None
) -> ReplayRun | Problem:
    """Begin a run over the flows that were opened from `since` until `until`; by default over all there are.

    When a flow was opened is taken from its id. 409 while another run is under way.
    """
    if (refused := epochs.refuse_while_recovering()) is not None:
        return refused
    if since is not None and until is not None and since >= until:
        return Problem(
            code=ProblemCode.INVALID_REQUEST, status=400, detail="A period must end after it begins."
        )
    if ReplayRun.objects.of(tenant).filter(state=ReplayRunState.RUNNING).exists():
        return _wrong_state("A run is under way: wait until it ends, or cancel it.")
    cursor = _FIRST if since is None else ids.first_id_of(since)
    last = flow_replay.newest_flow(tenant=tenant) or _FIRST
    last = last if until is None else min(last, ids.first_id_of(until))
    # The unique constraint lets one of two at a time through; the other one is tried again.
    row = ReplayRun.objects.create(
        tenant=tenant,
        since=since,
        until=until,
        cursor=cursor,
        last_dfid=last,
        flows=flow_replay.count_flows_between(tenant=tenant, after=cursor, last=last),
        started_by=actor,
        started_at=_time(tenant),
    )
    started = events.ReplayRunStarted(
        run_id=str(row.pk), since=since, until=until, last_dfid=str(last), flows=row.flows
    )
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=row.started_at, events=[started])
    return row


@transactions.retried
def cancel(*, tenant: str, run_id: UUID, actor: str) -> ReplayRun | Problem:
    """End a run at once; what was counted stays, and what is under way is thrown away."""
    row = ReplayRun.objects.of(tenant).select_for_update().filter(pk=run_id).first()
    if row is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No replay run has this id.")
    if row.state != ReplayRunState.RUNNING:
        return _wrong_state("This run has ended.")
    _end(row, ReplayRunState.CANCELLED, actor=actor)
    return row


def work_due(*, is_stopping: Callable[[], bool] = lambda: False) -> int:
    """Work for a while on each run that nobody holds; returns how many flows were replayed."""
    running = ReplayRun.objects.filter(state=ReplayRunState.RUNNING).values_list("pk", flat=True)
    return sum(work(run_id, is_stopping=is_stopping) for run_id in list(running))


def work(run_id: UUID, *, is_stopping: Callable[[], bool] = lambda: False) -> int:
    """Work for a while on one run, unless another worker holds it; returns how many flows were counted.

    Nothing is replayed while a restored backup waits for an admin.
    """
    if epochs.refuse_while_recovering() is not None:
        return 0
    token = secrets.token_hex(16)
    if not _take(run_id, token):
        return 0
    counted, ends_s = 0, time.monotonic() + ROUND_S
    try:
        while time.monotonic() < ends_s and not is_stopping():
            row = ReplayRun.objects.get(pk=run_id)
            due = flow_replay.list_flows_between(
                tenant=row.tenant, after=row.cursor, last=row.last_dfid, size=BATCH
            )
            results = _replay(row, due, is_stopping)
            if not _store(run_id, token, results, is_last=not due):
                return counted
            counted += len(results)
    finally:
        _give_back(run_id, token)
    return counted


def _replay(row: ReplayRun, due: Sequence[UUID], is_stopping: Callable[[], bool]) -> list[Result]:
    """The results of some flows, as many as there is time for; of one at least."""
    results, ends_s = list[Result](), time.monotonic() + BATCH_S
    for dfid in due:
        results.append(_result_of(row, dfid))
        if time.monotonic() >= ends_s or is_stopping():
            break
    return results


def _result_of(row: ReplayRun, dfid: UUID) -> Result:
    try:
        found = flow_replay.replay(tenant=row.tenant, dfid=dfid)
    except DatabaseError:
        raise  # that says nothing of the flow
    except Exception as error:
        # One flow must not keep the run from its end.
        _log.exception("the flow %s could not be replayed", dfid)
        failed = ReplayFinding(
            run=row, dfid=dfid, result=FindingResult.FAILED, change=type(error).__name__[:32]
        )
        return Result(dfid=dfid, counts="failed", finding=failed)
    if isinstance(found, NotReplayable):
        return Result(dfid=dfid, counts="erased")
    if isinstance(found, ReplayDifference):
        return Result(dfid=dfid, counts="different", finding=_finding(row, found))
    return Result(dfid=dfid, counts="equal")


def _finding(row: ReplayRun, found: ReplayDifference) -> ReplayFinding:
    return ReplayFinding(
        run=row,
        dfid=found.dfid,
        result=FindingResult.DIFFERENT,
        change=found.change.value,
        path=_text(found.path, _LONGEST_PATH),
        seq=found.seq,
        row=_text(found.row, 80),
        row_id=_text(found.row_id, _LONGEST_ROW_ID),
        recorded=json.dumps(found.recorded, default=str)[:LONGEST_VALUE],
        found=json.dumps(found.found, default=str)[:LONGEST_VALUE],
    )


@transactions.retried
def _store(run_id: UUID, token: str, results: Sequence[Result], *, is_last: bool) -> bool:
    """Count a batch and move the cursor, or end the run after the last one; False where it does not go on."""
    found = [result.finding for result in results if result.finding is not None]
    # Locked, so that no erasure comes between: it would not see the values that are written here.
    flows = Flow.objects.select_for_update().filter(pk__in=[each.dfid for each in found]).order_by("dfid")
    erased = {pk for pk, erased_at in flows.values_list("pk", "erased_at") if erased_at is not None}
    held = ReplayRun.objects.select_for_update().filter(pk=run_id, lease_owner=token)
    row = held.filter(state=ReplayRunState.RUNNING).first()
    if row is None:
        return False  # cancelled, or taken over
    for finding in found:
        finding.pk = None
        if finding.dfid in erased:
            finding.recorded = finding.found = ""
    ReplayFinding.objects.bulk_create(found[: max(0, MOST_FINDINGS - row.findings.count())])
    for result in results:
        setattr(row, result.counts, getattr(row, result.counts) + 1)
        row.results_digest = sha256(
            bytes.fromhex(row.results_digest) + canonical.encode(result.told())
        ).hexdigest()
        row.cursor = result.dfid
    row.lease_until = clock.now() + LEASE
    row.save()
    if is_last:
        _end(row, ReplayRunState.DONE, actor=actors.SYSTEM)
    else:
        hints.hint_after_commit(tenant=row.tenant, streams=(Topic.REPLAYS,), seq=row.replayed)
    return not is_last


def _end(row: ReplayRun, state: ReplayRunState, *, actor: str) -> None:
    findings = list(row.findings.order_by("dfid"))
    row.state, row.ended_by, row.ended_at = state, actor, _time(row.tenant)
    row.lease_owner, row.lease_until = "", None
    row.save()
    ended = events.ReplayRunEnded(
        run_id=str(row.pk),
        state=state,
        equal=row.equal,
        different=row.different,
        erased=row.erased,
        failed=row.failed,
        results_digest=row.results_digest,
        findings=len(findings),
        findings_digest=replay_run_list.digest_of(findings),
    )
    ledger.append_to(tenant=row.tenant, stream=actors.SYSTEM, actor=actor, at=row.ended_at, events=[ended])


@transactions.retried
def _take(run_id: UUID, token: str) -> bool:
    at = clock.now()
    free = Q(lease_owner="") | Q(lease_until__lte=at)
    rows = ReplayRun.objects.filter(free, pk=run_id, state=ReplayRunState.RUNNING)
    return rows.update(lease_owner=token, lease_until=at + LEASE) == 1


@transactions.retried
def _give_back(run_id: UUID, token: str) -> None:
    rows = ReplayRun.objects.filter(pk=run_id, lease_owner=token)
    rows.update(lease_owner="", lease_until=None)


def _text(given: object, longest: int) -> str:
    # PostgreSQL keeps no NUL in a text, and a tampered cell of SQLite may hold one.
    return str(given).replace("\x00", "\ufffd")[:longest]


def _wrong_state(detail: str) -> Problem:
    return Problem(code=ProblemCode.REPLAY_RUN_NOT_IN_THAT_STATE, detail=detail)


def _time(tenant: str) -> datetime:
    return ledger.time_of_next(tenant=tenant, stream=actors.SYSTEM, at=clock.now())
