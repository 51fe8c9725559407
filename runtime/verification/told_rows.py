"""What agents were told against the commitments in entries of their flows, for `verify_ledger`.

These are the feedback on flows, and the answers that are kept for repeated calls.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef

from audit import actors, canonical, cells, told
from audit.chain import ChainBreak
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found, NotProved
from runtime.core import recorded_answers
from runtime.core.models import Answer
from runtime.flows.models import Feedback, Flow
from runtime.flows.queries import recorded_feedback
from runtime.state.queries import world
from runtime.verification.flow_entries import Entries

_CHUNK: Final = 500
_OLD: Final = "for rows from before there were commitments to them"


class ToldRowCheck(row_checks.FlowRows):
    """Feedback and kept answers, both ways: each has its commitment, and each commitment its row."""

    kinds = frozenset(Kind)
    not_proved = (
        NotProved("runtime_feedback", ("salt", "entry_seq"), _OLD),
        NotProved(
            "runtime_answer", ("dfid", "salt", "entry_seq"), f"{_OLD}, and for what is kept of a batch"
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.old = 0

    @property
    def not_verified(self) -> tuple[str, ...]:
        """How many rows are older than the commitments."""
        if not self.old:
            return ()
        return (
            f"{self.old} rows of feedback and stored responses are older than the commitments to such rows",
        )

    def see(self, entry: Entry) -> Iterator[ChainBreak]:
        """Keep the few entries that say something of these rows."""
        is_about = told.FEEDBACK in entry.payload or told.ANSWERS in entry.payload
        if is_about or entry.kind in {Kind.FLOW_OPENED, Kind.FLOW_ERASED}:
            yield from super().see(entry)

    def absorb(self, other: Self) -> None:
        """Count what another one has found to be old."""
        self.old += other.old

    def finish(self) -> Iterator[ChainBreak]:
        """Compare what is left, and look at the answers that name no flow."""
        yield from super().finish()
        found = Found()
        rows = Answer.objects.filter(dfid=None).select_related("agent", "feed_key").order_by("pk")
        for row in rows.iterator(chunk_size=_CHUNK):
            if row.agent is None:
                _compare_to_feed(found, row)
            elif recorded_answers.is_of_batch(row):
                _compare_batch(found, row)
            elif not cells.bytes_of(row.body):
                continue  # erased, from before there were commitments
            elif recorded_answers.compare(row, tenant=row.agent.tenant) is None:
                self.old += 1
            else:
                stream = str(recorded_answers.flow_of(row) or actors.SYSTEM)
                found.without_entry(row.agent.tenant, stream, f"the stored response {row.pk}")
        flow = Flow.objects.filter(dfid=OuterRef("dfid"))
        for row in Answer.objects.exclude(dfid=None).exclude(Exists(flow)).select_related("agent"):
            tenant, _ = recorded_answers.answered(row)
            found.without_entry(tenant, str(row.dfid), f"the stored response {row.pk}")
        yield from found.breaks

    def compare(self, flows: Mapping[UUID, Entries]) -> Iterable[ChainBreak]:
        """All findings of some flows."""
        found = Found(erased=row_checks.erased_in(flows))
        self._compare_feedback(found, flows)
        _compare_answers(found, flows)
        return found.breaks

    def _compare_feedback(self, found: Found, flows: Mapping[UUID, Entries]) -> None:
        rows = {(row.flow_id, row.seq): row for row in Feedback.objects.filter(flow__in=flows)}
        first: dict[UUID, int] = {}
        for entry, name, commitment in _committed(flows, told.FEEDBACK):
            dfid, seq = UUID(entry.stream), int(name)
            first[dfid] = min(seq, first.get(dfid, seq))
            row = rows.pop((dfid, seq), None)
            if row is None:
                found.missing(entry, f"the feedback {seq}")
            elif found.erasure_after(entry) is None:  # that an erased one is empty has a check of its own
                what = f"feedback {seq}"
                found.same(entry, f"{what}: its commitment", commitment, recorded_feedback.commitment_of(row))
                found.same(entry, f"{what}: its entry", entry.seq, row.entry_seq)
                found.then(entry, entry, f"{what}: at", row.at)
        for (dfid, seq), row in rows.items():
            entries = flows[dfid]
            is_old = not _must_be_recorded(entries) and seq < first.get(dfid, seq + 1)
            if is_old and row.entry_seq is None:
                self.old += 1
            elif entries:
                found.without_entry(entries[0].tenant, str(dfid), f"the feedback {seq}")


def _compare_answers(found: Found, flows: Mapping[UUID, Entries]) -> None:
    stored = Answer.objects.filter(dfid__in=flows).select_related("agent")
    rows = {(row.dfid, recorded_answers.name_of(row)): row for row in stored}
    agents = {
        entry.stream: entry.payload["agent_id"]
        for entries in flows.values()
        for entry in entries
        if entry.kind == Kind.FLOW_OPENED
    }
    for entry, name, commitment in _committed(flows, told.ANSWERS):
        row = rows.pop((UUID(entry.stream), name), None)
        if row is None:
            found.missing(entry, "a stored response")
            continue
        what = f"the stored response {row.pk}"
        found.same(entry, f"{what}: its agent", agents.get(entry.stream), recorded_answers.answered(row)[1])
        if found.erasure_after(entry) is not None:
            found.same(entry, f"{what}, which was erased", b"", cells.bytes_of(row.body))
            continue
        found.same(entry, f"{what}: its commitment", commitment, recorded_answers.commitment_of(row))
        found.same(entry, f"{what}: its entry", entry.seq, row.entry_seq)
        found.then(entry, entry, f"{what}: answered_at", row.answered_at)
    for (dfid, _), row in rows.items():
        tenant, _ = recorded_answers.answered(row)
        found.without_entry(tenant, str(dfid), f"the stored response {row.pk}")


def _compare_to_feed(found: Found, row: Answer) -> None:
    """An answer to a feed names the version of the fact that it wrote, which has its own entry."""
    key = row.feed_key
    tenant, stream = (settings.DIR_TENANT, actors.SYSTEM) if key is None else (key.tenant, key.holder)
    try:
        kept = canonical.decode(bytes(row.body))
        version, write_id = int(kept["version"]), str(kept["write_id"])
    except (canonical.CanonicalError, KeyError, TypeError, ValueError):
        found.without_entry(tenant, stream, f"the stored response {row.pk}")
        return
    if not world.is_of_write(tenant=tenant, path=row.path, version=version, write_id=write_id):
        found.without_entry(tenant, stream, f"the stored response {row.pk}")


def _compare_batch(found: Found, row: Answer) -> None:
    """What is kept of a batch says nothing but how many proposals it had."""
    try:
        kept = canonical.decode(bytes(row.body))
    except (canonical.CanonicalError, TypeError):
        kept = None
    if not isinstance(kept, dict) or kept.keys() != {"proposals"}:
        tenant, _ = recorded_answers.answered(row)
        found.without_entry(tenant, actors.SYSTEM, f"the stored response {row.pk}")


def _committed(flows: Mapping[UUID, Entries], member: str) -> Iterator[tuple[Entry, str, Any]]:
    for entries in flows.values():
        for entry in entries:
            for name, commitment in told.committed(entry.payload, member).items():
                yield entry, name, commitment


def _must_be_recorded(entries: Entries) -> bool:
    return any(entry.kind == Kind.FLOW_OPENED and entry.payload.get("told_recorded") for entry in entries)
