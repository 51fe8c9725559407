"""Legal holds against their entries, for `verify_ledger`, both ways: none is lifted or made quietly."""

from collections.abc import Callable, Mapping

from audit import actors
from audit.events import Kind
from audit.verification.row_checks import Entry, Found, LastingRows, NotProved
from runtime.maintenance.models import LegalHold

_PLACE = "where a round of retention continues; whoever changes it only makes it begin elsewhere"
_ROUND = "how far payloads are encrypted anew; that each opens and fits its commitment is checked itself"
_LOCK = "one row that is only locked: it says nothing"


class HoldRowCheck(LastingRows):
    """Every hold, and that it is live just where no entry releases it. Holds are few."""

    kinds = frozenset({Kind.HOLD_PLACED, Kind.HOLD_RELEASED})
    not_proved = (
        NotProved("runtime_factround", (), _PLACE),
        NotProved("runtime_holdlock", (), _LOCK),
        NotProved("runtime_payloadround", (), _ROUND),
        NotProved("runtime_retentionround", (), _PLACE),
    )

    def __init__(self) -> None:
        self._placed: list[Entry] = []
        self._released: dict[str, Entry] = {}

    def take(self, entry: Entry) -> None:
        """Keep it: a hold is placed once and released once."""
        if entry.kind == Kind.HOLD_PLACED:
            self._placed.append(entry)
        else:
            self._released[entry.payload["hold_id"]] = entry

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """The one table."""
        return {"legal holds": self._holds}

    def _holds(self, found: Found) -> None:
        rows = {str(row.pk): row for row in LegalHold.objects.all()}
        for entry, row in found.rows_of(
            self._placed, rows, lambda told: told["hold_id"], "the legal hold {name}"
        ):
            told, key = entry.payload, str(row.pk)
            found.same(entry, "hold.tenant", entry.tenant, row.tenant)
            found.same(entry, "hold.stream", entry.stream, actors.hold(key))
            for name in ("name", "target", "subject"):
                found.same(entry, f"hold.{name}", told[name], getattr(row, name))
            found.same(entry, "hold.flow", told["dfid"], None if row.flow_id is None else str(row.flow_id))
            found.same(entry, "hold.commitment", told["text_commitment"], row.commitment)
            found.same(entry, "hold.placed_by", entry.actor, row.placed_by)
            found.by_then(entry, entry, "hold.placed_at", row.placed_at)
            end = self._released.pop(key, None)
            place = end or entry
            found.by_then(end, place, "hold.released_at", row.released_at)
            found.same(place, "hold.released_by", end.actor if end else "", row.released_by)
            commitment = end.payload["text_commitment"] if end else ""
            found.same(place, "hold.release_commitment", commitment, row.release_commitment)
        for row in rows.values():
            found.without_entry(row.tenant, actors.hold(row.pk), f"the legal hold {row.name}")
