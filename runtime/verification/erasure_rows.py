"""Flows whose words were erased: nothing of them is present again, and each erasure has its entry."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.apps import apps

from audit import cells, erasure_columns
from audit.chain import BreakKind, ChainBreak
from audit.erasure_columns import WordColumns
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Found
from runtime.flows.models import Flow
from runtime.verification.flow_entries import Entries


class ErasureRowCheck(row_checks.FlowRows):
    """Erased cells are empty, and the flow's row says when that was done."""

    # Every flow is opened: one whose entries tell of no erasure must not claim one.
    kinds = frozenset({Kind.FLOW_OPENED, Kind.FLOW_ERASED})

    def compare(self, flows: Mapping[UUID, Entries]) -> Iterable[ChainBreak]:
        """All findings of some flows."""
        found = Found()
        last = {
            dfid: entries[-1]
            for dfid, entries in flows.items()
            if entries and entries[-1].kind == Kind.FLOW_ERASED
        }
        for dfid, stored in Flow.objects.filter(dfid__in=flows).values_list("dfid", "erased_at"):
            entry = last.get(dfid)
            if entry is not None or stored is not None:
                found.then(entry, entry or flows[dfid][0], "flow.erased_at", stored)
        for words in erasure_columns.list_words() if last else ():
            for dfid, column in list_present(words, last):
                detail = f"{words.table}.{column} was erased but is present again"
                found.breaks.append(last[dfid].wrong(BreakKind.ROW_MISMATCH, detail))
        return found.breaks


def list_present(words: WordColumns, flows: Iterable[UUID]) -> Iterable[tuple[UUID, str]]:
    """The cells of these flows that hold something, as flow and column."""
    rows = apps.get_model(words.model)._default_manager.filter(**{f"{words.flow}__in": list(flows)})
    for dfid, *held in rows.order_by().values_list(words.flow, *words.columns):
        for column, cell in zip(words.columns, held, strict=True):
            if not is_left(words, column, cell):
                yield dfid, column


def is_left(words: WordColumns, column: str, cell: Any) -> bool:
    """Whether a cell holds what an erasure leaves."""
    held = cells.bytes_of(cell)
    plain = cell if held is None else held
    return plain in (b"", "", None) if column not in words.left else plain == words.left[column]
