"""The gate before every call to a target: while a stop is active, no first byte leaves.

A stop and a call that is about to go out meet in the database. The call writes its first bytes inside a
short transaction that has just read the stops; the stop's own transaction waits for those in the middle of
theirs. So a call has either begun before the stop was committed, and the stop names it, or it sees the stop
and does not begin. What is sent inside the transaction is the head of a request, which the kernel takes at
once: no transaction waits for the network (docs/decisions, "Calls pass a gate").
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import QuerySet

from audit import statements
from runtime.contracts.states import AttemptState
from runtime.core import clock, transactions
from runtime.flows.models import Attempt
from runtime.flows.queries import due_intents

LEASE_LOST = "LEASE_LOST"
DATABASE_BUSY = "DATABASE_BUSY"
WAIT_S = 2  # a process that was frozen between its look and its first byte must not keep a stop from working
_LOCKS = 4471  # PostgreSQL: the first half of the advisory lock's key, ours alone in this database
_LOCK_TIMED_OUT = "55P03"

_log = logging.getLogger(__name__)


class ClosedError(Exception):
    """The call may not begin; nothing was sent. `why` is a code for the ledger."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@contextmanager
def asking(*, tenant: str) -> Iterator[None]:
    """Let the first bytes of a question out that belongs to no intent: what a webhook guard is asked.

    Raises:
        ClosedError: before anything is sent, where everything is stopped, or the database has no turn for it.
    """

    def look() -> None:
        why = due_intents.get_stop(tenant=tenant)
        if why is not None:
            raise ClosedError(why)

    with _open(tenant, look):
        yield


@contextmanager
def querying(*, tenant: str, agent_pk: int) -> Iterator[None]:
    """Let the first bytes of a person's question about an agent's call out. It has no effect, and no row.

    Raises:
        ClosedError: before anything is sent, where a stop holds it back, or the database has no turn for it.
    """

    def look() -> None:
        why = due_intents.get_standing(agent_pk=agent_pk).stopped_by
        if why is not None:
            raise ClosedError(why)

    with _open(tenant, look):
        yield


@contextmanager
def passing(*, tenant: str, agent_pk: int, intent_id: UUID, number: int, only_stops: bool) -> Iterator[None]:
    """Let the first bytes of an attempt's call out, and note in its row that it has begun.

    `only_stops`: a call that undoes a step, or asks about one, is not held back by the agent's status.

    Raises:
        ClosedError: before anything is sent, where a stop or the status holds it back, where the attempt is
            no longer ours to make, or where the database has no turn for it now.
    """

    def look() -> None:
        standing = due_intents.get_standing(agent_pk=agent_pk)
        why = standing.stopped_by if only_stops else standing.held_by
        if why is not None:
            raise ClosedError(why)
        if not _SENT.run(intent=intent_id, number=number, at=clock.now()):
            raise ClosedError(LEASE_LOST)

    with _open(tenant, look):
        yield


def _sent(*, intent: UUID, number: int, at: datetime) -> tuple[QuerySet[Attempt], dict[str, Any]]:
    ours = Attempt.objects.filter(intent=intent, number=number, state=AttemptState.STARTED)
    return ours, {"sent_at": at}


_SENT: Final = statements.Change(_sent)


@contextmanager
def _open(tenant: str, look: Callable[[], None]) -> Iterator[None]:
    """Where a call writes its first bytes, once `look` has found that it may: no stop comes between."""
    begun = False
    try:
        with transactions.sqlite_writer_turn(), transaction.atomic():
            _share(tenant)
            look()
            begun = True
            yield
    except (OperationalError, InterfaceError) as error:
        if begun:
            raise
        raise ClosedError(DATABASE_BUSY) from error
    finally:
        transactions.give_back_connection()


def close(*, tenant: str) -> None:
    """In the transaction of a stop: wait until no call is between its look and its first byte.

    A call that takes longer than WAIT_S there belongs to a process that hangs: it is logged, not waited for.
    On SQLite the transaction's own turn as the only writer has waited already.
    """
    if connection.vendor != "postgresql":
        return
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout')")
            (before,) = cursor.fetchone()
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{WAIT_S}s"])
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_LOCKS, tenant])
            # The stop continues to wait for rows, as long as any other transaction and no longer.
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [before])
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != _LOCK_TIMED_OUT:
            raise
        _log.warning(
            "a call has been about to start for more than %s s; the stop does not wait for it", WAIT_S
        )


def hold_open(*, tenant: str) -> None:
    """In the caller's transaction, before it looks at the stops: none is committed until that has ended.

    For what has its whole effect in the database, such as a message to another agent.
    """
    _share(tenant)


def _share(tenant: str) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock_shared(%s, hashtext(%s))", [_LOCKS, tenant])
