"""Feedback on decision records against the entries of their flows, for `verify_ledger`."""

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from django.db.models import Exists, OuterRef

from audit.chain import BreakKind, ChainBreak
from audit.events import Kind
from audit.models import DecisionRecord, RecordFeedback
from audit.records import feedback
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found
from runtime.verification.flow_entries import Entries, entries_of


class FeedbackRowCheck(row_checks.FlowRows):
    """The rows of feedback, both ways; and that each is about a record of its flow."""

    kinds = frozenset({Kind.RECORD_EMITTED, Kind.RECORD_FEEDBACK_GIVEN})

    def finish(self) -> Iterator[ChainBreak]:
        """Compare what is left, and name the rows of flows that never had a record."""
        yield from super().finish()
        found = Found()
        records = DecisionRecord.objects.filter(dfid=OuterRef("dfid"))
        for row in RecordFeedback.objects.filter(~Exists(records)):
            found.without_entry(row.tenant, str(row.dfid), f"feedback {row.feedback_id}")
        yield from found.breaks

    def compare(self, flows: Mapping[UUID, Entries]) -> Iterable[ChainBreak]:
        """All findings of some flows."""
        found = Found()
        rows = {str(row.feedback_id): row for row in RecordFeedback.objects.filter(dfid__in=flows)}
        given = list(entries_of(flows, Kind.RECORD_FEEDBACK_GIVEN))
        emitted = {
            (entry.stream, entry.payload["record_id"]): entry
            for entry in entries_of(flows, Kind.RECORD_EMITTED)
        }
        # What a search finds it by.
        keys = dict(
            DecisionRecord.objects.filter(
                record_id__in=[entry.payload["record_id"] for entry in given]
            ).values_list("record_id", "pk")
        )
        for entry, row in found.rows_of(
            given, rows, lambda payload: payload["feedback_id"], "feedback {feedback_id}"
        ):
            expected = feedback.columns_of(entry.payload, actor=entry.actor, dfid=UUID(entry.stream))
            for name, value in expected.items():
                found.same(entry, f"feedback.{name}", value, getattr(row, name))
            found.same(entry, "feedback.tenant", entry.tenant, row.tenant)
            found.same(entry, "feedback.record", keys.get(row.record_id), row.record)
            found.then(entry, entry, "feedback.at", row.at)
            _compare_record(found, entry, emitted.get((entry.stream, entry.payload["record_id"])))
        for left in rows.values():
            found.without_entry(left.tenant, str(left.dfid), f"feedback {left.feedback_id}")
        return found.breaks


def _compare_record(found: Found, entry: Entry, emitted: Entry | None) -> None:
    """It names a record that was emitted before it, by its hash."""
    said = entry.payload
    is_of_it = (
        emitted is not None
        and emitted.seq < entry.seq
        and emitted.payload["record_hash"] == said["record_hash"]
    )
    if not is_of_it:
        detail = f"feedback {said['feedback_id']} is about no record that was emitted before it"
        found.breaks.append(entry.wrong(BreakKind.ROW_MISMATCH, detail))
