"""Receivers of events against their entries, for `verify_ledger`: one that was redirected is noticed."""

from collections.abc import Iterable

from audit.events import Kind
from audit.verification.row_checks import Entry, Found, NotProved, RowsWithHistory
from runtime.contracts.receiver import ReceiverState
from runtime.outward.models import Receiver
from runtime.outward.queries import sealed


class ReceiverRowCheck(RowsWithHistory):
    """Every receiver; of how far it has come only that it is not beyond the end of the tree."""

    what, id_field = "receiver", "receiver_id"
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
            "what a receiver took so far is not in the ledger, only where the tree ends: each entry about it "
            "would be sent in its turn",
        ),
    )

    def rows(self) -> Iterable[Receiver]:
        """All of them."""
        return Receiver.objects.all()

    def compare_row(self, found: Found, row: Receiver, entries: list[Entry]) -> None:
        """The row as its entries left it."""
        added = entries[0]
        found.same(added, "receiver.tenant", added.tenant, row.tenant)
        found.same(added, "receiver.name", added.payload["name"], row.name)
        found.same(added, "receiver.kind", added.payload["receiver_kind"], row.kind)
        found.same(added, "receiver.added_by", added.actor, row.added_by)
        found.by_then(added, added, "receiver.added_at", row.added_at)
        if row.next_leaf > (size := sealed.size()):
            # It would silently get nothing until the tree has grown so far.
            found.same(entries[-1], "receiver.next_leaf", f"at most {size}", row.next_leaf)
        told = [entry for entry in entries if entry.kind in {Kind.RECEIVER_ADDED, Kind.RECEIVER_CHANGED}][-1]
        for name in ("format", "place", "secret_env"):
            found.same(told, f"receiver.{name}", told.payload[name], getattr(row, name))
        found.same(told, "receiver.patterns", list(told.payload["patterns"]), row.wants)
        switches = [entry for entry in entries if entry.kind in {Kind.RECEIVER_PAUSED, Kind.RECEIVER_RESUMED}]
        is_paused = bool(switches) and switches[-1].kind == Kind.RECEIVER_PAUSED
        last = switches[-1] if switches else added
        found.same(
            last, "receiver.state", ReceiverState.PAUSED if is_paused else ReceiverState.ACTIVE, row.state
        )
        found.same(last, "receiver.paused_why", last.payload["reason"] if is_paused else "", row.paused_why)
