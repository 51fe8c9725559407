"""The rows of callbacks against the entries of their flows, for `verify_ledger`."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from audit import canonical
from audit.chain import ChainBreak, time_text
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found, NotProved
from runtime.contracts.states import CallbackState
from runtime.execution.models import TargetCallback
from runtime.verification.flow_entries import Entries, entries_of, note_extra

_ENDS = {
    Kind.CALLBACK_REPORTED: CallbackState.REPORTED,
    Kind.CALLBACK_OVERDUE: CallbackState.OVERDUE,
    Kind.CALLBACK_CLOSED: CallbackState.CLOSED,
}
_SAYS = (Kind.CALLBACK_PROGRESSED, Kind.CALLBACK_REPORTED)
_Key = tuple[str, int]


class CallbackRowCheck(row_checks.FlowRows):
    """Where targets report results, and the newest report."""

    # Every flow is opened: one without a callback in its entries must have none in the tables.
    kinds = frozenset(
        {Kind.FLOW_OPENED, Kind.FLOW_ERASED, Kind.CALLBACK_OPENED, Kind.CALLBACK_AWAITED, *_ENDS, *_SAYS}
    )
    not_proved = (
        NotProved(
            "runtime_targetcallback",
            ("next_ask_at",),
            "when a target is asked again: no result hangs on it",
        ),
    )

    def compare(self, flows: Mapping[UUID, Entries]) -> Iterable[ChainBreak]:
        """All findings of some flows."""
        found = Found(erased=row_checks.erased_in(flows))
        stored = TargetCallback.objects.filter(intent__flow__in=flows).select_related("intent")
        rows = {(str(row.intent_id), row.number): row for row in stored}
        opened = entries_of(flows, Kind.CALLBACK_OPENED)
        awaited = {_key(entry): entry for entry in entries_of(flows, Kind.CALLBACK_AWAITED)}
        last_end = {_key(entry): entry for entry in entries_of(flows, *_ENDS)}
        progressed = {_key(entry): entry for entry in entries_of(flows, Kind.CALLBACK_PROGRESSED)}
        reported = {_key(entry): entry for entry in entries_of(flows, *_SAYS)}
        named = "the callback of attempt {number} of {intent_id}"
        for entry, row in found.rows_of(opened, rows, _of_payload, named):
            key = _key(entry)
            _compare_opened(found, entry, row)
            _compare_location(found, entry, row, awaited.get(key))
            end = last_end.get(key)
            state = CallbackState.OPEN if end is None else _ENDS[Kind(end.kind)]
            found.same(end or entry, "targetcallback.state", state.value, row.state)
            found.then(end, entry, "targetcallback.ended_at", row.ended_at)
            _compare_reported(found, entry, row, reported.get(key), progressed.get(key))
        note_extra(
            found, flows, ((row.intent.flow_id, f"{a}/{b}") for (a, b), row in rows.items()), "callback"
        )
        return found.breaks


def _compare_opened(found: Found, entry: Entry, row: TargetCallback) -> None:
    stored = {
        "target": row.target,
        "token_hash": row.token_hash,
        "deadline_at": time_text(row.deadline_at),
    }
    for name, value in stored.items():
        found.same(entry, f"targetcallback.{name}", entry.payload[name], value)
    found.same(entry, "targetcallback.tenant", entry.tenant, row.tenant)
    found.then(entry, entry, "targetcallback.opened_at", row.opened_at)


def _compare_location(found: Found, opened: Entry, row: TargetCallback, awaited: Entry | None) -> None:
    recorded = None if awaited is None else awaited.payload.get("location_hash")
    stored = canonical.digest(row.location.encode()) if row.location else None
    found.same(awaited or opened, "targetcallback.location", recorded, stored)


def _compare_reported(
    found: Found, opened: Entry, row: TargetCallback, newest: Entry | None, progressed: Entry | None
) -> None:
    found.then(newest, opened, "targetcallback.reported_at", row.reported_at)
    said = {"report": 0, "percent": None} if progressed is None else progressed.payload
    for name in ("report", "percent"):
        found.same(progressed or opened, f"targetcallback.{name}", said[name], getattr(row, name))


def _key(entry: Entry) -> _Key:
    return _of_payload(entry.payload)


def _of_payload(payload: Mapping[str, object]) -> _Key:
    return str(payload["intent_id"]), int(str(payload["number"]))
