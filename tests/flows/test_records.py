"""DecisionRecords of real flows: written at each checkpoint and at the end, in the same transaction."""

from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction

from audit import canonical, signing
from audit.access.roles import Role
from audit.models import DecisionRecord, LedgerEntry, RecordTerm
from audit.records import dsse, emission, fold, rules
from audit.verification import findings
from escalations.contracts import Action
from runtime.contracts.problem import Problem
from runtime.contracts.states import FlowState
from runtime.core import clock
from runtime.flows.models import Flow, Proposal
from runtime.flows.services.flow_transaction import Journal
from tests.support import factories, gate_cases, ledger_tampering
from tests.support.live_people import person

pytestmark = pytest.mark.django_db

SUBJECTS = ["position:${params.symbol}", "owner:${context.facts.nobody.knows}"]


def records(dfid: UUID) -> list[dict[str, Any]]:
    rows = DecisionRecord.objects.filter(dfid=dfid).order_by("seq")
    return [canonical.decode(bytes(row.body)) for row in rows]


def last(dfid: UUID) -> dict[str, Any]:
    return records(dfid)[-1]


def terms(record: dict[str, Any], name: str) -> set[str]:
    row = DecisionRecord.objects.get(record_id=record["record_id"])
    return set(RecordTerm.objects.filter(record=row.pk, name=name).values_list("value", flat=True))


def wrong() -> list[str]:
    """What `verify_ledger` finds, but for the people here, whom no entry added."""
    found = findings.verify_all().findings
    return [item.detail for item in found if item.stream.partition(":")[0] != "user"]


def in_gate(name: str) -> User:
    """Somebody who may let through what GATE_DESK asks for."""
    return factories.user(name, groups=("GATE_DESK",))


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk(kind=gate_cases.kind(subjects=SUBJECTS, gate_id="GATE_DESK", reversible=False))


def test_a_flow_has_no_record_before_its_first_checkpoint(desk: factories.Desk) -> None:
    assert records(desk.open().dfid) == []


def test_an_accepted_proposal_is_recorded_in_its_transaction(desk: factories.Desk) -> None:
    flow = desk.open()
    desk.propose(flow)
    (record,) = records(flow.dfid)
    assert (record["status"], record["terminal"]) == ("IN_FLIGHT", False)
    assert record["subject_ids"] == ["position:AAPL"]
    assert record["lineage"]["unpinned"][-1] == f"subject:{SUBJECTS[1]}"
    assert record["replay"]["compiled_context_hash"] == flow.context_ref
    assert terms(record, "subject") == {"position:AAPL"}
    proposal = Proposal.objects.get()
    assert terms(record, "policy") == {str(proposal.pk), "allow"}
    emitted = LedgerEntry.objects.filter(stream=str(flow.dfid)).latest("seq")
    assert emitted.kind == "record:emitted"
    assert emitted.payload["record_hash"] == record["audit"]["record_hash"]
    row = DecisionRecord.objects.get()
    assert (row.seq, row.at) == (emitted.seq - 1, emitted.at)
    signer = signing.signer()
    assert signing.is_signed(dsse.statement(bytes(row.body)), bytes(row.signature), signer.public_key)


def test_a_refused_proposal_is_recorded_with_the_rules_that_refused_it(desk: factories.Desk) -> None:
    flow = desk.open()
    desk.propose(flow, context_ref="0" * 64)
    desk.propose(desk.look(flow.dfid), params={})
    seen = records(flow.dfid)
    assert {record["status"] for record in seen} == {"REJECTED"}
    assert seen[-1]["policy_decisions"][-1]["verdict"] == "deny"
    assert set(seen[-1]["policy_decisions"][-1]["rule_ids"]) <= terms(seen[-1], "policy")
    assert seen[-1]["policy_decisions"][-1]["rule_ids"]


def test_each_record_follows_the_one_before(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    factories.decide(escalation, person("olivia", Role.OPERATOR), Action.ABORT)
    first, second = records(escalation.flow_id)
    assert first["audit"]["prev_hash"] == emission.GENESIS
    assert second["audit"]["prev_hash"] == first["audit"]["record_hash"]
    assert (first["status"], second["status"]) == ("ESCALATED", "REJECTED")
    assert (first["terminal"], second["terminal"]) == (False, True)
    assert second["flow"]["from_seq"] == first["flow"]["to_seq"] + 1


def test_a_person_who_overrides_is_the_approver(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    olivia = in_gate("olivia")
    factories.decide(escalation, olivia)
    record = last(escalation.flow_id)
    (approval,) = record["approvals"]
    assert (approval["approver"], approval["gate_id"]) == (f"user:{olivia.pk}", "GATE_DESK")
    assert approval["evidence_snapshot_hash"] == escalation.evidence_hash
    assert record["actor"]["delegated_user_id"] == f"user:{olivia.pk}"
    assert (record["status"], record["approval_mode_effective"]) == ("IN_FLIGHT", "destructive")
    assert terms(record, "approver") == {f"user:{olivia.pk}"}


def test_a_question_to_the_agent_defers_the_decision(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    factories.decide(
        escalation, person("olivia", Role.OPERATOR), Action.REQUEST_INFO, justification="Which signals?"
    )
    assert last(escalation.flow_id)["status"] == "DEFERRED"
    factories.answer(desk, escalation)
    factories.decide(escalation, person("paul", Role.OPERATOR), Action.ABORT)
    record = last(escalation.flow_id)
    assert record["status"] == "REJECTED"
    assert any(ref.startswith("answer:") for ref in record["evidence_refs"])


def test_the_end_of_a_flow_that_proposed_nothing_is_recorded_once(desk: factories.Desk) -> None:
    flow = desk.open().row()
    journal = Journal(flow=flow, actor="system", at=clock.now())
    journal.transition(FlowState.ABORTED, reason="IDLE_TOO_LONG")
    journal.write()
    (record,) = records(flow.dfid)
    assert (record["status"], record["terminal"]) == ("CLOSED", True)
    assert record["decision_key"] is None
    assert wrong() == []


def test_a_flow_from_before_records_goes_on_with_one_over_all_its_entries(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(emission, "prepare", lambda **told: None)
        escalation = desk.escalate()
    assert records(escalation.flow_id) == []
    assert wrong() == []
    factories.decide(escalation, person("olivia", Role.OPERATOR), Action.ABORT)
    (record,) = records(escalation.flow_id)
    assert record["flow"]["from_seq"] == 1
    assert record["subject_ids"] == ["position:AAPL"]
    assert record["policy_decisions"][0]["verdict"] == "require_approval"
    assert wrong() == []


def test_what_breaks_a_rule_does_not_happen(desk: factories.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = desk.open()

    def refuse(record: dict[str, Any]) -> None:
        raise rules.InvalidRecordError(record["record_id"])

    monkeypatch.setattr(rules, "check", refuse)
    before = flow.entries()
    with pytest.raises(rules.InvalidRecordError), transaction.atomic():
        desk.propose(flow)
    assert flow.entries() == before
    assert Flow.objects.get().state == "ACTIVE"
    assert not Proposal.objects.exists()


@pytest.mark.parametrize("table", ["audit_decisionrecord", "audit_recordterm"])
@pytest.mark.parametrize("sql", ["UPDATE {} SET tenant = 'other'", "DELETE FROM {}"])
def test_the_database_refuses_to_change_a_record(desk: factories.Desk, table: str, sql: str) -> None:
    desk.propose(desk.open())
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql.format(table))


def test_a_terminal_record_is_the_only_one(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    assert not isinstance(
        factories.decide(escalation, person("olivia", Role.OPERATOR), Action.ABORT), Problem
    )
    row = DecisionRecord.objects.get(terminal=True)
    row.pk, row.record_id, row.seq = None, "dr_another", row.seq + 9
    with pytest.raises(DatabaseError), transaction.atomic():
        row.save(force_insert=True)


def test_the_same_entries_give_the_same_bytes(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    factories.decide(escalation, in_gate("olivia"))
    for record in records(escalation.flow_id):
        assert canonical.encode(record) == canonical.encode(
            fold.sealed(
                {name: value for name, value in record.items() if name != "audit"},
                prev_hash=record["audit"]["prev_hash"],
                key_id=record["audit"]["signed_by"],
            )
        )
    assert wrong() == []


def test_a_record_that_was_changed_is_not_gone_on_from(desk: factories.Desk) -> None:
    """What a row says is not taken for true: its entries are folded again."""
    escalation = desk.escalate()
    olivia = person("olivia", Role.OPERATOR)
    factories.decide(escalation, olivia, Action.REQUEST_INFO, justification="Which signals?")
    row = DecisionRecord.objects.latest("seq")
    body = bytes(row.body)
    sql = "UPDATE audit_decisionrecord SET body = %s WHERE id = %s"
    ledger_tampering.quietly(sql, [body.replace(b"position:AAPL", b"position:EVIL"), row.pk])
    factories.decide(escalation, olivia, Action.ABORT)
    record = last(escalation.flow_id)
    assert (record["status"], record["subject_ids"]) == ("REJECTED", ["position:AAPL"])
    assert any("record" in found for found in wrong())
    ledger_tampering.quietly(sql, [body, row.pk])
    assert wrong() == []


def test_a_flow_with_many_entries_is_read_whole(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = desk.open()
    monkeypatch.setattr(emission, "_AT_ONCE", 2)
    desk.propose(flow)
    record = last(flow.dfid)
    assert (record["flow"]["from_seq"], record["actor"]["id"]) == (1, "trader")
    assert wrong() == []


def test_a_record_goes_on_from_the_one_before_however_many_entries_ago_that_was(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emission, "_AT_ONCE", 2)
    flow = desk.open()
    assert desk.propose(flow, params={})["verdict"] == "REJECT"
    for _ in range(5):
        flow = desk.look(flow.dfid)
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    first, second = records(flow.dfid)
    assert second["audit"]["prev_hash"] == first["audit"]["record_hash"]
    assert second["flow"]["from_seq"] == first["flow"]["to_seq"] + 1
    assert wrong() == []


IMPACT_BY_PRICE = "context.facts.price.AAPL < {} ? 'CRITICAL' : 'LOW_IMPACT'"


@pytest.mark.parametrize(("changed", "mode", "people"), [(20_001, "person", 1), (1, "two_persons", 2)])
def test_new_evidence_may_ask_for_fewer_people_or_more(changed: int, mode: str, people: int) -> None:
    is_lowered = people == 1
    expression = IMPACT_BY_PRICE.format(20_000 if is_lowered else 2)
    desk = factories.desk(kind=gate_cases.kind(impact=expression))
    escalation = desk.escalate()
    assert last(escalation.flow_id)["approval_mode_effective"] == ("two_persons" if is_lowered else "person")
    factories.write("price.AAPL", changed)
    deciders = [person(name, Role.OPERATOR) for name in ("olivia", "paul")]
    first = factories.decide(escalation, deciders[0])
    assert getattr(first, "code", None) == "EVIDENCE_CHANGED"
    for account in deciders[:people]:
        escalation.refresh_from_db()
        assert not isinstance(factories.decide(escalation, account), Problem)
    record = last(escalation.flow_id)
    assert (record["status"], record["approval_mode_effective"]) == ("IN_FLIGHT", mode)
    assert [item["state"] for item in record["approvals"]] == ["CONFIRMED", "IN_EFFECT"][-people:]
    assert wrong() == []


def test_a_new_version_of_the_kind_may_ask_for_fewer_people(desk: factories.Desk) -> None:
    factories.policy_kind(gate_cases.kind(version="1.3.0", approvals=2))
    escalation = desk.escalate()
    factories.policy_kind(gate_cases.kind(version="1.4.0"))
    olivia = person("olivia", Role.OPERATOR)
    assert getattr(factories.decide(escalation, olivia), "code", None) == "EVIDENCE_CHANGED"
    escalation.refresh_from_db()
    assert not isinstance(factories.decide(escalation, olivia), Problem)
    assert last(escalation.flow_id)["approval_mode_effective"] == "person"
    assert wrong() == []


def test_a_person_may_always_stop_what_two_would_have_to_let_run(desk: factories.Desk) -> None:
    """As an ABORT leaves its flow: in flight, while what ran is undone."""
    escalation = desk.escalate()
    factories.decide(escalation, in_gate("olivia"))
    record = last(escalation.flow_id)
    record["approval_mode_effective"] = "two_persons"
    with pytest.raises(rules.InvalidRecordError, match="Approval"):
        rules.check(record)
    record["flow"]["action"] = "ABORT"
    rules.check(record)
