"""Receivers of events against their entries, for `verify_ledger`: one that was redirected is noticed."""

from collections import defaultdict
from collections.abc import Callable, Mapping

from audit import actors
from audit.events import Kind
from audit.verification.row_checks import Entry, Found, LastingRows, NotProved
from runtime.contracts.receiver import ReceiverState
from runtime.outward.models import Receiver


class ReceiverRowCheck(LastingRows):
    """Every receiver, but not how far it has come."""

    kinds = frozenset(
        {
            Kind.RECEIVER_ADDED,
            Kind.RECEIVER_CHANGED,
            Kind.RECEIVER_PAUSED,
            Kind.RECEIVER_RESUMED,
            Kind.RECEIVER_MOVED,
        }
    )

    not_proved = (
        NotProved(
            "runtime_receiver",
            ("next_leaf", "next_at", "taken_at", "tries", "failing_since", "error"),
            "what a receiver took so far is not in the ledger: each would be sent in its turn",
        ),
    )

    def __init__(self) -> None:
        self._entries: dict[str, list[Entry]] = defaultdict(list)

    def take(self, entry: Entry) -> None:
        """Keep the entry with its receiver; there are few."""
        self._entries[entry.payload["receiver_id"]].append(entry)

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """The one table."""
        return {"receivers": self._compare}

    def _compare(self, found: Found) -> None:
        rows = {str(row.pk): row for row in Receiver.objects.all()}
        for receiver_id, entries in self._entries.items():
            row = rows.pop(receiver_id, None)
            if row is None:
                found.missing(entries[0], f"the receiver {entries[0].payload['name']}")
            else:
                _compare_row(found, row, sorted(entries, key=lambda entry: entry.seq))
        for row in rows.values():
            found.without_entry(row.tenant, actors.SYSTEM, f"the receiver {row.name}")


def _compare_row(found: Found, row: Receiver, entries: list[Entry]) -> None:
    added = entries[0]
    found.same(added, "receiver.tenant", added.tenant, row.tenant)
    found.same(added, "receiver.name", added.payload["name"], row.name)
    found.same(added, "receiver.kind", added.payload["receiver_kind"], row.kind)
    found.same(added, "receiver.added_by", added.actor, row.added_by)
    found.by_then(added, added, "receiver.added_at", row.added_at)
    told = [entry for entry in entries if entry.kind in {Kind.RECEIVER_ADDED, Kind.RECEIVER_CHANGED}][-1]
    for name in ("format", "place", "secret_env"):
        found.same(told, f"receiver.{name}", told.payload[name], getattr(row, name))
    found.same(told, "receiver.patterns", list(told.payload["patterns"]), row.wants)
    switches = [entry for entry in entries if entry.kind in {Kind.RECEIVER_PAUSED, Kind.RECEIVER_RESUMED}]
    is_paused = bool(switches) and switches[-1].kind == Kind.RECEIVER_PAUSED
    last = switches[-1] if switches else added
    found.same(last, "receiver.state", ReceiverState.PAUSED if is_paused else ReceiverState.ACTIVE, row.state)
    found.same(last, "receiver.paused_why", last.payload["reason"] if is_paused else "", row.paused_why)
