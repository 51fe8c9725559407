"""What agents offer each other against the entries in their own streams, for `verify_ledger`."""

from collections.abc import Callable, Mapping
from typing import Final

from audit.chain import time_text
from audit.events import Kind
from audit.verification.row_checks import Entry, Found
from runtime.conversations.models import Capability
from runtime.kernel.capability_health import ListingState
from runtime.verification.last_entries import LastEntryRows, Subjects

_ONE: Final = ("agent_id", "capability")
_SUBJECTS: Subjects = {
    Kind.CAPABILITY_ADVERTISED: [("capability", _ONE)],
    Kind.CAPABILITY_HEARD: [("heartbeat", ("agent_id",))],
    Kind.CAPABILITY_HEALTH_CHANGED: [("health", _ONE)],
    Kind.CAPABILITY_OVERRIDDEN: [("override", _ONE)],
}
_UNSEEN: Final = {"state": ListingState.LISTED.value, "failures": 0, "quarantines": 0, "until": None}


class CapabilityRowCheck(LastEntryRows):
    """Every column, both ways."""

    kinds = frozenset(_SUBJECTS)
    kept_by = _SUBJECTS

    def __init__(self) -> None:
        super().__init__()
        # The first offer of each: a heartbeat before it says nothing of it.
        self._first: dict[tuple[str, str, str], int] = {}

    def take(self, entry: Entry) -> None:
        """Keep the last entry about each subject, and the first offer."""
        super().take(entry)
        if entry.kind == Kind.CAPABILITY_ADVERTISED:
            key = (entry.tenant, entry.payload["agent_id"], entry.payload["capability"])
            self._first[key] = min(entry.seq, self._first.get(key, entry.seq))

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """The one table."""
        return {"capabilities": self._capabilities}

    def _capabilities(self, found: Found) -> None:
        rows = [
            (row.tenant, (row.provider.agent_id, row.capability), row)
            for row in Capability.objects.select_related("provider")
        ]
        beats, health, overrides = self.of("heartbeat"), self.of("health"), self.of("override")
        for entry, row in self.rows(found, "capability", rows):
            name = (row.provider.agent_id, row.capability)
            said = entry.payload
            found.bytes(entry, "capability.body", said["body_digest"], row.body)
            found.same(entry, "capability.digest", said["body_digest"], row.digest)
            found.by_then(entry, entry, "capability.advertised_at", row.advertised_at)
            beat = beats.get((row.tenant, (row.provider.agent_id,)))
            if beat is not None and beat.seq < self._first[row.tenant, name[0], name[1]]:
                beat = None
            last = beat if beat is not None and beat.seq > entry.seq else entry
            found.same(last, "capability.status", last.payload["status"], row.status)
            found.by_then(beat, entry, "capability.heard_at", row.heard_at)
            _compare_health(found, entry, health.get((row.tenant, name)), row)
            _compare_override(found, entry, overrides.get((row.tenant, name)), row)


def _compare_health(found: Found, entry: Entry, seen: Entry | None, row: Capability) -> None:
    told = _UNSEEN if seen is None else seen.payload
    for name in ("state", "failures", "quarantines"):
        found.same(seen or entry, f"capability.{name}", told[name], getattr(row, name))
    until = None if row.until is None else time_text(row.until)
    found.same(seen or entry, "capability.until", told["until"], until)


def _compare_override(found: Found, entry: Entry, decided: Entry | None, row: Capability) -> None:
    said = {} if decided is None else decided.payload
    at = decided or entry
    found.same(at, "capability.override", said.get("state", ""), row.override)
    found.same(at, "capability.override_reason", said.get("reason", ""), row.override_reason)
    found.same(at, "capability.override_by", "" if decided is None else decided.actor, row.override_by)
    found.by_then(decided, entry, "capability.override_at", row.override_at)
