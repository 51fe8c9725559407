"""Events for agents, compared with the ledger before they are served.

An entry of the flow holds a commitment to each event (`audit.told`), so a changed one is never served.
"""

from collections.abc import Sequence

from audit import cells, queries, told
from runtime.contracts.states import ERASED_FEEDBACK
from runtime.core.mismatches import NOT_RECORDED, Mismatch
from runtime.flows.models import Feedback, Flow

ROW = "feedback.body"


def compare(flow: Flow, rows: Sequence[Feedback]) -> list[Mismatch]:
    """Those of these events of a flow that are not what was recorded; one query, or two for old events.

    An event from before there were commitments is compared with nothing, if its flow is as old. What an
    erasure has left of a flow holds nothing that could be compared.
    """
    if not rows:
        return []
    stream = str(flow.dfid)
    seqs = {row.entry_seq for row in rows if row.entry_seq is not None}
    payloads = queries.payloads_at(tenant=flow.tenant, stream=stream, seqs=seqs) if seqs else {}
    in_flow = (
        told.recorded_in(tenant=flow.tenant, stream=stream)
        if any(row.entry_seq is None for row in rows)
        else None
    )
    found = []
    for row in rows:
        if flow.erased_at is not None and bytes(row.body) == ERASED_FEEDBACK:
            continue
        if row.entry_seq is not None:
            in_entry = told.committed(payloads.get(row.entry_seq, {}), told.FEEDBACK)
            recorded = in_entry.get(str(row.seq), NOT_RECORDED)
        elif in_flow is None or in_flow.may_be_old(row.seq):
            continue
        else:
            recorded = in_flow.feedback.get(row.seq, NOT_RECORDED)
        stored = commitment_of(row)
        if recorded != stored:
            found.append(Mismatch(row=ROW, row_id=f"{stream} {row.seq}", recorded=recorded, found=stored))
    return found


def commitment_of(row: Feedback) -> str:
    """The commitment to what is stored."""
    salt, body = cells.bytes_of(row.salt) or b"", cells.bytes_of(row.body) or b""
    return told.of_feedback(salt, row.seq, row.event_type, body)
