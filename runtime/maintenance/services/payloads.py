"""Erasing what the ledger keeps beside its chain: the commitment stays, and reveals nothing."""

from audit import ledger
from runtime.core import clock, transactions


@transactions.retried
def erase(*, tenant: str, commitment: str, reason: str, actor: str) -> bool:
    """Erase one payload with its salt and record why; False where there is none under this commitment."""
    return ledger.erase_payload(
        tenant=tenant, commitment=commitment, actor=actor, at=clock.now(), reason=reason
    )
