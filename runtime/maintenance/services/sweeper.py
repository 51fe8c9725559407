"""The sweeper: finds what a crash, a lost message or silence left behind; a lost doorbell costs seconds.

Ids are chosen without a lock; each item is then locked, checked again and repaired in a transaction of its
own, so that one bad row stops no other.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar
from uuid import UUID

from django.conf import settings

from audit import actors
from runtime.advice.queries import consultations as asked
from runtime.advice.services import consultations
from runtime.contexts.services import usage
from runtime.contracts.reasons import Reason
from runtime.contracts.states import OPEN_TO_PROPOSALS, FeedbackType, FlowState
from runtime.conversations.queries import mailboxes
from runtime.conversations.services import capabilities, delivering
from runtime.core import clock, ports, transactions
from runtime.epochs.services import epochs
from runtime.execution.queries import unrecorded
from runtime.execution.services import callback_reports, callbacks, human_steps, lost_calls
from runtime.flows.queries import due_intents
from runtime.flows.services import leases, locks
from runtime.flows.services.flow_transaction import Journal
from runtime.guards.queries import due_runs
from runtime.incidents.services import rule_rounds
from runtime.maintenance.services import autonomy_rounds, restores, watchdog
from runtime.registry.queries import group_members
from runtime.registry.services import membership_history, signins
from runtime.resources.queries import resource_facts

BATCH = 100
# A due intent is rung at once and then every few seconds: a full queue must not be filled again each second.
# Two seconds of each ten, since a sweep may come late; ten times as many as other items, since a lost queue
# must be refilled before the windows end.
_FRESH_S = 2
_REPEAT_S = 10
_RING_BATCH = 1000

Item = TypeVar("Item")
Result = TypeVar("Result")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """How many items of each sort were repaired, and how many could not be."""

    orphans: int = 0
    rung: int = 0
    escalations: int = 0
    idle_flows: int = 0
    overdue_flows: int = 0
    tasks: int = 0
    callbacks: int = 0
    leases: int = 0
    guards: int = 0
    silences: int = 0
    memberships: int = 0
    signins: int = 0
    incidents: int = 0
    messages: int = 0
    consultations: int = 0
    results: int = 0
    lowered: int = 0
    failed: int = 0


@dataclass(kw_only=True)
class _Round:
    """One round: what cannot be done is logged and counted, and costs the rest of the round nothing."""

    failed: int = 0

    def repair_each(self, items: Iterable[Item], repair: Callable[[Item], bool]) -> int:
        """Repair each item in a transaction of its own; returns how many were repaired."""
        repaired = 0
        for item in items:
            try:
                repaired += transactions.retry_on_conflict(partial(repair, item))
            except Exception:
                _log.exception("the sweeper could not repair %s", item)
                self.failed += 1
        return repaired

    def result_of(self, what: str, work: Callable[[], Result]) -> Result | None:
        """What `work` returns, or None where it raises; `what` names it in the log."""
        try:
            return work()
        except Exception:
            _log.exception("the sweeper could not %s", what)
            self.failed += 1
            return None


def sweep(*, is_thorough: bool = True) -> SweepResult:
    """One round over everything; bounded, and safe beside workers and other sweepers.

    One that is not thorough leaves out what nobody waits for: each look costs a question, found or not.
    """
    this = _Round()
    undecided = this.result_of(
        "compare the ledger with its mark",
        lambda: restores.list_undecided(limit=BATCH) if epochs.compare_with_mark() else [],
    )
    this.repair_each(undecided or (), restores.put_in_doubt)
    at = clock.now()
    orphans = this.repair_each(lost_calls.list_lost(at=at, limit=BATCH), lost_calls.rescue)
    tasks = this.repair_each(human_steps.list_overdue(at=at, limit=BATCH), human_steps.expire)
    late = this.repair_each(callbacks.list_overdue(at=at, limit=BATCH), callback_reports.expire)
    overdue = resource_facts.list_overdue(at=at, states=OPEN_TO_PROPOSALS, limit=BATCH)
    overdue_flows = this.repair_each(overdue, usage.stop_overdue)
    lapsed = resource_facts.list_lapsed(at=at, limit=BATCH)
    released = this.repair_each(lapsed, leases.release_lapsed)
    escalations = this.result_of("expire escalations", ports.expire_escalations) or 0
    incidents = this.result_of("count what rules of incidents ask for", rule_rounds.run) or 0
    messages = this.repair_each(mailboxes.list_overdue(at=at, limit=BATCH), delivering.bury)
    unanswered = this.repair_each(asked.list_overdue(at=at, limit=BATCH), consultations.expire)
    stirred = this.result_of("look for agents to count anew", partial(autonomy_rounds.list_due, at=at))
    lowered = this.repair_each(stirred or (), autonomy_rounds.lower_one)
    due = due_intents.list_due(at=at, limit=_RING_BATCH)
    rung = [item.intent_id for item in due if _is_its_turn(at, item.next_at)]
    if rung:
        ports.ring(rung)
    runs = due_runs.list_due(at=at, limit=_RING_BATCH)
    guards = [pk for pk, next_at in runs if _is_its_turn(at, next_at)]
    if guards:
        ports.ring_guards(guards)
    patient = _sweep_patiently(this, at=at) if is_thorough else SweepResult()
    return replace(
        patient,
        orphans=orphans,
        rung=len(rung),
        guards=len(guards),
        escalations=escalations,
        overdue_flows=overdue_flows,
        tasks=tasks,
        callbacks=late,
        leases=released,
        incidents=incidents,
        messages=messages,
        consultations=unanswered,
        lowered=lowered,
        failed=this.failed,
    )


def _sweep_patiently(this: _Round, *, at: datetime) -> SweepResult:
    """What may be some seconds late."""
    misread = unrecorded.list_taken_as_refused(tenant=settings.DIR_TENANT, limit=BATCH)
    this.repair_each(misread, lost_calls.put_in_doubt)
    idle = due_intents.list_idle_flows(at=at, idle_s=settings.DIR_FLOW_TTL_S, limit=BATCH)
    silent = this.result_of("look for silent agents", partial(watchdog.find_silent_agents, at=at))
    return SweepResult(
        idle_flows=this.repair_each(idle, _abort_idle),
        silences=this.repair_each(silent or (), watchdog.reconcile),
        signins=this.repair_each(signins.list_minutes(at=at, limit=BATCH), signins.record_minute),
        memberships=this.repair_each(group_members.list_unnoted(limit=BATCH), membership_history.note_one),
        results=this.repair_each(asked.list_uncounted(limit=BATCH), capabilities.count_result),
    )


def expire_all_leases() -> int:
    """Rescue every claimed intent: only for a start under the exclusive lock, when no worker can be alive."""
    rescued = 0
    while orphans := due_intents.list_orphans(at=None, limit=BATCH):
        repaired = _Round().repair_each(orphans, partial(lost_calls.rescue, even_leased=True))
        if not repaired:
            break
        rescued += repaired
    return rescued


def _abort_idle(dfid: UUID) -> bool:
    flow = locks.lock_flow(dfid=dfid)
    if flow is None:
        return False
    journal = Journal(flow=flow, actor=actors.SYSTEM, at=clock.now())
    idle_since = journal.at - timedelta(seconds=settings.DIR_FLOW_TTL_S)
    if flow.state not in OPEN_TO_PROPOSALS or flow.updated_at > idle_since:
        return False
    if due_intents.has_stirring_children(flow=flow, since=idle_since):
        return False
    journal.transition(FlowState.ABORTED, reason=Reason.IDLE_TOO_LONG)
    journal.notify_agent(FeedbackType.FLOW_ABORTED, {"reason": Reason.IDLE_TOO_LONG.value})
    journal.write()
    return True


def _is_its_turn(at: datetime, next_at: datetime) -> bool:
    return int((at - next_at).total_seconds()) % _REPEAT_S < _FRESH_S
