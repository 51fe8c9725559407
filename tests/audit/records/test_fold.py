"""The fold on entries made by hand: statuses, approvals, what a record is made of."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit import canonical
from audit.records import fold
from audit.records.fold import Rules, Said
from audit.records.statuses import Status

DFID = "0192f0c0-0000-7000-8000-000000000001"
PROPOSAL, ESCALATION, INTENT = "p-1", "e-1", "i-1"
RULES = Rules(
    intent_ref="orders",
    subject_ids=("order:881",),
    unresolved=("customer:${params.customer}",),
    gate_id="GATE_DESK",
    must_refuse=("R_OPEN",),
    must_escalate=("max_notional",),
    manifest="1.4.0",
    model_profile="model.safe",
    reversals={"buy": "key-back"},
)
Told = tuple[str, Mapping[str, Any]]

OPENED: Told = (
    "flow:opened",
    {"agent_id": "analyst", "trigger_commitment": "aa", "traceparent": f"00-{'4b' * 16}-{'00' * 8}-01"},
)
PROPOSED: Told = (
    "proposal:submitted",
    {
        "proposal_id": PROPOSAL,
        "author": "agent:analyst",
        "policy_kind": "BUY",
        "policy_version": "1.2.0",
        "proposal_digest": "bb",
        "context_ref": "cc",
    },
)
ESCALATED: Told = (
    "escalation:opened",
    {
        "escalation_id": ESCALATION,
        "family": "DECISION",
        "impact": "HIGH_IMPACT",
        "revision": 1,
        "evidence_hash": "dd",
    },
)
ASKED: Told = ("information:requested", {"escalation_id": ESCALATION, "number": 1})
ANSWERED: Told = (
    "information:answered",
    {"escalation_id": ESCALATION, "number": 1, "answer_commitment": "ee"},
)


def verdict(decision: str, *codes: str, impact: str = "HIGH_IMPACT") -> Told:
    return (
        "verdict:given",
        {
            "proposal_id": PROPOSAL,
            "verdict": decision,
            "reasons": [{"check": "limits", "code": code} for code in codes],
            "input_digest": "11",
            "verdict_digest": "22",
            "policy_bundle_hash": "33",
            "gate_version": "1.1.0",
            "impact": impact,
        },
    )


def moved(to: str, reason: str = "") -> Told:
    return ("flow:moved", {"from_state": "", "to_state": to, "reason": reason})


def decided(action: str | None, *, sequence: int = 1) -> Told:
    said = {
        "escalation_id": ESCALATION,
        "revision": 1,
        "evidence_hash": "dd",
        "statement_digest": "ff",
        "signature": "00",
        "key_id": "k",
        "sequence": sequence,
    }
    kind = "escalation:first_decided" if action is None else "escalation:decided"
    return kind, (said if action is None else {**said, "action": action})


def entries(*told: Told, start: int = 1, actor: str = "agent:analyst") -> list[Said]:
    return [
        Said(seq, kind, f"2026-11-24T10:00:{seq:02}.000000Z", actor, payload)
        for seq, (kind, payload) in enumerate(told, start=start)
    ]


def record_of(*told: Told, rules: Rules = RULES, version: str = fold.VERSION) -> dict[str, Any]:
    return fold.fold(
        dfid=DFID, previous=None, entries=entries(*told), rules=lambda said: rules, version=version
    )


TO_PERSON = (OPENED, PROPOSED, verdict("ESCALATE", "RISK_LIMIT_EXCEEDED"), moved("ESCALATED"), ESCALATED)
OUTCOME = ("outcome:recorded", {"intent_id": INTENT, "status": "SUCCEEDED", "outcome_digest": "99"})
FAILED = ("outcome:recorded", {"intent_id": INTENT, "status": "FAILED", "outcome_digest": "99"})
COURSES: Mapping[str, tuple[Sequence[Told], Status, str]] = {
    "accepted": (
        (OPENED, PROPOSED, verdict("ACCEPT"), moved("ACCEPTED")),
        Status.IN_FLIGHT,
        "accepted",
    ),
    "done": (
        (OPENED, PROPOSED, verdict("ACCEPT"), moved("ACCEPTED"), OUTCOME, moved("CLOSED")),
        Status.DECIDED,
        "succeeded",
    ),
    "nothing to do": (
        (OPENED, PROPOSED, verdict("ACCEPT"), moved("ACCEPTED"), moved("CLOSED")),
        Status.DECIDED,
        "accepted",
    ),
    "failed": (
        (OPENED, PROPOSED, verdict("ACCEPT"), moved("ACCEPTED"), FAILED, moved("ABORTED")),
        Status.CLOSED,
        "failed",
    ),
    "refused, may try again": (
        (OPENED, PROPOSED, verdict("REJECT", "R_OPEN"), moved("ACTIVE")),
        Status.REJECTED,
        "denied",
    ),
    "refused for good": (
        (OPENED, PROPOSED, verdict("REJECT", "R_OPEN"), moved("ABORTED", "REASONING_EXHAUSTION")),
        Status.REJECTED,
        "denied",
    ),
    "with a person": (TO_PERSON, Status.ESCALATED, "escalated"),
    "the agent is asked": ((*TO_PERSON, ASKED), Status.DEFERRED, "deferred"),
    "the agent has answered": ((*TO_PERSON, ASKED, ANSWERED), Status.ESCALATED, "escalated"),
    "a person aborts": ((*TO_PERSON, decided("ABORT"), moved("ABORTED")), Status.REJECTED, "denied"),
    "the deadline passes": ((*TO_PERSON, moved("ABORTED", "DEADLINE_PASSED")), Status.CLOSED, "retired"),
    "ended before anything was proposed": ((OPENED, moved("ABORTED", "CANCELLED")), Status.CLOSED, "retired"),
}


@pytest.mark.parametrize("name", COURSES)
def test_what_a_flow_came_to(name: str) -> None:
    told, status, outcome = COURSES[name]
    record = record_of(*told)
    assert (record["status"], record["outputs"]["outcome"]) == (status, outcome)
    assert record["terminal"] is (told[-1][1].get("to_state") in ("CLOSED", "ABORTED"))


@pytest.mark.parametrize("name", COURSES)
@given(data=st.data())
def test_a_record_goes_on_from_the_one_before_wherever_that_ends(name: str, data: st.DataObject) -> None:
    told = entries(*COURSES[name][0])
    at = data.draw(st.integers(1, len(told)))
    find = lambda said: RULES  # noqa: E731
    whole = fold.fold(dfid=DFID, previous=None, entries=told, rules=find)
    first = fold.fold(dfid=DFID, previous=None, entries=told[:at], rules=find)
    before = canonical.encode(first)
    # As it is read back from its stored bytes.
    stored = canonical.decode(canonical.encode(fold.sealed(first, prev_hash="00" * 32, key_id="k")))
    # An entry of the record stands between.
    later = [entry._replace(seq=entry.seq + 1) for entry in told[at:]]
    if later:
        again = fold.fold(dfid=DFID, previous=stored, entries=later, rules=find)
        assert again["flow"].pop("from_seq") == at + 1
        whole["flow"].pop("from_seq")
        for record in (again, whole):
            record["flow"].pop("to_seq"), record.pop("record_id")
        assert canonical.encode(again) == canonical.encode(whole)
    assert canonical.encode(first) == before


def test_what_a_record_says_of_an_escalated_proposal() -> None:
    record = record_of(*TO_PERSON)
    assert record["record_id"] == f"dr_{DFID.replace('-', '')}_5"
    assert (record["decision_key"], record["decision_version"]) == ("BUY", "1.2.0")
    assert record["actor"] == {
        "type": "AGENT",
        "id": "analyst",
        "workload_identity": f"agent:analyst#{DFID}",
        "delegated_user_id": None,
        "delegated_user_source": None,
    }
    assert record["subject_ids"] == ["order:881"]
    assert record["trace_id"] == "4b" * 16
    assert record["policy_decisions"] == [
        {
            "policy_decision_id": PROPOSAL,
            "bundle_id": "33",
            "rule_ids": ["RISK_LIMIT_EXCEEDED"],
            "verdict": "require_approval",
        }
    ]
    assert record["approval_mode_effective"] == "person"
    assert record["controls_active"] == {
        "must_refuse": ["R_OPEN"],
        "must_escalate": ["max_notional"],
        "approval_gates_active": ["GATE_DESK"],
        "redaction_rules_active": [],
    }
    assert record["evidence_refs"] == ["verdict:p-1#sha256:22", "evidence:e-1/1#sha256:dd"]
    assert record["lineage"]["policy_versions"] == ["BUY@1.2.0", "manifest:analyst@1.4.0"]
    assert record["lineage"]["unpinned"] == ["evaluator_suite", "subject:customer:${params.customer}"]
    assert record["budget_usage"]["wall_clock_ms"] == 4000


@pytest.mark.parametrize(
    ("rules", "impact", "mode"),
    [
        (Rules(), "LOW_IMPACT", "person"),
        (Rules(is_reversible=False), "HIGH_IMPACT", "destructive"),
        (Rules(approvals=2, is_reversible=False), "HIGH_IMPACT", "two_persons"),
        (Rules(), "CRITICAL", "two_persons"),
    ],
)
def test_the_mode_of_approval(rules: Rules, impact: str, mode: str) -> None:
    record = record_of(OPENED, PROPOSED, verdict("ESCALATE", "X", impact=impact), rules=rules)
    assert record["approval_mode_effective"] == mode
    assert record_of(OPENED, PROPOSED, verdict("ACCEPT"))["approval_mode_effective"] == "none"


def test_another_proposal_of_the_agent_is_another_question() -> None:
    again = record_of(*TO_PERSON, decided("ABORT"), PROPOSED, verdict("ACCEPT"), moved("ACCEPTED"))
    assert (again["approval_mode_effective"], again["status"]) == ("none", Status.IN_FLIGHT)
    by_person = (PROPOSED[0], {**PROPOSED[1], "author": "user:1"})
    overridden = record_of(*TO_PERSON, decided("OVERRIDE"), by_person, verdict("ACCEPT"), moved("ACCEPTED"))
    assert (overridden["approval_mode_effective"], overridden["status"]) == ("person", Status.IN_FLIGHT)
    assert overridden["actor"]["delegated_user_id"] == "user:1"


ADVICE: tuple[Told, ...] = (
    (
        "memory:read",
        {"scope": "desk", "key": "prices", "decision": "allow", "version": 2, "digest": "aa"},
    ),
    ("memory:read", {"scope": "desk", "key": "other", "decision": "deny", "version": None, "digest": None}),
    ("rules:evaluated", {"rule_output_id": "r-1", "output_digest": "bb"}),
    ("decision:recommended", {"decision_id": "d-1", "package_digest": "cc"}),
)


def test_what_was_read_of_memory_and_what_was_advised_is_evidence_from_version_3_on() -> None:
    told = [OPENED, *ADVICE, PROPOSED, verdict("ACCEPT")]
    assert record_of(*told)["evidence_refs"] == [
        "memory:desk/prices@2#sha256:aa",
        "rule_output:r-1#sha256:bb",
        "decision_package:d-1#sha256:cc",
        "verdict:p-1#sha256:22",
    ]
    for version in ("1", "2"):
        assert record_of(*told, version=version)["evidence_refs"] == ["verdict:p-1#sha256:22"]
        assert not any(fold.changes(kind, version=version) for kind, _ in ADVICE)


def test_for_whom_the_agent_says_that_it_acts_is_marked_as_its_claim() -> None:
    opened = (OPENED[0], {**OPENED[1], "delegated_user_id": "usr_771"})
    claimed = record_of(opened, PROPOSED, verdict("ESCALATE", "X"), ESCALATED)
    assert claimed["actor"]["delegated_user_id"] == "usr_771"
    assert claimed["actor"]["delegated_user_source"] == "agent_claim"
    # A claim opens no gate: nobody has decided.
    accepted = record_of(opened, PROPOSED, verdict("ACCEPT"), moved("ACCEPTED"))
    assert accepted["controls_active"]["approval_gates_active"] == []
    by_person = (PROPOSED[0], {**PROPOSED[1], "author": "user:1"})
    overridden = record_of(
        opened, PROPOSED, verdict("ESCALATE", "X"), ESCALATED, by_person, verdict("ACCEPT")
    )
    assert overridden["actor"]["delegated_user_id"] == "user:1"
    assert overridden["actor"]["delegated_user_source"] == "decision"
    earlier = record_of(opened, PROPOSED, verdict("ACCEPT"), version="2")["actor"]
    assert (earlier["delegated_user_id"], "delegated_user_source" in earlier) == (None, False)


def test_approvals_say_who_when_and_on_what() -> None:
    (given_,) = record_of(*TO_PERSON, decided("OVERRIDE"))["approvals"]
    assert given_ == {
        "gate_id": "GATE_DESK",
        "approver": "agent:analyst",
        "approval_mode_effective": "person",
        "evidence_snapshot_hash": "dd",
        "decided_at": "2026-11-24T10:00:06.000000Z",
        "action": "OVERRIDE",
        "escalation_id": ESCALATION,
        "sequence": 1,
        "statement_digest": "ff",
        "key_id": "k",
        "state": "IN_EFFECT",
    }


def test_the_first_of_two_decisions_keeps_what_was_chosen_to_itself() -> None:
    ended = {"escalation_id": ESCALATION, "sequence": 1, "state": "CONFIRMED", "why": "CONFIRMED"}
    record = record_of(*TO_PERSON, decided(None), decided("OVERRIDE", sequence=2))
    assert [item["action"] for item in record["approvals"]] == [None, "OVERRIDE"]
    assert [item["state"] for item in record["approvals"]] == ["AWAITING_SECOND", "IN_EFFECT"]
    confirmed = record_of(
        *TO_PERSON, decided(None), decided("OVERRIDE", sequence=2), ("escalation:first_ended", ended)
    )
    assert [item["state"] for item in confirmed["approvals"]] == ["CONFIRMED", "IN_EFFECT"]


def test_a_decision_that_is_taken_back_is_marked() -> None:
    back = ("escalation:reopened", {"escalation_id": ESCALATION, "sequence": 1})
    record = record_of(*TO_PERSON, decided("OVERRIDE"), moved("ACCEPTED"), back, moved("ESCALATED"))
    assert (record["status"], record["approvals"][0]["state"]) == (Status.ESCALATED, "TAKEN_BACK")


def test_with_it_the_first_decision_that_it_confirmed_is_taken_back() -> None:
    ended = {"escalation_id": ESCALATION, "sequence": 1, "state": "CONFIRMED", "why": "CONFIRMED"}
    back = ("escalation:reopened", {"escalation_id": ESCALATION, "sequence": 2})
    two = (decided(None), decided("OVERRIDE", sequence=2), ("escalation:first_ended", ended))
    record = record_of(*TO_PERSON, *two, moved("ACCEPTED"), back, moved("ESCALATED"))
    assert [item["state"] for item in record["approvals"]] == ["TAKEN_BACK", "TAKEN_BACK"]


def test_new_evidence_says_anew_who_must_approve() -> None:
    revised = {"escalation_id": ESCALATION, "revision": 2, "evidence_hash": "ee", "why": "x"}
    critical = ("escalation:revised", {**revised, "impact": "CRITICAL", "approvals": 1})
    light = ("escalation:revised", {**revised, "impact": "LOW_IMPACT", "approvals": 1})
    of_old = ("escalation:revised", revised)
    modes = [
        record_of(*TO_PERSON, *told)["approval_mode_effective"]
        for told in ((critical,), (critical, light), (critical, of_old))
    ]
    assert modes == ["two_persons", "person", "two_persons"]


def test_calls_and_their_transcript() -> None:
    started = ("attempt:started", {"intent_id": INTENT, "number": 1, "step": "buy", "target_key": "key-1"})
    ended = (
        "attempt:finished",
        {"intent_id": INTENT, "number": 1, "result": "SUCCEEDED", "receipt_commitment": "77"},
    )
    running = record_of(OPENED, PROPOSED, verdict("ACCEPT"), moved("EXECUTING"), started)
    done = record_of(OPENED, PROPOSED, verdict("ACCEPT"), moved("EXECUTING"), started, ended)
    (call,) = done["tool_lineage"]
    assert (call["tool_call_id"], call["tool_result_id"], call["result"]) == ("i-1:1", "77", "SUCCEEDED")
    assert (call["idempotency_key"], call["reversal_token"]) == ("key-1", "key-back")
    assert "receipt:77" in done["evidence_refs"]
    chain = [record["replay"]["tool_transcript_chain_hash"] for record in (running, done)]
    assert None not in chain
    assert chain[0] != chain[1]


def test_usage_adds_up_without_a_float() -> None:
    used = ("usage:reported", {"tokens": 100, "cost_usd": "0.0091", "tool_calls": 2})
    record = record_of(OPENED, used, used, ("usage:reported", {"tokens": 1}))
    assert record["budget_usage"]["tokens"] == 201
    assert record["budget_usage"]["tool_calls"] == 4
    assert record["budget_usage"]["cost_usd_cents"] == "1.82"


def test_attachments_are_named_once() -> None:
    step = ("step:reported", {"step_type": "read", "digest": "00", "payload_ref": "artifact:1"})
    plain = ("step:reported", {"step_type": "read", "digest": "00"})
    assert record_of(OPENED, step, plain, step)["inputs_refs"]["attachments"] == ["artifact:1"]


def test_a_call_in_doubt_puts_the_flow_before_a_person() -> None:
    opened = (ESCALATED[0], {**ESCALATED[1], "family": "OPERATIONAL", "impact": "CRITICAL"})
    record = record_of(OPENED, PROPOSED, verdict("ACCEPT"), moved("ESCALATED"), opened)
    assert record["approval_mode_effective"] == "two_persons"
    assert record["controls_active"]["approval_gates_active"] == ["OPERATIONAL"]


def test_the_hash_leaves_out_itself_and_the_signer() -> None:
    record = record_of(*TO_PERSON)
    one = fold.sealed(record, prev_hash="00" * 32, key_id="one")
    other = fold.sealed(record, prev_hash="00" * 32, key_id="other")
    assert one["audit"]["record_hash"] == other["audit"]["record_hash"] == fold.record_hash(one)
    assert fold.sealed(record, prev_hash="01" * 32, key_id="one")["audit"]["record_hash"] != fold.record_hash(
        one
    )
    without = {**one, "audit": {"prev_hash": "00" * 32}}
    assert canonical.digest(canonical.encode(without)) == fold.record_hash(one)


def test_a_record_is_made_of_entries() -> None:
    with pytest.raises(ValueError, match="made of entries"):
        fold.fold(dfid=DFID, previous=None, entries=[], rules=lambda said: RULES)


def test_what_nobody_needs_to_decide_any_more_asks_nobody() -> None:
    in_doubt = (ESCALATED[0], {**ESCALATED[1], "family": "OPERATIONAL", "impact": "CRITICAL"})
    withdrawn = ("escalation:withdrawn", {"escalation_id": ESCALATION})
    told = (OPENED, PROPOSED, verdict("ACCEPT"), moved("ESCALATED"), in_doubt)
    assert record_of(*told)["approval_mode_effective"] == "two_persons"
    assert record_of(*told, withdrawn)["approval_mode_effective"] == "none"


def test_what_cannot_be_undone_is_so_after_its_call_too() -> None:
    in_doubt = (ESCALATED[0], {**ESCALATED[1], "family": "OPERATIONAL"})
    told = (OPENED, PROPOSED, verdict("ACCEPT"), moved("ESCALATED"), in_doubt)
    record = record_of(*told, rules=Rules(is_reversible=False))
    assert record["approval_mode_effective"] == "destructive"


def test_a_call_that_undoes_has_no_call_that_undoes_it() -> None:
    back = {"intent_id": INTENT, "number": 2, "step": "buy", "target_key": "k", "direction": "COMPENSATE"}
    record = record_of(OPENED, PROPOSED, verdict("ACCEPT"), ("attempt:started", back))
    assert record["tool_lineage"][0]["reversal_token"] is None


def test_a_question_stays_open_through_the_first_of_two_decisions() -> None:
    assert record_of(*TO_PERSON, ASKED, decided(None))["status"] == Status.DEFERRED
