"""Notification routes against their entries, for `verify_ledger`: a redirected notice is noticed."""

from collections.abc import Iterable, Mapping

from audit.events import Kind
from audit.verification.row_checks import Entry, Found, NotProved, RowsWithHistory
from escalations.models import NotificationRoute
from escalations.services.notices import sealing
from runtime.contracts.incident import Severity

# What a route was like that was recorded before there were notices of incidents and of tasks.
_BEFORE: Mapping[str, str] = {"least_severity": Severity.SEV4, "quiet_exempt_severity": "", "task_group": ""}


class RouteRowCheck(RowsWithHistory):
    """Every route, its address among it; the notices are not in the ledger."""

    what, id_field = "notification route", "route_id"
    kinds = frozenset(
        {
            Kind.NOTIFICATION_ROUTE_ADDED,
            Kind.NOTIFICATION_ROUTE_CHANGED,
            Kind.NOTIFICATION_ROUTE_SWITCHED,
            Kind.NOTIFICATION_ROUTE_DELETED,
        }
    )
    not_proved = (NotProved("escalations_notice", (), "what was sent to whom is not in the ledger"),)

    def rows(self) -> Iterable[NotificationRoute]:
        """All of them."""
        return NotificationRoute.objects.all()

    def compare_row(self, found: Found, row: NotificationRoute, entries: list[Entry]) -> None:
        """The row as its entries left it."""
        added, last = entries[0], entries[-1]
        changes = [entry for entry in entries if entry.kind == Kind.NOTIFICATION_ROUTE_CHANGED]
        chosen = changes[-1] if changes else added
        for name, stored in row.recorded().items():
            recorded = chosen.payload.get(name, _BEFORE.get(name))
            found.same(chosen, f"route.{name}", recorded, stored)
        found.same(added, "route.tenant", added.tenant, row.tenant)
        found.by_then(added, added, "route.created_at", row.created_at)
        switches = [entry for entry in entries if entry.kind == Kind.NOTIFICATION_ROUTE_SWITCHED]
        switched_on = [entry for entry in switches if entry.payload["enabled"]]
        counts_from = max([added, *changes, *switched_on], key=lambda entry: entry.seq)
        found.by_then(counts_from, counts_from, "route.enabled_at", row.enabled_at)
        is_deleted = last.kind == Kind.NOTIFICATION_ROUTE_DELETED
        found.by_then(last if is_deleted else None, last, "route.deleted_at", row.deleted_at)
        is_on = not is_deleted and (not switches or switches[-1].payload["enabled"])
        found.same(last, "route.enabled", is_on, row.enabled)
        if not is_deleted:
            found.same(chosen, "route.address", chosen.payload["url_digest"], _digest(row))


def _digest(row: NotificationRoute) -> str:
    """The digest of the stored URL; what cannot be read has none."""
    try:
        return sealing.digest(sealing.unseal(bytes(row.address), route_id=row.pk).url)
    except sealing.UnreadableError:
        return "unreadable"
