"""`GET /audit/contracts/{name}/{id}`: what the ledger says of a flow, in the terms of other designs.

A view needs no proofs, so it shows what is written now; whoever wants to check it takes the evidence pack.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from audit import canonical, cells, chain
from audit.access import readers
from audit.api.calls import JSON, canonical_json, describe
from audit.api.refusals import RefusedError, Why
from audit.contracts import ledger_event
from audit.contracts.catalogue import CONTRACTS
from audit.contracts.flow import Flow, NotThereError, Wanted
from audit.contracts.ledger_event import SealedEvent
from audit.events import Kind
from audit.models import Leaf, LedgerEntry, Payload
from audit.packs import sources
from audit.packs.contents import Hidden
from audit.sealing import keys, proofs
from audit.verification.verify import UNREADABLE, snapshot

router = Router(tags=["Audit"])

# The kinds that begin something with an id of its own. Those ids are UUIDs of version 7, which tell when.
_NAMED: Final[Mapping[Kind, str]] = {
    Kind.PROPOSAL_SUBMITTED: "proposal_id",
    Kind.INTENT_CREATED: "intent_id",
    Kind.ESCALATION_OPENED: "escalation_id",
}
_SKEW: Final = timedelta(minutes=1)
_TIME_BITS: Final = 80
_TIME_VERSION: Final = 7
_LONGEST: Final = 300
_NUL: Final = "\x00"
_NOBODY: Final = "No flow, and nothing in a flow, has this id."
_DAMAGED: Final = "Entry {} does not match the hash chain, so nothing is made of it. Run verify_ledger."


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """An entry as the stored bytes say it."""

    seq: int
    hash: bytes
    prev_hash: bytes
    said: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.said["kind"])

    @property
    def at(self) -> str:
        return str(self.said["at"])

    @property
    def actor(self) -> str:
        return str(self.said["actor"])

    @property
    def payload(self) -> Mapping[str, Any]:
        payload: Mapping[str, Any] = self.said["payload"]
        return payload


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadFlow:
    """What is kept of a flow, sealed or not."""

    tenant: str
    dfid: UUID
    entries: Sequence[ReadEntry]
    payloads: Mapping[str, Hidden]
    objects: Mapping[str, bytes]
    absent: Mapping[str, str]


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
            shown = _event(tenant, id) if name == ledger_event.CONTRACT.name else _view(tenant, name, id)
    except NotThereError as error:
        raise RefusedError(Why.UNKNOWN, str(error)) from error
    return canonical_json(shown)


def _view(tenant: str, name: str, asked: str) -> dict[str, Any]:
    head, _, part = asked.partition(":")
    try:
        wanted = UUID(head)
    except ValueError as error:
        raise NotThereError(_NOBODY) from error
    flow = _read(tenant, wanted)
    if part and (flow is not None or not CONTRACTS[name].is_numbered):
        raise NotThereError("This id takes no number here. docs/contracts/ says which do.")
    if flow is not None:
        return CONTRACTS[name].view(flow, Wanted())
    flow = _read(tenant, _dfid_of(tenant, wanted))
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
        said = _said(bytes(body))
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
    entry = _entry(row)
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
        return _read(tenant, UUID(stream))
    except ValueError:
        return None


def _read(tenant: str, dfid: UUID) -> Flow | None:
    """All that is kept of a flow now; None where no entry is about it.

    Raises NotThereError where an entry does not match the chain: nothing is shown as if it had been recorded.
    """
    rows = LedgerEntry.objects.filter(tenant=tenant, stream=str(dfid)).order_by("seq")
    try:
        entries = [_entry(row) for row in rows]
    except UNREADABLE as error:
        raise NotThereError("An entry of the flow cannot be read. Run verify_ledger.") from error
    if not entries:
        return None
    previous, seq = chain.GENESIS_HASH, 0
    for entry in entries:
        if (entry.seq, entry.prev_hash) != (seq + 1, previous):
            raise NotThereError(_DAMAGED.format(entry.seq))
        previous, seq = entry.hash, entry.seq
    named = dict.fromkeys(name for each in entries for name in sources.list_named(each.kind, each.payload))
    found = sources.collect(tenant=tenant, dfid=dfid, wanted=list(named))
    payloads, without = _payloads(tenant, entries)
    return Flow(
        ReadFlow(
            tenant=tenant,
            dfid=dfid,
            entries=entries,
            payloads=payloads,
            objects=found.bodies,
            absent={**found.absent, **without},
        )
    )


def _entry(row: LedgerEntry) -> ReadEntry:
    """An entry that is what its hash says. Raises NotThereError where it is not."""
    body, prev_hash, held = (cells.bytes_of(cell) for cell in (row.body, row.prev_hash, row.hash))
    if body is None or prev_hash is None or held is None or chain.entry_hash(prev_hash, body) != held:
        raise NotThereError(_DAMAGED.format(row.seq))
    said = _said(body)
    if said is None or (said["tenant"], said["stream"], said["seq"]) != (row.tenant, row.stream, row.seq):
        raise NotThereError(_DAMAGED.format(row.seq))
    return ReadEntry(seq=row.seq, hash=held, prev_hash=prev_hash, said=said)


def _said(body: bytes) -> dict[str, Any] | None:
    try:
        said = canonical.decode(body)
    except canonical.CanonicalError:
        return None
    is_entry = isinstance(said, dict) and isinstance(said.get("payload"), dict)
    return said if is_entry else None


def _payloads(tenant: str, entries: Iterable[ReadEntry]) -> tuple[dict[str, Hidden], dict[str, str]]:
    """What the commitments hide, and why others have nothing to show."""
    named = {value for entry in entries for _, value in sources.list_commitments(entry.payload)}
    rows = Payload.objects.filter(tenant=tenant, commitment__in=named)
    stored = {name: held for name, *held in rows.values_list("commitment", "salt", "body")}
    shown: dict[str, Hidden] = {}
    absent: dict[str, str] = {}
    for name in named:
        salt, body = map(cells.bytes_of, stored.get(name, (None, None)))
        if stored.get(name) == [None, None]:
            shown[name] = Hidden(None, None)
        elif salt is not None and body is not None and chain.commitment(salt, body) == name:
            shown[name] = Hidden(salt, body)
        else:
            absent[name] = sources.DIFFERENT if name in stored else sources.GONE
    return shown, absent
