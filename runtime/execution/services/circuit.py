"""The circuit of a target around a call: checked inside the claim, updated inside the record.

A target that works costs one read and no write. The circuit's row is locked after the intent and before
resources, escalations and heads, and no holder of it locks a flow or an intent.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Final, assert_never

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet

from audit import actors, events, ledger, row_locks, statements
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.receipt import CallResult
from runtime.contracts.states import CircuitState, IntentState
from runtime.contracts.verdict import StepRequest
from runtime.core import clock, ports, transactions
from runtime.execution.adapters.executors import registry
from runtime.execution.models import Circuit
from runtime.execution.services import doubts, intent_transitions
from runtime.flows.models import Intent
from runtime.flows.queries import due_intents
from runtime.flows.queries.intent_plan import CurrentCall, IntentPlan
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import breaker
from runtime.kernel.breaker import Allow, Signal, Trial, WaitUntil
from runtime.registry.models import Target
from runtime.registry.queries.target_endpoints import TargetEndpoint

CIRCUIT_OPEN = "CIRCUIT_OPEN"
PROBE_SUCCEEDED = "PROBE_SUCCEEDED"
_RUNG_AT_ONCE = 1000
# For how long an intent lets a better one go first, and among how many it looks for one.
YIELD = timedelta(seconds=2)
_LOOKED_AT = 50


def probe_of(intent: Intent, *, number: int) -> str:
    """The name under which an attempt would hold the probe."""
    return f"{intent.pk}/{number}"


class Admitted(StrEnum):
    """GO: call. TRIAL: the one call of a half-open circuit. WAIT: the intent is among the waiting again."""

    GO = "GO"
    TRIAL = "TRIAL"
    WAIT = "WAIT"


def try_acquire(
    journal: Journal, intent: Intent, *, current: CurrentCall, place: TargetEndpoint | None
) -> Admitted:
    """Whether the intent's next attempt may call its target; the half-open probe is taken here.

    An intent that must wait does so until the circuit may let it through: no attempt was made, and none
    failed. Not later than the end of its window, so that it ends as EXPIRED on time.
    """
    step = current.step
    if not _has_circuit(step):
        return Admitted.GO
    row = _ROW.first(tenant=intent.tenant, target=step.target)
    if row is None:
        return Admitted.GO
    probe = probe_of(intent, number=intent.attempts + 1)
    admission = breaker.admit(_read(row), probe=probe, at=journal.at, bounds=_bounds())
    match admission:
        case Allow():
            return Admitted.GO
        case Trial(circuit=circuit):
            if _yields(row, intent, current=current, place=place, at=journal.at):
                _wait(journal, intent, until=journal.at + YIELD)
                return Admitted.WAIT
            # Whoever loses this compare-and-swap looks again, and finds the probe taken.
            _write(row, circuit, at=journal.at)
            return Admitted.TRIAL
        case WaitUntil(until=until):
            _wait(journal, intent, until=until)
            return Admitted.WAIT
        case _:
            assert_never(admission)


def _row(*, tenant: str, target: str) -> QuerySet[Circuit]:
    return Circuit.objects.of(tenant).filter(target=target)


_ROW: Final = statements.Read(_row)


def try_acquire_query(*, tenant: str, target: str, probe: str, at: datetime) -> datetime | None:
    """Admit a person's question to a target as any call: None, or until when the circuit lets nobody through.

    In a half-open circuit the question is the trial call, under the name `probe`.
    """
    row = _ROW.first(tenant=tenant, target=target)
    if row is None:
        return None
    admission = breaker.admit(_read(row), probe=probe, at=at, bounds=_bounds())
    if isinstance(admission, WaitUntil):
        return admission.until
    if isinstance(admission, Trial):
        _write(row, admission.circuit, at=at)
    return None


def report_query(journal: Journal, *, target: str, probe: str, result: CallResult | None) -> None:
    """Tell the circuit what a person's question came to; None where it was not sent after all."""
    signal = Signal.NO_SIGNAL if result is None else breaker.signal_of(result)
    _update(journal, target=target, probe=probe, signal=signal)


def _wait(journal: Journal, intent: Intent, *, until: datetime) -> None:
    ends = intent.valid_until
    next_at = until if ends <= journal.at else min(until, ends)
    intent_transitions.reschedule(intent, next_at=next_at, failures=intent.failures)
    journal.add(events.IntentHeld(intent_id=str(intent.pk), why=CIRCUIT_OPEN))


def _yields(
    row: Circuit, intent: Intent, *, current: CurrentCall, place: TargetEndpoint | None, at: datetime
) -> bool:
    """Whether another intent makes the one call of a half-open circuit.

    When that call comes to nothing known, a person must find out what it did, unless it may be sent again or
    asked about: one of those goes first while there is one. Not forever: it may be held back elsewhere.
    """
    if row.retry_at is None or at >= row.retry_at + timedelta(seconds=settings.DIR_LEASE_S):
        return False
    if (place is not None and place.health) or doubts.settles_itself(intent, current=current, place=place):
        return False
    for other in due_intents.list_due_at(tenant=row.tenant, target=row.target, at=at, limit=_LOOKED_AT):
        follows = IntentPlan.of(other).current(other)
        if follows is not None and doubts.settles_itself(other, current=follows, place=place):
            transaction.on_commit(partial(ports.ring, [other.pk]))
            return True
    return False


def report_result(
    journal: Journal,
    intent: Intent,
    *,
    step: StepRequest,
    number: int,
    result: CallResult | None,
    is_unavailable: bool = False,
) -> None:
    """Tell the circuit what attempt `number` came to; None where no call was made after all.

    `is_unavailable`: none was made because the target itself reported that it is unavailable.
    """
    if not _has_circuit(step):
        return
    unasked = Signal.FAILS if is_unavailable else Signal.NO_SIGNAL
    signal = unasked if result is None else breaker.signal_of(result)
    _update(journal, target=step.target, probe=probe_of(intent, number=number), signal=signal)


def _update(journal: Journal, *, target: str, probe: str, signal: Signal) -> None:
    def updated(circuit: breaker.CircuitSnapshot) -> breaker.CircuitSnapshot:
        return breaker.on_result(circuit, signal, probe=probe, at=journal.at, bounds=_bounds())

    tenant = journal.flow.tenant
    row = _ROW.first(tenant=tenant, target=target)
    before = breaker.CLOSED if row is None else _read(row)
    if updated(before) == before:
        return
    # Read again under the lock, so that twenty failures at once queue up and are each counted.
    rows = Circuit.objects.filter(tenant=tenant, target=target)
    row = row_locks.lock_or_create(rows, tenant=tenant, target=target, changed_at=journal.at)
    before = _read(row)
    after = updated(before)
    if after == before:
        return
    _write(row, after, at=journal.at)
    if after.retry_at is not None and after.openings != before.openings:
        opened = events.CircuitOpened(target=row.target, failures=after.failures, retry_at=after.retry_at)
        journal.record_on(actors.target(row.target), opened)
    elif after.state is CircuitState.CLOSED and before.state is not CircuitState.CLOSED:
        journal.record_on(actors.target(row.target), _closed(row, before, reason=PROBE_SUCCEEDED))


@transactions.retried
def close_circuit(*, tenant: str, name: str, actor: str, reason: str) -> bool | Problem:
    """Close a target's circuit by a person's word; False where it is closed already.

    404 where there is no such target.
    """
    if not Target.objects.of(tenant).filter(name=name).exists():
        return Problem(code=ProblemCode.NOT_FOUND, detail="No target has this name.")
    row = Circuit.objects.select_for_update().filter(tenant=tenant, target=name).first()
    if row is None or row.state == CircuitState.CLOSED:
        return False
    at, before = clock.now(), _read(row)
    _write(row, breaker.CLOSED, at=at)
    closed = _closed(row, before, reason=reason)
    ledger.append_to(tenant=tenant, stream=actors.target(name), actor=actor, at=at, events=[closed])
    return True


def _closed(row: Circuit, before: breaker.CircuitSnapshot, *, reason: str) -> events.CircuitClosed:
    """The entry, and after the commit the intents that waited for it: they need not sleep to the end."""
    wake = partial(_release_waiting, tenant=row.tenant, target=row.target, held_until=before.retry_at)
    transaction.on_commit(wake, robust=True)
    return events.CircuitClosed(target=row.target, reason=reason)


def _release_waiting(*, tenant: str, target: str, held_until: datetime | None) -> None:
    held = Q(next_at=held_until) | Q(next_at=F("valid_until"))
    waiting = Intent.objects.of(tenant).filter(held, target=target, state=IntentState.PENDING)
    intent_ids = list(waiting.order_by("created_at").values_list("intent_id", flat=True)[:_RUNG_AT_ONCE])

    @transactions.retried
    def make_due() -> None:
        at = clock.now()
        due = Intent.objects.filter(pk__in=intent_ids, state=IntentState.PENDING)
        woken = events.IntentWoken(target=target, count=due.update(next_at=at))
        ledger.append_to(
            tenant=tenant, stream=actors.target(target), actor=actors.SYSTEM, at=at, events=[woken]
        )

    if intent_ids:
        make_due()
        ports.ring(intent_ids)


def _has_circuit(step: StepRequest) -> bool:
    return bool(step.target) and step.executor in registry.REMOTE


def _bounds() -> breaker.Settings:
    return breaker.Settings(
        failures=settings.DIR_CIRCUIT_FAILURES,
        first_s=settings.DIR_CIRCUIT_FIRST_S,
        longest_s=settings.DIR_CIRCUIT_LONGEST_S,
        lease_s=settings.DIR_LEASE_S,
    )


def _read(row: Circuit) -> breaker.CircuitSnapshot:
    return breaker.CircuitSnapshot(
        state=CircuitState(row.state),
        failures=row.failures,
        openings=row.openings,
        retry_at=row.retry_at,
        probe=row.probe,
    )


def _write(row: Circuit, circuit: breaker.CircuitSnapshot, *, at: datetime) -> None:
    """Compare-and-swap; `changed_at` is since when it has been in its state."""
    changed = Circuit.objects.filter(pk=row.pk, version=row.version).update(
        state=circuit.state,
        failures=circuit.failures,
        openings=circuit.openings,
        retry_at=circuit.retry_at,
        probe=circuit.probe,
        changed_at=row.changed_at if circuit.state == row.state else at,
        version=row.version + 1,
    )
    if changed != 1:
        raise transactions.ConcurrentUpdateError
