"""The rows of tasks for people against the entries of their flows, for `verify_ledger`."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from uuid import UUID

from django.conf import settings

from audit import cells
from audit.chain import ChainBreak, commitment, time_text
from audit.events import Kind
from audit.models import Payload
from audit.sealing import keys
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found
from escalations.row_checks import compare_signature
from escalations.signed_rows import SignedRows
from runtime.contracts.states import TaskState
from runtime.execution.models import HumanTask

_ENDS = {Kind.TASK_ANSWERED: TaskState.ANSWERED, Kind.TASK_OVERDUE: TaskState.OVERDUE}
_ANSWER = ("answer", "statement", "signature", "key_id", "answered_by")


class TaskRowCheck(SignedRows):
    """Tasks, and the signed answers to them."""

    # Every flow is opened: one without a task in its entries must have none in the tables.
    kinds = frozenset({Kind.FLOW_OPENED, Kind.FLOW_ERASED, Kind.TASK_OPENED, *_ENDS})
    not_proved = ()

    one, several = "signed answer to tasks", "signed answers to tasks"

    def compare(self, flows: Mapping[UUID, Sequence[Entry]]) -> Iterable[ChainBreak]:
        """All findings of some flows."""
        found = Found(erased=row_checks.erased_in(flows))
        ring = keys.keyring(tenant=settings.DIR_TENANT)
        entries = [entry for each in flows.values() for entry in each]
        ends = {entry.payload["task_id"]: entry for entry in entries if entry.kind in _ENDS}
        stored = HumanTask.objects.filter(intent__flow__in=flows).select_related("intent")
        rows = {str(row.pk): row for row in stored}
        flow_of = {name: row.intent.flow_id for name, row in rows.items()}
        opened = [entry for entry in entries if entry.kind == Kind.TASK_OPENED]
        salts = _salts(ends.values())
        for entry, row in found.rows_of(opened, rows, itemgetter("task_id"), "the task {task_id}"):
            end = ends.get(entry.payload["task_id"])
            _compare_opened(found, entry, row)
            found.then(end, entry, "humantask.ended_at", row.ended_at)
            state = TaskState.OPEN if end is None else _ENDS[Kind(end.kind)]
            found.same(end or entry, "humantask.state", state.value, row.state)
            if end is None or end.kind == Kind.TASK_OVERDUE:
                empty = [bool(getattr(row, name)) for name in _ANSWER]
                found.same(end or entry, "humantask.answer", False, any(empty))
                continue
            said = end.payload
            found.bytes(end, "humantask.statement", said["statement_digest"], row.statement)
            found.same(end, "humantask.key_id", said["key_id"], row.key_id)
            found.same(end, "humantask.answered_by", end.actor, row.answered_by)
            signed = {"statement": row.statement, "signature": row.signature, "key_id": row.key_id}
            compare_signature(found, end, signed, ring)
            salt = salts.get(said["receipt_commitment"])
            if salt is not None and commitment(salt, bytes(row.answer)) != said["receipt_commitment"]:
                found.same(end, "humantask.answer", "the committed content", "other content")
        for name in rows:
            found.without_entry(rows[name].tenant, str(flow_of[name]), f"the task {name}")
        self.note_unknown_keys(found)
        return found.breaks


def _compare_opened(found: Found, entry: Entry, row: HumanTask) -> None:
    said = entry.payload
    found.bytes(entry, "humantask.body", said["task_hash"], row.body)
    stored = {
        "intent_id": str(row.intent_id),
        "number": row.number,
        "step": row.step,
        "direction": row.direction,
        "group": row.group,
        "task_hash": row.task_hash,
        "deadline_at": time_text(row.deadline_at),
    }
    for name, value in stored.items():
        found.same(entry, f"humantask.{name}", said[name], value)
    found.same(entry, "humantask.tenant", entry.tenant, row.tenant)
    found.then(entry, entry, "humantask.opened_at", row.opened_at)


def _salts(ends: Iterable[Entry]) -> dict[str, bytes]:
    """The salts behind the commitments of answers; one that was erased has none."""
    wanted = {entry.payload.get("receipt_commitment") for entry in ends} - {None}
    found = Payload.objects.filter(commitment__in=wanted).values_list("commitment", "salt")
    salts = ((name, cells.bytes_of(salt)) for name, salt in found)
    return {name: salt for name, salt in salts if salt is not None}
