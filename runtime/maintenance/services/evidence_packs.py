"""Make the evidence pack of a flow, up to its newest entries."""

import logging
from uuid import UUID

from audit.packs import export, progress
from audit.packs.progress import Stage, Watch
from runtime.core import clock, transactions
from runtime.maintenance.services import sealing

_log = logging.getLogger(__name__)


def make(
    *, tenant: str, dfid: UUID, with_heads: bool = False, watch: Watch = progress.unwatched
) -> bytes | None:
    """Seal what waits, then make the pack; None where there is no such flow.

    `with_heads`: so that it proves, too, that the flow has no further entry. That reads the end of every
    stream, so it is not for a request. Where nothing can be sealed now, as in recovery, the pack holds what
    is sealed already. Raises `export.NotSealedError` where that is nothing of the flow.
    """
    watch(Stage.SEALING, 0, 0)
    try:
        sealing.seal_now(with_heads=with_heads)
    except transactions.BusyError:
        _log.warning("nothing was sealed for an evidence pack: the database is busy")
    return export.evidence_pack(tenant=tenant, dfid=dfid, at=clock.now(), watch=watch)
