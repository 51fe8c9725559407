"""The ends of the flows' streams, as their rows hold them: verification compares them with the ledger."""

from collections.abc import Iterator
from typing import Any

from runtime.flows.models import Flow

_CHUNK = 2000


def flow_heads() -> Iterator[tuple[str, str, Any, Any]]:
    """`(tenant, stream, seq, hash)` of every flow, as they are stored."""
    rows = Flow.objects.order_by("pk").values_list("tenant", "dfid", "head_seq", "head_hash")
    for tenant, dfid, seq, head_hash in rows.iterator(chunk_size=_CHUNK):
        yield tenant, str(dfid), seq, head_hash
