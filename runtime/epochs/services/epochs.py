"""A restored backup: found by the mark or by a witness, paused until an admin starts a new epoch.

What was accepted in the backup may have run in the time that is lost, so nothing of it runs by itself again.
Proposals, keys and decisions wait; what is live is in doubt, as after a worker that died in its call.
"""

from functools import partial
from typing import TYPE_CHECKING

from django.conf import settings

from audit import actors, canonical, events, ledger
from audit.models import LedgerEntry
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.epochs.models import Epoch
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import marks, witnessed
from runtime.epochs.services.missing import Missing

if TYPE_CHECKING:
    from runtime.flows.models import Flow

WAITING = Problem(
    code=ProblemCode.RECOVERY,
    detail="The database was restored from a backup. New work is refused until an admin starts a new epoch.",
)


def compare_with_mark() -> bool:
    """Compare the database with the mark, and at first with what witnesses hold. Then renew the mark.

    True where the database is older than one of them, and so in recovery.
    """
    if current_epoch.is_recovering():
        return True
    mark = marks.read()
    if mark is not None and not marks.is_held(mark):
        if not marks.is_answered(mark):
            if LedgerEntry.objects.exists():
                return begin_recovery(Missing(mark=mark, checkpoints=witnessed.find_missing()))
            # A new database has nothing that could run again.
            marks.set_aside()
        mark = None
    if checkpoints := witnessed.first_look():
        return begin_recovery(Missing(mark=None, checkpoints=checkpoints))
    newest = marks.of_database() if settings.DIR_MARK else None
    if newest is not None and newest != mark and not (mark and mark.entry_id > newest.entry_id):
        marks.write(newest)
    return False


def begin_recovery(missing: Missing) -> bool:
    """Everything waits from now on, unless an admin has answered for it since; whether it waits."""
    transactions.retry_on_conflict(partial(_begin_recovery, missing))
    return current_epoch.is_recovering()


def describe_missing() -> str:
    """What the database lacks, in sentences; only in recovery."""
    return Missing.from_bytes(bytes(current_epoch.in_force().missing)).words()


def is_older() -> bool:
    """Whether the database under this process is known to be older, before any sweeper has reported it."""
    return marks.is_older() or witnessed.is_older()


def _begin_recovery(missing: Missing) -> None:
    epoch = Epoch.objects.select_for_update().get(ended_at__isnull=True)
    # An admin may have answered for it since it was read.
    if epoch.restored_at is not None or missing.is_answered(epoch=epoch.number):
        return
    at = clock.now()
    epoch.restored_at, epoch.missing = at, missing.to_bytes()
    epoch.save(update_fields=["restored_at", "missing"])
    newest = marks.of_database()
    held = max(missing.checkpoints, key=lambda each: (each.epoch, each.size), default=None)
    restored = events.EpochRestored(
        epoch=epoch.number,
        missing_entry=missing.entry_id,
        missing_hash=missing.hash,
        newest_entry=0 if newest is None else newest.entry_id,
        missing_digest=canonical.digest(bytes(epoch.missing)),
        database_id=str(epoch.database_id),
        witness=None if held is None else held.witness,
        missing_size=None if held is None else held.size,
    )
    ledger.append_to(
        tenant=settings.DIR_TENANT, stream=actors.SYSTEM, actor=actors.SYSTEM, at=at, events=[restored]
    )


def refuse_while_recovering(*, is_recovering: bool | None = None) -> Problem | None:
    """What is refused after a restore until an admin starts a new epoch.

    `is_recovering` is what `current_epoch.recovering` has said, where that was asked before.
    """
    asked = current_epoch.is_recovering() if is_recovering is None else is_recovering
    return WAITING if asked or is_older() else None


def refuse_proposal(flow: "Flow") -> Problem | None:
    """A proposal waits in recovery, and a flow of an earlier epoch no longer takes any."""
    epoch = current_epoch.in_force()
    if epoch.restored_at is not None or is_older():
        return WAITING
    if epoch.number > 1 and flow.opened_at < epoch.began_at:
        return Problem(
            code=ProblemCode.EPOCH_ENDED,
            detail="A backup was restored since this flow began. Find out its outcome and open a new flow.",
            dfid=str(flow.dfid),
        )
    return None
