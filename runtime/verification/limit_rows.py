"""Limits of authority against the last entry about each, for `verify_ledger`."""

from collections.abc import Callable, Mapping

from audit.events import Kind
from audit.verification.row_checks import Found
from runtime.registry.models import AuthorityLimitRow
from runtime.verification.last_entries import LastEntryRows, Subjects

_WORD = "limit"
_SUBJECTS: Subjects = {Kind.LIMIT_CHANGED: [(_WORD, ("holder", "policy_kind", "unit", "of_impact"))]}


class LimitRowCheck(LastEntryRows):
    """Every limit, and none that no entry records or that was removed."""

    kinds = frozenset(_SUBJECTS)
    kept_by = _SUBJECTS

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """The limits alone."""
        return {"limits": self._compare}

    def _compare(self, found: Found) -> None:
        entries = self.of(_WORD)
        for row in AuthorityLimitRow.objects.order_by("pk"):
            of_impact = row.amount is None
            name = (row.holder, row.policy_kind, row.unit, str(of_impact))
            what = f"the limit of {row.holder} for {row.policy_kind or 'all kinds'}"
            entry = entries.pop((row.tenant, name), None)
            if entry is None:
                found.without_entry(row.tenant, row.holder, what)
                continue
            told = entry.payload
            found.same(entry, "limit.amount", told["amount"], row.amount)
            found.same(entry, "limit.impact", told["impact"] or "", row.impact)
            found.same(entry, "limit.changed_by", entry.actor, row.changed_by)
            found.then(entry, entry, "limit.changed_at", row.changed_at)
        for entry in entries.values():
            # One that was removed has neither.
            if entry.payload["amount"] is not None or entry.payload["impact"] is not None:
                found.missing(entry, f"the limit of {entry.payload['holder']}")
