"""`GET /audit/contracts/{name}/{id}`: what the ledger says of a flow, in the terms of other designs.

A view needs no proofs, so it shows what is written now; whoever wants to check it takes the evidence pack.
"""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router

from audit import canonical, queries
from audit.access import readers
from audit.api.calls import JSON, canonical_json, describe
from audit.api.refusals import RefusedError, Why
from audit.contracts import agent_message, ledger_event
from audit.contracts.agent_message import SentMessage
from audit.contracts.catalogue import CONTRACTS
from audit.contracts.flow import Flow, NotThereError, Wanted
from audit.contracts.ledger_event import SealedEvent
from audit.events import Kind
from audit.models import Leaf, LedgerEntry
from audit.packs import flow_reading
from audit.sealing import keys, proofs
from audit.verification.verify import snapshot

router = Router(tags=["Audit"])

# The kinds that begin something with an id of its own. Those ids are UUIDs of version 7, which tell when.
_NAMED: Final[Mapping[Kind, str]] = {
    Kind.PROPOSAL_SUBMITTED: "proposal_id",
    Kind.INTENT_CREATED: "intent_id",
    Kind.ESCALATION_OPENED: "escalation_id",
    Kind.RULES_EVALUATED: "rule_output_id",
    Kind.DECISION_RECOMMENDED: "decision_id",
}
_SKEW: Final = timedelta(minutes=1)
_TIME_BITS: Final = 80
_TIME_VERSION: Final = 7
_LONGEST: Final = 300
_NUL: Final = "\x00"
_NOBODY: Final = "No flow, and nothing in a flow, has this id."


@router.get(
    "/contracts/{name}/{id}",
    openapi_extra=describe(
        {
            404: "No contract has this name, nothing has this id, or the flow has nothing of what it shows.",
            409: "The entry is not sealed yet (ledger_event). It is sealed within seconds.",
        },
        media_type=JSON,
        schema={"type": "object", "description": "As docs/contracts/NAME.schema.json says."},
    ),
)
def show_contract(request: HttpRequest, name: str, id: str) -> HttpResponse:
    """One contract of other designs, made of a flow's entries and of the bytes that they commit to.

    The names: structured_context, rule_engine_output, decision_package, execution_outcome_package,
    reasoning_trace, tool_request, tool_response, policy_decision, ledger_event, replay_trace, agent_message,
    hitl_decision. The id: a DFID, or what the page of the contract names; of ledger_event STREAM:SEQ.
    """
    tenant = readers.reader_of(request).tenant
    if name not in CONTRACTS:
        raise RefusedError(Why.UNKNOWN, f"No contract has this name. The names: {', '.join(CONTRACTS)}.")
    if len(id) > _LONGEST or _NUL in id:
        raise RefusedError(Why.UNKNOWN, _NOBODY)
    try:
        with snapshot():
            shown = _shown(tenant, name, id)
    except NotThereError as error:
        raise RefusedError(Why.UNKNOWN, str(error)) from error
    return canonical_json(shown)


def _shown(tenant: str, name: str, asked: str) -> dict[str, Any]:
    match name:
        case ledger_event.CONTRACT.name:
            return _event(tenant, asked)
        case agent_message.CONTRACT.name:
            return _message(tenant, asked)
        case _:
            return _view(tenant, name, asked)


def _message(tenant: str, asked: str) -> dict[str, Any]:
    """A message by its id, or the newest about a flow. Where it is in the ledger, its rows say."""
    finders = import_module(settings.DIR_MESSAGE_PLACES)
    try:
        place = finders.find_of_flow(tenant=tenant, dfid=UUID(asked))
    except ValueError:
        place = finders.find(tenant=tenant, message_id=asked)
        if place is None:
            raise NotThereError("No message has this id, and no flow either.") from None
    if place is None:
        raise NotThereError(agent_message.NONE_ABOUT)
    stream, seq = place
    row = LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq=seq, kind=Kind.MESSAGE_SENT).first()
    if row is None:
        raise NotThereError("The message is not one that the ledger recorded. Run verify_ledger.")
    entry = flow_reading.entry_of(row)
    commitment = str(entry.payload["message_commitment"])
    body = queries.list_bodies(tenant=tenant, commitments=[commitment]).get(commitment)
    return agent_message.view_of(
        SentMessage(
            tenant=tenant,
            at=entry.at,
            entry=entry.payload,
            envelope=canonical.decode(body) if body else None,
        )
    )


def _view(tenant: str, name: str, asked: str) -> dict[str, Any]:
    head, _, part = asked.partition(":")
    try:
        wanted = UUID(head)
    except ValueError as error:
        raise NotThereError(_NOBODY) from error
    flow = flow_reading.read(tenant=tenant, dfid=wanted)
    if part and (flow is not None or not CONTRACTS[name].is_numbered):
        raise NotThereError("This id takes no number here. docs/contracts/ says which do.")
    if flow is not None:
        return CONTRACTS[name].view(flow, Wanted())
    flow = flow_reading.read(tenant=tenant, dfid=_dfid_of(tenant, wanted))
    if flow is None:
        raise NotThereError(_NOBODY)
    return CONTRACTS[name].view(flow, Wanted(str(wanted), part))


def _dfid_of(tenant: str, wanted: UUID) -> UUID:
    """The flow in which something with this id began, about when the id says."""
    if wanted.version != _TIME_VERSION:
        raise NotThereError(_NOBODY)
    try:
        made_at = datetime.fromtimestamp((wanted.int >> _TIME_BITS) / 1000, UTC)
        around = (made_at - _SKEW, made_at + _SKEW)
    except (ValueError, OverflowError, OSError) as error:
        raise NotThereError(_NOBODY) from error
    rows = LedgerEntry.objects.filter(tenant=tenant, kind__in=list(_NAMED), at__range=around)
    for kind, body in rows.order_by().values_list("kind", "body"):
        said = flow_reading.said(bytes(body))
        if said and said["payload"].get(_NAMED[Kind(kind)]) == str(wanted):
            return UUID(str(said["stream"]))
    raise NotThereError(_NOBODY)


def _event(tenant: str, asked: str) -> dict[str, Any]:
    stream, _, number = asked.rpartition(":")
    if (
        not stream
        or not number.isascii()
        or not number.isdecimal()
        or int(number) > canonical.MAX_SAFE_INTEGER
    ):
        raise NotThereError("Ask for an entry by its stream and number: STREAM:SEQ.")
    row = LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq=int(number)).first()
    if row is None:
        raise NotThereError("No entry has this stream and number.")
    entry = flow_reading.entry_of(row)
    newest = proofs.latest()
    index = Leaf.objects.filter(entry_id=row.pk).values_list("index", flat=True).first()
    if newest is None or index is None or index >= newest.checkpoint.size:
        raise RefusedError(Why.NOT_SEALED, "The entry is not sealed yet. It is sealed within seconds.")
    signed = (
        (key.key_id, newest.signature_by(key.public_key)) for key in reversed(keys.known(tenant=tenant))
    )
    key_id, signature = next(((name, held) for name, held in signed if held), ("", b""))
    event = SealedEvent(
        tenant=tenant,
        stream=stream,
        seq=entry.seq,
        at=entry.at,
        payload=entry.payload,
        prev_hash=entry.prev_hash.hex(),
        hash=entry.hash.hex(),
        key_id=key_id,
        signature=base64.b64encode(signature).decode(),
    )
    return ledger_event.view_of(event, _flow_of(tenant, stream))


def _flow_of(tenant: str, stream: str) -> Flow | None:
    try:
        return flow_reading.read(tenant=tenant, dfid=UUID(stream))
    except ValueError:
        return None
