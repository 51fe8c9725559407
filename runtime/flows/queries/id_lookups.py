"""Flows, and what belongs to them, by a part of an id, of an idempotency key or of a receipt; all bounded."""

from collections.abc import Sequence
from itertools import islice
from uuid import UUID

from audit import cells
from runtime.core import id_search
from runtime.flows.models import Attempt, Flow, Intent, Outcome, Proposal

# No index answers for what is inside of a key or a receipt.
NEWEST_CALLS = 20_000
NEWEST_RECEIPTS = 2_000
_RECEIPTS_AT_ONCE = 100


def list_flows(*, tenant: str, part: str, size: int) -> Sequence[Flow]:
    """The newest flows that have the part in their id."""
    rows = Flow.objects.of(tenant).select_related("agent")
    return list(rows.filter(id_search.having(Flow.objects.of(tenant), part)).order_by("-pk")[:size])


def list_proposals(*, tenant: str, part: str, size: int) -> Sequence[tuple[UUID, UUID]]:
    """Ids of proposals, each with its flow's."""
    rows = Proposal.objects.filter(id_search.having(Proposal.objects.all(), part), flow__tenant=tenant)
    return list(rows.order_by("-pk").values_list("pk", "flow_id")[:size])


def list_intents(*, tenant: str, part: str, size: int) -> Sequence[tuple[UUID, UUID]]:
    """Ids of intents, each with its flow's."""
    rows = Intent.objects.of(tenant).filter(id_search.having(Intent.objects.of(tenant), part))
    return list(rows.order_by("-pk").values_list("pk", "flow_id")[:size])


def list_calls(*, tenant: str, part: str, size: int) -> Sequence[tuple[str, UUID]]:
    """Idempotency keys of the newest calls, each once and with its flow's id."""
    newest = Attempt.objects.order_by("-pk").values_list("pk", flat=True).first()
    if newest is None:
        return []
    rows = Attempt.objects.filter(
        pk__gt=newest - NEWEST_CALLS, target_key__contains=part.lower(), intent__tenant=tenant
    )
    found = rows.order_by("-pk").values_list("target_key", "intent__flow_id")[: size * 4]
    return list(dict.fromkeys(found))[:size]


def list_receipts(*, tenant: str, part: str, size: int) -> Sequence[UUID]:
    """The flows of the newest receipts that hold the text, however it is written."""
    rows = Outcome.objects.filter(receipt__isnull=False, intent__tenant=tenant).order_by("-pk")
    wanted = part.lower().encode()
    held = rows.values_list("receipt", "intent__flow_id")[:NEWEST_RECEIPTS]
    # Receipts are long, and the first few may do.
    read = held.iterator(chunk_size=_RECEIPTS_AT_ONCE)
    found = (flow for receipt, flow in read if wanted in (cells.bytes_of(receipt) or b"").lower())
    return list(islice(found, size))
