"""The rules that a record must keep: each is broken once."""

from collections.abc import Callable
from typing import Any

import pytest

from audit.records import rules
from tests.audit.records.test_fold import (
    ESCALATED,
    OPENED,
    PROPOSED,
    TO_PERSON,
    decided,
    moved,
    record_of,
    verdict,
)

ACCEPTED = (OPENED, PROPOSED, verdict("ACCEPT"), moved("ACCEPTED"))
CALLED = ("attempt:started", {"intent_id": "i-1", "number": 1, "step": "buy", "target_key": "key-1"})
GOOD = {
    "accepted": ACCEPTED,
    "escalated": TO_PERSON,
    "called": (*ACCEPTED, CALLED),
    "overridden": (*TO_PERSON, decided("OVERRIDE"), verdict("ACCEPT"), moved("ACCEPTED")),
    "nothing proposed": (OPENED, moved("ABORTED")),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_record_is_written(name: str) -> None:
    rules.check(record_of(*GOOD[name]))


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda record: record.update({name: []})


def unallowed(record: dict[str, Any]) -> None:
    record["policy_decisions"][-1]["verdict"] = "deny"


def one_of_two(record: dict[str, Any]) -> None:
    record["approval_mode_effective"] = "two_persons"


def taken_back(record: dict[str, Any]) -> None:
    record["approvals"][0]["state"] = "TAKEN_BACK"


def no_gate(record: dict[str, Any]) -> None:
    record["controls_active"]["approval_gates_active"] = []


def no_trace(record: dict[str, Any]) -> None:
    record["trace_id"] = "none"


def nobody(record: dict[str, Any]) -> None:
    record["actor"]["id"] = ""


def unpinned(record: dict[str, Any]) -> None:
    record["lineage"]["pack_version"] = None


@pytest.mark.parametrize(
    ("course", "spoil", "rule"),
    [
        ("called", without("policy_decisions"), "Policy"),
        ("accepted", unallowed, "Policy"),
        ("overridden", without("approvals"), "Approval"),
        ("overridden", one_of_two, "Approval"),
        ("overridden", taken_back, "Approval"),
        ("escalated", no_gate, "Controls"),
        ("accepted", no_trace, "Trace"),
        ("accepted", nobody, "Schema"),
        ("accepted", without("evidence_refs"), "Evidence"),
        ("accepted", unpinned, "Lineage"),
    ],
)
def test_a_record_that_breaks_a_rule_is_not_written(
    course: str, spoil: Callable[[dict[str, Any]], None], rule: str
) -> None:
    record = record_of(*GOOD[course])
    spoil(record)
    with pytest.raises(rules.InvalidRecordError, match=f"{rule}: "):
        rules.check(record)


def test_two_different_people_approve_what_takes_two() -> None:
    record = record_of(*TO_PERSON, ESCALATED, decided("OVERRIDE"), verdict("ACCEPT"), moved("ACCEPTED"))
    record["approval_mode_effective"] = "two_persons"
    first = {**record["approvals"][0], "approver": "user:2", "state": "CONFIRMED"}
    record["approvals"].append(first)
    rules.check(record)
    first["approver"] = record["approvals"][0]["approver"]
    with pytest.raises(rules.InvalidRecordError, match="two_persons needs 2, and 1 approved"):
        rules.check(record)
