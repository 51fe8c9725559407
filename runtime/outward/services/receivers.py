"""What admins do with receivers: add, change, test, pause, resume, move; each an entry on `system`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from audit import actors, events, ledger
from runtime.contracts import receiver as contract
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.receiver import EventFormat, ReceiverKind, ReceiverState
from runtime.core import clock, transactions
from runtime.core.ids import new_id
from runtime.outward.models import Receiver
from runtime.outward.queries import sealed
from runtime.outward.services import delivery
from runtime.registry.models import Agent

MOST_RECEIVERS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A receiver as an admin wants it. `place` is a URL; `patterns` as in `runtime.contracts.receiver`."""

    name: str
    kind: ReceiverKind
    format: EventFormat
    patterns: Sequence[str]
    place: str
    secret_env: str = ""


def add(*, tenant: str, wanted: Wanted, from_beginning: bool, actor: str) -> Receiver | Problem:
    """Add a receiver, which gets what is sealed from now on, or everything.

    422 for what cannot be used, 409 for a name that another receiver has.
    """
    if (wrong := _wrong(tenant, wanted)) is not None:
        return wrong
    return transactions.retry_on_conflict(partial(_add, tenant, wanted, from_beginning, actor))


def change(*, tenant: str, receiver_id: UUID, wanted: Wanted, actor: str) -> Receiver | Problem:
    """Change where a receiver is, what it gets and in which form; it keeps its name, kind and position."""
    if (wrong := _wrong(tenant, wanted)) is not None:
        return wrong

    def work() -> Receiver | Problem:
        row = _locked(tenant, receiver_id)
        if row is None:
            return _unknown()
        row.format, row.patterns = wanted.format, " ".join(wanted.patterns)
        row.place, row.secret_env = wanted.place, wanted.secret_env
        _take_turn(row)
        row.save(update_fields=["format", "patterns", "place", "secret_env", "next_at"])
        changed = events.ReceiverChanged(
            receiver_id=str(row.pk),
            name=row.name,
            format=row.format,
            patterns=tuple(wanted.patterns),
            place=row.place,
            secret_env=row.secret_env,
        )
        _record(row, actor, changed)
        return row

    return transactions.retry_on_conflict(work)


@transactions.retried
def pause(*, tenant: str, receiver_id: UUID, reason: str, actor: str) -> Receiver | Problem:
    """Send it nothing more; it keeps its position. 409 where it is paused already."""
    row = _locked(tenant, receiver_id)
    if row is None:
        return _unknown()
    if row.state != ReceiverState.ACTIVE:
        return Problem(code=ProblemCode.RECEIVER_STATE, detail=f"{row.name} is paused already.")
    row.state, row.paused_why = ReceiverState.PAUSED, reason
    _take_turn(row)
    row.save(update_fields=["state", "paused_why", "next_at"])
    _record(row, actor, events.ReceiverPaused(receiver_id=str(row.pk), name=row.name, reason=reason))
    return row


@transactions.retried
def resume(*, tenant: str, receiver_id: UUID, reason: str, actor: str) -> Receiver | Problem:
    """Send it everything from its position on. 409 where it is active already."""
    row = _locked(tenant, receiver_id)
    if row is None:
        return _unknown()
    if row.state != ReceiverState.PAUSED:
        return Problem(code=ProblemCode.RECEIVER_STATE, detail=f"{row.name} is active already.")
    row.state, row.paused_why = ReceiverState.ACTIVE, ""
    _forget_failures(row)
    row.save(update_fields=["state", "paused_why", "next_at", "tries", "failing_since", "error"])
    _record(row, actor, events.ReceiverResumed(receiver_id=str(row.pk), name=row.name, reason=reason))
    return row


@transactions.retried
def move(
    *, tenant: str, receiver_id: UUID, from_leaf: int, to_leaf: int, reason: str, actor: str
) -> Receiver | Problem:
    """Move its position, back or ahead; 409 where it is no longer at `from_leaf`, as it was shown."""
    row = _locked(tenant, receiver_id)
    if row is None:
        return _unknown()
    if not 0 <= to_leaf <= (size := sealed.size()):
        return _unfit("to_leaf", f"Enter a leaf from 0 to {size}: as many entries are sealed.")
    if row.next_leaf != from_leaf:
        detail = (
            f"{row.name} is at leaf {row.next_leaf} by now. Look at its position again. Nothing was changed."
        )
        return Problem(code=ProblemCode.RECEIVER_MOVED, detail=detail)
    row.next_leaf = to_leaf
    _forget_failures(row)
    row.save(update_fields=["next_leaf", "next_at", "tries", "failing_since", "error"])
    moved = events.ReceiverMoved(
        receiver_id=str(row.pk), name=row.name, from_leaf=from_leaf, to_leaf=to_leaf, reason=reason
    )
    _record(row, actor, moved)
    return row


def test(*, tenant: str, receiver_id: UUID, actor: str) -> str | Problem:
    """Send a test event now; why it was not taken, or an empty text. Its position stays.

    Blocks as long as one message may take: never call it in a transaction.
    """
    row = Receiver.objects.of(tenant).filter(pk=receiver_id).first()
    if row is None:
        return _unknown()
    transactions.give_back_connection()
    error = delivery.send_test(row) or ""

    def work() -> None:
        tested = events.ReceiverTested(receiver_id=str(row.pk), name=row.name, error=error)
        _record(row, actor, tested)

    transactions.retry_on_conflict(work)
    return error


def _wrong(tenant: str, wanted: Wanted) -> Problem | None:
    if not contract.NAME.fullmatch(wanted.name):
        return _unfit("name", "Enter a name of small letters, digits and hyphens that begins with a letter.")
    if wanted.format not in contract.FORMATS[wanted.kind]:
        return _unfit("format", f"A receiver of the kind {wanted.kind} does not get {wanted.format}.")
    if (detail := contract.wrong_pattern(wanted.patterns)) is not None:
        return _unfit("patterns", detail)
    if (detail := _wrong_reader(tenant, wanted)) is not None:
        return _unfit("patterns", detail)
    if (detail := delivery.trouble(wanted.kind, wanted.place)) is not None:
        return _unfit("place", detail)
    if wanted.secret_env and not contract.SECRET_ENV.fullmatch(wanted.secret_env):
        return _unfit("secret_env", "Enter the name of an environment variable, such as DIR_HOOK_SECRET.")
    if not wanted.secret_env and wanted.kind in contract.NEED_SECRET:
        return _unfit("secret_env", "Enter the environment variable that holds the secret.")
    return None


def _wrong_reader(tenant: str, wanted: Wanted) -> str | None:
    """What is wrong with a choice of changes of facts; None where nothing is, or none are chosen."""
    if not contract.gets_state(wanted.patterns):
        return None
    if wanted.kind is not ReceiverKind.WEBHOOK:
        return f"Only a {ReceiverKind.WEBHOOK} gets {contract.STATE_CHANGED}. Others can get fact:written."
    agent_id = contract.state_reader(wanted.patterns)
    if agent_id and not Agent.objects.of(tenant).filter(agent_id=agent_id).exists():
        return f"No agent is called {agent_id}."
    return None


def _add(tenant: str, wanted: Wanted, from_beginning: bool, actor: str) -> Receiver | Problem:
    rows = Receiver.objects.of(tenant)
    if rows.filter(name=wanted.name).exists():
        return Problem(code=ProblemCode.NAME_TAKEN, detail=f"Another receiver is called {wanted.name}.")
    if rows.count() >= MOST_RECEIVERS:
        detail = f"There are {MOST_RECEIVERS} receivers already. Change one that is no longer used."
        return Problem(code=ProblemCode.TOO_MANY_RECEIVERS, detail=detail)
    at = ledger.time_of_next(tenant=tenant, stream=actors.SYSTEM, at=clock.now())
    row = Receiver.objects.create(
        receiver_id=new_id(),
        tenant=tenant,
        name=wanted.name,
        kind=wanted.kind,
        format=wanted.format,
        patterns=" ".join(wanted.patterns),
        place=wanted.place,
        secret_env=wanted.secret_env,
        added_by=actor,
        added_at=at,
        next_leaf=0 if from_beginning else sealed.size(),
        next_at=at,
    )
    added = events.ReceiverAdded(
        receiver_id=str(row.pk),
        name=row.name,
        receiver_kind=row.kind,
        format=row.format,
        patterns=tuple(wanted.patterns),
        place=row.place,
        secret_env=row.secret_env,
        next_leaf=row.next_leaf,
    )
    ledger.append_to(tenant=tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[added])
    return row


def _locked(tenant: str, receiver_id: UUID) -> Receiver | None:
    return Receiver.objects.of(tenant).select_for_update().filter(pk=receiver_id).first()


def _take_turn(row: Receiver) -> None:
    """Who is sending right now no longer moves the position: the time that it holds is another one."""
    at = clock.now()
    row.next_at = at if at != row.next_at else at + timedelta(microseconds=1)


def _forget_failures(row: Receiver) -> None:
    _take_turn(row)
    row.tries, row.failing_since, row.error = 0, None, ""


def _record(row: Receiver, actor: str, entry: events.Event) -> None:
    at = ledger.time_of_next(tenant=row.tenant, stream=actors.SYSTEM, at=clock.now())
    ledger.append_to(tenant=row.tenant, stream=actors.SYSTEM, actor=actor, at=at, events=[entry])


def _unknown() -> Problem:
    return Problem(code=ProblemCode.NOT_FOUND, detail="No receiver has this id.")


def _unfit(field: str, message: str) -> Problem:
    wrong = (Violation(pointer=field, message=message),)
    return Problem(code=ProblemCode.INVALID_REQUEST, detail=message, violations=wrong)
