"""The page's rules for a record (ContextOS, "Validation rules"): one that breaks them is not written.

They are asked in the transaction of what the record is about, which then comes to nothing. What the gate, a
decision or a claim refuses before is not asked again; this is where a gap between them would show.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from audit.records import fold
from audit.records.fold import NO_MODE
from audit.records.statuses import STOPPING, Status

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_TWO = 2
_ALLOWED = (Status.IN_FLIGHT, Status.DECIDED)


class InvalidRecordError(Exception):
    """The record breaks a rule, so what it is about is not done; the message names all rules broken."""


def check(record: Mapping[str, Any]) -> None:
    """Raises InvalidRecordError for a record that must not be written."""
    broken = list(violations(record))
    if broken:
        raise InvalidRecordError(f"record {record['record_id']}: {'; '.join(broken)}")


def violations(record: Mapping[str, Any]) -> Iterator[str]:
    """The rules that a record breaks, each with what is wrong."""
    ran = bool(record["tool_lineage"]) or record["status"] in _ALLOWED
    yield from _policy(record, ran)
    yield from _approval(record)
    yield from _controls(record)
    yield from _lineage(record)
    if _TRACE_ID.fullmatch(record["trace_id"]) is None:
        yield "Trace: it has no trace id of 32 hexadecimal digits"
    if not record["actor"]["id"]:
        yield "Schema: nobody made the decision"
    if record["policy_decisions"] and not record["evidence_refs"]:
        yield "Evidence: nothing supports the decision"


def _policy(record: Mapping[str, Any], ran: bool) -> Iterator[str]:
    allowed = any(item["verdict"] == fold.DECISIONS["ACCEPT"] for item in record["policy_decisions"])
    if ran and not allowed:
        yield "Policy: something was let run without a policy decision that allows it"


def _approval(record: Mapping[str, Any]) -> Iterator[str]:
    mode = record["approval_mode_effective"]
    # Whoever stops something needs nobody's approval, also where that undoes what ran.
    stops = record["flow"]["action"] in STOPPING
    if mode == NO_MODE or stops or record["status"] not in _ALLOWED:
        return
    given = {item["approver"] for item in record["approvals"] if item["state"] in fold.IN_FORCE}
    needed = _TWO if mode == fold.MODES[-1] else 1
    if len(given) < needed:
        yield f"Approval: {mode} needs {needed}, and {len(given)} approved"


def _controls(record: Mapping[str, Any]) -> Iterator[str]:
    active = set(record["controls_active"]["approval_gates_active"])
    if record["status"] == Status.ESCALATED and not active:
        yield "Controls: it waits for people at no gate"


def _lineage(record: Mapping[str, Any]) -> Iterator[str]:
    lineage = record["lineage"]
    if record["policy_decisions"] and not (lineage["pack_version"] and lineage["gate_version"]):
        yield "Lineage: the rules that were in force are not named"
