"""Rounds that encrypt anew what is under retired keys, or in clear, some hundred payloads in one transaction.

Only what somebody asked for: what is left under a key, to be destroyed with it, stays there. The row of each
round is its lock and its place, so any number of workers may do so at once, and a crash costs nothing.
"""

import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from audit.models import ClassKey, KeyState, Payload
from audit.payload_cipher import PayloadKeyError
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.epochs.services import epochs
from runtime.maintenance.models import PayloadRound
from runtime.maintenance.services import payload_rotation
from runtime.maintenance.services.payload_destruction import GRACE

# Of each round. What is left waits for the next ring, a minute later.
MOST_BATCHES: Final = 50

_log = logging.getLogger(__name__)


@transactions.retried
def start(*, tenant: str, key_id: UUID | None, actor: str) -> PayloadRound | Problem:
    """Let the rounds encrypt anew what is under a retired key; None: what is in clear.

    Raises PayloadKeyError where this process cannot use the key in use. Problems: NOT_FOUND, INVALID_REQUEST
    for a key that is in use or destroyed, RECOVERY.
    """
    refused = epochs.refuse_while_recovering()
    if refused is not None:
        return refused
    data_class: str = payload_rotation.CLASS_OF_CLEAR
    if key_id is not None:
        keys = ClassKey.objects.select_for_update(no_key=True)
        row = keys.filter(tenant=tenant, pk=key_id).first()
        if row is None:
            return Problem(code=ProblemCode.NOT_FOUND, detail="No key has this id.")
        if row.state is not KeyState.RETIRED:
            detail = f"The key {row.pk} is {row.state}: only what is under a retired key is encrypted anew."
            return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
        data_class = row.data_class
    payload_rotation.in_use_now(tenant=tenant, data_class=data_class)
    return payload_rotation.move_in_rounds(
        tenant=tenant, data_class=data_class, key_id=key_id, actor=actor, at=clock.now()
    )


def move_due(*, tenant: str, is_stopping: Callable[[], bool] = lambda: False) -> int:
    """Go on with every round that is under way, for `MOST_BATCHES` batches at most; how many were moved.

    A round whose keys this process cannot use is logged and left to others.
    """
    under_way = PayloadRound.objects.of(tenant).filter(ended_at=None)
    numbers = list(under_way.values_list("pk", flat=True))
    if not numbers or epochs.refuse_while_recovering() is not None:
        return 0
    payload_rotation.overwrite(folds=False)
    moved = 0
    for number in numbers:
        try:
            for _ in range(MOST_BATCHES):
                batch = None if is_stopping() else _go_on(number)
                if batch is None:
                    break
                moved += batch
        except PayloadKeyError as error:
            _log.error("payloads cannot be encrypted anew: %s", error)
    if moved:
        payload_rotation.overwrite()
    return moved


@transactions.retried
def _go_on(number: int) -> int | None:
    """Move the next batch of a round; None at its end, and while nothing is left for now."""
    stored = PayloadRound.objects.select_for_update().filter(pk=number, ended_at=None).first()
    if stored is None or epochs.refuse_while_recovering() is not None:
        return None
    left = Payload.objects.filter(tenant=stored.tenant, key=stored.key_id, erased_at=None)
    last, batch = payload_rotation.move_batch(left, tenant=stored.tenant, after_pk=stored.after)
    stored.moved += batch.moved
    # At the beginning of a pass it is counted anew.
    stored.unopened = batch.left + (stored.unopened if stored.after else 0)
    if last:
        stored.after = last
    elif _may_be_written(stored):
        stored.after = 0
    else:
        stored.ended_at = clock.now()
    stored.save()
    return batch.moved if last else None


def _may_be_written(stored: PayloadRound) -> bool:
    """Whether another process may still write there: then the round looks again."""
    key = stored.key
    since = stored.asked_at if key is None else key.retired_at
    return since is not None and clock.now() < since + GRACE
