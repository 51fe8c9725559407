"""Keep the ledger's tree and its checkpoints up to date, and number what writes of facts were sealed."""

import logging
from functools import partial
from typing import Final

from django.conf import settings

from audit.sealing import heads, keys, sealer
from audit.sealing.heads import Ends
from audit.signing import Signer
from audit.verification import verify
from runtime.contracts.problem import Problem
from runtime.core import clock, transactions
from runtime.epochs.services import epochs
from runtime.state.services import world_writes

# With BATCH entries each: enough for a minute of load, and a bound for one round.
_MOST_BATCHES: Final = 50
_log = logging.getLogger(__name__)


def seal_now(*, with_heads: bool = False) -> int:
    """Add all committed entries to the tree and sign it where that is due; returns how many were added.

    Once an hour, or `with_heads`, the checkpoint also commits to the ends of all streams. Nothing is sealed
    while a restored backup waits for an admin: the tree would fork from what was published.
    """
    at = clock.now()
    ends_due = with_heads or heads.are_due(at)
    if not (ends_due or sealer.is_due(at)) or epochs.refuse_while_recovering() is not None:
        return 0
    # Gathered without a lock: whatever they name is committed, and so in the tree that is signed below.
    ends = heads.gather(verify.stored_heads()) if ends_due else None
    leaves = 0
    for _ in range(_MOST_BATCHES):
        done = transactions.retry_on_conflict(partial(_seal_batch, ends, is_signed=True))
        leaves += done.leaves
        if done.refusal is not None:
            _log.error("the ledger is not sealed: %s. Run manage.py verify_ledger.", done.refusal)
        if done.is_done:
            break
    return leaves


def add_waiting() -> None:
    """Add committed entries to the tree, which the next `seal_now` signs: so that their facts are numbered.

    A checkpoint a second is enough; who waits for the version of the world that a write makes waits less.
    """
    if sealer.is_due(clock.now(), is_signed=False) and epochs.refuse_while_recovering() is None:
        transactions.retry_on_conflict(partial(_seal_batch, None, is_signed=False))


def rotate_key(new: Signer, *, actor: str) -> Problem | None:
    """Begin another signing key, which the one in use vouches for; a Problem where nothing may be written."""
    if (waiting := epochs.refuse_while_recovering()) is not None:
        return waiting

    def work() -> None:
        origin = sealer.lock_tree().origin
        keys.rotate_to(new, tenant=settings.DIR_TENANT, origin=origin, actor=actor, at=clock.now())

    transactions.retry_on_conflict(work)
    return None


def _seal_batch(ends: Ends | None, *, is_signed: bool) -> sealer.Sealed:
    return sealer.seal(
        tenant=settings.DIR_TENANT,
        now=clock.now,
        ends=ends,
        is_signed=is_signed,
        on_sealed=world_writes.number_sealed,
    )
