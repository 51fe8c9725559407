"""How each kind of receiver gets a message: what goes into one, its form, and the road it takes."""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from audit import actors, canonical, chain
from runtime.contracts import receiver as contract
from runtime.contracts.receiver import EventFormat, ReceiverKind, SealedEntry, message_id
from runtime.core import clock, transactions
from runtime.execution.services import event_delivery
from runtime.execution.services.event_delivery import Answered
from runtime.outward.models import Receiver
from runtime.outward.queries import sealed, state_readers
from runtime.outward.services import cloud_events, csv_rows, ocsf, otlp, spans, syslog_lines
from runtime.outward.services.spans import Span

TEST_KIND: Final = "receiver:test"
# A webhook gets one at a time, so that each has an id of its own; a SIEM takes many.
MOST_IN_A_BATCH: Final = 100

_log = logging.getLogger(__name__)


def most_in_one(row: Receiver) -> int:
    """How many events one message holds."""
    return 1 if row.kind == ReceiverKind.WEBHOOK else MOST_IN_A_BATCH


def send(row: Receiver, entries: Sequence[SealedEntry]) -> Answered:
    """Send one message of at most `most_in_one` events; never in a transaction."""
    match ReceiverKind(row.kind):
        case ReceiverKind.WEBHOOK:
            return _post_one(row, entries)
        case ReceiverKind.SIEM_HTTP:
            return _post_batch(row, entries)
        case ReceiverKind.SIEM_FILE:
            return _append(row, entries)
        case ReceiverKind.SIEM_SYSLOG:
            messages = [syslog_lines.encode(entry, EventFormat(row.format)) for entry in entries]
            return event_delivery.send_syslog(url=row.place, messages=messages)
        case ReceiverKind.OTLP_HTTP:
            return _post_spans(row, entries)


def send_resync(row: Receiver, entry: SealedEntry, *, version: int) -> Answered:
    """Tell a receiver of changes of facts to read the world at a version; `entry` is what it missed first.

    Tried again, it has the same id, and may name a later version.
    """
    return event_delivery.post_signed(
        url=row.place,
        secret_env=row.secret_env,
        message_id=f"{message_id(row.pk, [entry])}_resync",
        media_type=cloud_events.MEDIA_TYPE,
        body=cloud_events.encode_resync(entry, version=version),
    )


def send_test(row: Receiver) -> str | None:
    """Send an event of the kind `receiver:test`, which is in no ledger; None where it was taken, else why."""
    at = clock.now()
    body = {
        "tenant": row.tenant,
        "stream": actors.SYSTEM,
        "seq": 0,
        "kind": TEST_KIND,
        "at": chain.time_text(at),
        "actor": actors.SYSTEM,
        "payload": {"name": row.name, "receiver_id": str(row.pk)},
    }
    prev_hash = chain.GENESIS_HASH
    entry = SealedEntry(
        origin=sealed.origin(),
        leaf=0,
        entry_hash=chain.entry_hash(prev_hash, canonical.encode(body)).hex(),
        prev_hash=prev_hash.hex(),
        body=body,
        at=at,
    )
    return send(row, [entry]).why


def trouble(kind: ReceiverKind, place: str) -> str | None:
    """What is wrong with where a receiver is; None where nothing is."""
    match kind:
        case ReceiverKind.WEBHOOK | ReceiverKind.SIEM_HTTP | ReceiverKind.OTLP_HTTP:
            return event_delivery.trouble(place)
        case ReceiverKind.SIEM_FILE:
            return event_delivery.trouble_with_file(place)
        case ReceiverKind.SIEM_SYSLOG:
            return event_delivery.trouble_with_syslog(place)


def head(form: EventFormat) -> bytes:
    """What stands once before the first event."""
    return csv_rows.header() if form == EventFormat.CSV else b""


def line(form: EventFormat, entry: SealedEntry) -> bytes:
    """One event as a line of a file, with its line end, in one of `contract.LINES`."""
    match form:
        case EventFormat.CSV:
            return csv_rows.encode(entry)
        case EventFormat.OCSF:
            return ocsf.encode(entry) + b"\n"
        case EventFormat.CLOUDEVENTS:
            return cloud_events.encode(entry) + b"\n"
        case EventFormat.SPANS:
            raise ValueError("a span is worked out from several events, so it is no line of a file")


def _post_one(row: Receiver, entries: Sequence[SealedEntry]) -> Answered:
    (entry,) = entries
    return event_delivery.post_signed(
        url=row.place,
        secret_env=row.secret_env,
        message_id=message_id(row.pk, entries),
        media_type=cloud_events.MEDIA_TYPE,
        body=_as_cloud_event(row, entry),
    )


def _as_cloud_event(row: Receiver, entry: SealedEntry) -> bytes:
    """The entry as it is; to a receiver of changes of facts as one, with the version of the world."""
    if entry.kind == TEST_KIND or not contract.gets_state(row.wants):
        return cloud_events.encode(entry)
    return cloud_events.encode_change(entry, version=state_readers.version_of(entry))


def _post_batch(row: Receiver, entries: Sequence[SealedEntry]) -> Answered:
    form = EventFormat(row.format)
    return event_delivery.post_with_token(
        url=row.place,
        secret_env=row.secret_env,
        message_id=message_id(row.pk, entries),
        media_type=csv_rows.MEDIA_TYPE if form == EventFormat.CSV else ocsf.MEDIA_TYPE,
        body=head(form) + b"".join(line(form, entry) for entry in entries),
    )


def _post_spans(row: Receiver, entries: Sequence[SealedEntry]) -> Answered:
    """Send the spans that these entries end; without any, nothing is sent."""
    try:
        ended = list(_spans(row.tenant, entries))
    except sealed.NotAsSealedError as error:
        return Answered(why=str(error))
    if not ended:
        return Answered(why=None)
    transactions.give_back_connection()
    answer = event_delivery.post_with_token(
        url=row.place,
        secret_env=row.secret_env,
        message_id=message_id(row.pk, entries),
        media_type=otlp.MEDIA_TYPE,
        body=otlp.encode(entries[0].origin, ended),
        read_bytes=otlp.MOST_ANSWER_BYTES,
    )
    if lost := otlp.rejected(answer.body):
        # It has answered that it took the message, and the protocol forbids to send it again.
        _log.warning("the receiver of events %s has rejected %d of %d spans", row.name, lost, len(ended))
    return answer


def _spans(tenant: str, entries: Sequence[SealedEntry]) -> Iterator[Span]:
    if entries[0].kind == TEST_KIND:
        yield spans.of_test(entries[0].entry_hash, entries[0].at)
        return
    of_flows: dict[str, set[int]] = {}
    for entry in entries:
        if entry.kind in spans.ENDING:
            of_flows.setdefault(entry.stream, set()).add(int(entry.body["seq"]))
    for dfid, ends in of_flows.items():
        told = sealed.list_of_flow(tenant=tenant, dfid=dfid, last_seq=max(ends))
        yield from (span for span in spans.of_flow(dfid, told) if span.ended_by in ends)


def _append(row: Receiver, entries: Sequence[SealedEntry]) -> Answered:
    form = EventFormat(row.format)
    return event_delivery.append_to_file(
        name=row.place,
        day=f"{clock.now():%Y-%m-%d}",
        ending="csv" if form == EventFormat.CSV else "ndjson",
        head=head(form),
        lines=b"".join(line(form, entry) for entry in entries),
    )
