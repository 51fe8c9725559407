"""Replay: judge every stored verdict again from its stored input and compare the bytes."""

from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from audit import canonical, queries
from audit.events import Kind
from audit.models import LedgerEntry
from runtime.flows.models import Verdict
from runtime.kernel.gate import pipeline

_CHUNK = 200


@dataclass(frozen=True)
class Equal:
    """Every verdict came out as it is stored, and as the ledger recorded it."""

    count: int


@dataclass(frozen=True, kw_only=True)
class Different:
    """The first verdict that did not: `what` differs, `stored` is what the row or the ledger holds."""

    proposal_id: UUID
    dfid: UUID
    what: str
    stored: str
    found: str


def replay(*, dfid: UUID | None = None) -> Equal | Different:
    """Judge again every verdict, or those of one flow; stops at the first difference. Writes nothing."""
    rows = Verdict.objects.select_related("proposal__flow", "bundle").order_by("proposal_id")
    if dfid is not None:
        rows = rows.filter(proposal__flow_id=dfid)
    count = 0
    unread = rows.iterator(chunk_size=_CHUNK)
    while chunk := list(islice(unread, _CHUNK)):
        # Digests of input, rules and verdict by proposal, as the entries of the flows hold them.
        streams = {str(row.proposal.flow_id) for row in chunk}
        tenants = {row.proposal.flow.tenant for row in chunk}
        entries = LedgerEntry.objects.filter(tenant__in=tenants, stream__in=streams, kind=Kind.VERDICT_GIVEN)
        recorded = {
            said["proposal_id"]: (said["input_digest"], said["policy_bundle_hash"], said["verdict_digest"])
            for _, said in queries.readable(entries)
        }
        for row in chunk:
            difference = _difference(row, recorded.get(str(row.pk)))
            if difference is not None:
                return difference
            count += 1
    return Equal(count)


def _difference(row: Verdict, recorded: tuple[str, str, str] | None) -> Different | None:
    if row.proposal.flow.erased_at is not None and not row.input and not row.body:
        return None  # there is nothing left to judge; `verify_ledger` asks whether an entry says so
    cells = (row.input, row.bundle.body, row.body)
    if any(isinstance(cell, str) for cell in cells):  # SQLite lets anybody put a text where bytes belong
        return _differs(row, "cells", "bytes", "a text")
    stored_input, bundle, body = (bytes(cell) for cell in cells)
    digests = (canonical.digest(stored_input), canonical.digest(bundle), canonical.digest(body))
    compared = [
        ("input digest", row.input_digest, digests[0]),
        ("bundle digest", row.bundle_id, digests[1]),
        ("ledger", " ".join(recorded) if recorded else "no entry", " ".join(digests)),
    ]
    for what, stored, found in compared:
        if stored != found:
            return _differs(row, what, stored, found)
    try:
        judged = pipeline.judge_bytes(stored_input, bundle)
    except ValueError as error:  # a reading error of pydantic is one too
        return _differs(row, "input", "readable", type(error).__name__)
    if judged != body:
        return _differs(row, "verdict bytes", digests[2], canonical.digest(judged))
    decision: str = canonical.decode(judged)["decision"]
    return None if decision == row.decision else _differs(row, "decision", row.decision, decision)


def _differs(row: Verdict, what: str, stored: str, found: str) -> Different:
    return Different(
        proposal_id=row.proposal.proposal_id, dfid=row.proposal.flow_id, what=what, stored=stored, found=found
    )
