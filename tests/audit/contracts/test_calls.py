"""`GET /api/v1/audit/contracts/{name}/{id}`: what it takes for an id, and what it refuses to show."""

import base64
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from audit import canonical, events, ledger, signing
from audit.contracts.catalogue import CONTRACTS
from audit.models import LedgerEntry
from audit.sealing import proofs
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import taking_back, two_people
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.flows.models import Proposal
from runtime.maintenance.services import payloads, sealing
from tests.audit.contracts import reading
from tests.support import api_client, factories, gate_cases, interrupted_flow, ledger_tampering
from tests.support.own_words import stands

pytestmark = pytest.mark.django_db
ID = "01890000-0000-7000-8000-000000000000"
UNKNOWN = "5f0c0a52-b6c7-4a7d-9d3c-2f8e1b4a6d70"
WORDS = "A reason that only the first person knows."
CHOSEN = {**factories.OVER_LIMIT, "notional_cents": 123_457}
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def auditor(db: None) -> api_client.Caller:
    return api_client.Caller(api_client.auditor_key())


@pytest.fixture
def trader(db: None) -> factories.Desk:
    return factories.desk()


@pytest.fixture
def judged(trader: factories.Desk) -> UUID:
    """A flow with an escalated proposal."""
    return trader.escalate().flow_id


@pytest.fixture
def critical(db: None) -> Escalation:
    return factories.desk(kind=gate_cases.kind(impact="'CRITICAL'")).escalate()


@pytest.fixture
def olivia(db: None) -> User:
    return factories.user("olivia")


@pytest.fixture
def mara(db: None) -> User:
    return factories.user("mara", "senior")


def asked(name: str, wanted: object) -> str:
    return f"/audit/contracts/{name}/{wanted}"


def test_shows_a_flow_before_it_is_sealed(auditor: api_client.Caller, judged: UUID) -> None:
    assert proofs.latest() is None
    assert auditor.get(asked("policy_decision", judged)).ok()["run_id"] == str(judged)


@pytest.mark.parametrize("name", sorted(CONTRACTS))
@pytest.mark.parametrize("wanted", [ID, UNKNOWN, "trader", f"{ID}:1", "a:b:c", ":", "x" * 400, "%00"])
def test_an_unknown_id_is_not_found(auditor: api_client.Caller, judged: UUID, name: str, wanted: str) -> None:
    auditor.get(asked(name, wanted)).problem(404, "NOT_FOUND")


def test_an_unknown_name_is_not_found_and_the_names_are_listed(
    auditor: api_client.Caller, judged: UUID
) -> None:
    detail = auditor.get(asked("decision", judged)).problem(404, "NOT_FOUND")["detail"]
    assert all(name in detail for name in CONTRACTS)


def test_opens_to_auditors_only(auditor: api_client.Caller, judged: UUID) -> None:
    api_client.Caller().get(asked("policy_decision", judged)).problem(401, "UNAUTHENTICATED")
    auditor.post(asked("policy_decision", judged)).problem(405, "METHOD_NOT_ALLOWED")


def test_takes_the_id_of_a_proposal_and_of_an_escalation(
    auditor: api_client.Caller, judged: UUID, olivia: User
) -> None:
    escalation = Escalation.objects.get()
    factories.decide(escalation, olivia)
    agents, persons = (str(row.pk) for row in Proposal.objects.order_by("received_at"))
    shown = {
        wanted: auditor.get(asked("policy_decision", wanted)).ok()["decision_id"]
        for wanted in (agents, persons, str(escalation.pk), str(judged))
    }
    assert shown == {agents: agents, persons: persons, str(escalation.pk): agents, str(judged): persons}


@pytest.mark.parametrize(
    "name", sorted(CONTRACTS.keys() - {"tool_request", "tool_response", "hitl_decision"})
)
def test_a_number_is_taken_only_where_there_are_several(
    auditor: api_client.Caller, judged: UUID, name: str
) -> None:
    auditor.get(asked(name, f"{Proposal.objects.get().pk}:1")).problem(404, "NOT_FOUND")


def test_another_tenant_s_flow_is_not_found(auditor: api_client.Caller, trader: factories.Desk) -> None:
    stream = str(uuid4())
    opened = events.FlowOpened(agent_id="trader", trigger_commitment="0" * 64)
    ledger.append_to(tenant="other", stream=stream, actor="agent:trader", at=clock.now(), events=[opened])
    sealing.seal_now()
    auditor.get(asked("replay_trace", stream)).problem(404, "NOT_FOUND")
    auditor.get(asked("ledger_event", f"{stream}:1")).problem(404, "NOT_FOUND")


def test_the_trace_is_that_of_the_agent(auditor: api_client.Caller) -> None:
    api_client.load_pack()
    caller = api_client.session()
    opened = caller.post("/flows", {"trigger": "a price moved"}, {"traceparent": TRACEPARENT}).ok(201)
    caller.propose(opened["dfid"], api_client.proposal(caller.context(opened["dfid"]))).ok()
    shown = auditor.get(asked("tool_request", opened["dfid"])).ok()
    assert (shown["trace_id"], shown["span_id"]) == (TRACEPARENT[3:35], TRACEPARENT[36:52])


def test_an_entry_is_shown_with_its_hashes_and_the_signature_over_it(
    auditor: api_client.Caller, judged: UUID
) -> None:
    sealing.seal_now()
    newest = proofs.latest()
    assert newest is not None
    for row in LedgerEntry.objects.all():
        shown = auditor.get(asked("ledger_event", f"{row.stream}:{row.seq}")).ok()
        assert shown["ledger_event_id"] == f"{row.stream}:{row.seq}"
        assert shown["hash_chain"] == {
            "prev_event_hash": bytes(row.prev_hash).hex(),
            "event_hash": bytes(row.hash).hex(),
        }
        signature = base64.b64decode(shown["signatures"]["signature"])
        signer = signing.signer()
        assert shown["signatures"]["signing_key_id"] == signer.key_id
        assert signing.is_signed(newest.checkpoint.text().encode(), signature, signer.public_key)
        assert auditor.get(shown["immutability"]["sink_uri"].removeprefix("/api/v1")).ok()["seq"] == row.seq
        assert shown["run_id"] == (row.stream if row.stream == str(judged) else None)
    given = LedgerEntry.objects.get(kind="verdict:given")
    named = auditor.get(asked("ledger_event", f"{judged}:{given.seq}")).ok()["references"]
    proposal = Proposal.objects.get()
    assert (named["policy_decision_id"], named["tool_request_hash"]) == (str(proposal.pk), proposal.digest)


def test_an_entry_is_not_shown_before_it_is_sealed(auditor: api_client.Caller, judged: UUID) -> None:
    auditor.get(asked("ledger_event", f"{judged}:1")).problem(409, "NOT_SEALED")
    sealing.seal_now()
    auditor.get(asked("ledger_event", f"{judged}:1")).ok()
    auditor.get(asked("ledger_event", f"{judged}:99")).problem(404, "NOT_FOUND")
    auditor.get(asked("ledger_event", judged)).problem(404, "NOT_FOUND")


@pytest.mark.parametrize("number", ["0", "-1", "+1", "1.0", "x", "", "٣", "9" * 40])
def test_a_number_of_another_form_is_not_found(auditor: api_client.Caller, judged: UUID, number: str) -> None:
    sealing.seal_now()
    auditor.get(asked("ledger_event", f"{judged}:{number}")).problem(404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("column", "value"), [("body", b"[]"), ("hash", bytes(32)), ("prev_hash", bytes(32)), ("seq", 99)]
)
def test_a_rewritten_entry_is_shown_by_no_contract(
    auditor: api_client.Caller, judged: UUID, column: str, value: object
) -> None:
    sealing.seal_now()
    row = LedgerEntry.objects.get(stream=str(judged), kind="verdict:given")
    ledger_tampering.quietly(f"UPDATE audit_ledgerentry SET {column} = %s WHERE id = %s", [value, row.pk])  # noqa: S608
    for name in ("policy_decision", "replay_trace"):
        detail = auditor.get(asked(name, judged)).problem(404, "NOT_FOUND")["detail"]
        assert "verify_ledger" in detail


def test_rewritten_bytes_are_named_and_not_shown(auditor: api_client.Caller, judged: UUID) -> None:
    Proposal.objects.update(body=b'{"rewritten":true}')
    detail = auditor.get(asked("tool_request", judged)).problem(404, "NOT_FOUND")["detail"]
    assert detail == "The proposal cannot be shown: the stored bytes do not match the ledger."


def test_erased_words_are_in_no_contract(auditor: api_client.Caller, judged: UUID) -> None:
    submitted = LedgerEntry.objects.get(kind="proposal:submitted")
    assert b"150000" in auditor.get(asked("tool_request", judged)).content
    commitment = submitted.payload["params_commitment"]
    assert payloads.erase(tenant="default", commitment=commitment, reason="asked for", actor="user:1")
    for name in CONTRACTS:
        assert not stands("150000", auditor.get(asked(name, judged)).content)
    detail = auditor.get(asked("tool_request", judged)).problem(404, "NOT_FOUND")["detail"]
    assert detail.startswith("The proposal cannot be shown: erased")


def leaks(auditor: api_client.Caller, escalation: Escalation) -> list[str]:
    """The contracts that tell what the first person chose, or why."""
    wanted = [escalation.flow_id, escalation.pk, f"{escalation.pk}:1"]
    return [
        name
        for name in CONTRACTS
        for each in wanted
        for words in (WORDS, "123457", "MODIFY", '"approve"')
        if words.encode() in auditor.get(asked(name, each)).content
    ]


def test_the_first_of_two_decisions_is_none_until_the_second_has_decided(
    auditor: api_client.Caller, critical: Escalation, olivia: User, mara: User
) -> None:
    first = factories.decide(critical, olivia, Action.MODIFY, params=CHOSEN, justification=WORDS)
    assert not isinstance(first, Problem)
    assert LedgerEntry.objects.filter(kind="escalation:first_decided").exists()
    for wanted in (critical.flow_id, critical.pk, f"{critical.pk}:1"):
        auditor.get(asked("hitl_decision", wanted)).problem(404, "NOT_FOUND")
    assert auditor.get(asked("reasoning_trace", critical.flow_id)).ok()["signatures"] == []
    assert leaks(auditor, critical) == []

    second = factories.decide(
        critical, mara, Action.MODIFY, params=CHOSEN, justification="The reason of the second."
    )
    assert not isinstance(second, Problem)
    shown = auditor.get(asked("hitl_decision", critical.flow_id)).ok()["decision"]
    assert (shown["approver_id"], shown["action"]) == (f"user:{mara.pk}", "approve")
    assert shown["modifications"] == {"notional_cents": 123_457}
    shown = auditor.get(asked("hitl_decision", f"{critical.pk}:1")).ok()["decision"]
    assert (shown["approver_id"], shown["justification"]) == (f"user:{olivia.pk}", WORDS)
    signed = auditor.get(asked("reasoning_trace", critical.flow_id)).ok()["signatures"]
    assert [each["signer"] for each in signed] == [f"user:{olivia.pk}", f"user:{mara.pk}"]


def test_a_first_decision_that_gave_way_is_none(
    auditor: api_client.Caller, critical: Escalation, olivia: User, mara: User
) -> None:
    factories.decide(critical, olivia, Action.MODIFY, params=CHOSEN, justification=WORDS)
    two_people.withdraw(tenant="default", escalation_id=critical.pk, person=factories.person(olivia))
    assert leaks(auditor, critical) == []
    factories.decide(critical, mara, Action.ABORT, justification="Not at all.")
    shown = auditor.get(asked("hitl_decision", critical.flow_id)).ok()["decision"]
    assert (shown["action"], shown["approver_id"]) == ("deny", f"user:{mara.pk}")
    auditor.get(asked("hitl_decision", f"{critical.pk}:1")).problem(404, "NOT_FOUND")


def test_a_decision_that_was_taken_back_is_none(
    auditor: api_client.Caller, critical: Escalation, olivia: User, mara: User, settings: Settings
) -> None:
    settings.DIR_UNDO_MAX_S = 60
    for account in (olivia, mara):
        assert not isinstance(factories.decide(critical, account), Problem)
    wanted = auditor.get(asked("tool_request", critical.flow_id)).ok()["approval"]["approval_id"]
    assert auditor.get(asked("hitl_decision", wanted)).ok()["approval_id"] == wanted == f"{critical.pk}:2"
    who = factories.person(mara)
    back = taking_back.take_back(tenant="default", escalation_id=critical.pk, person=who)
    assert not isinstance(back, Problem)
    for number in ("", ":1", ":2"):
        auditor.get(asked("hitl_decision", f"{critical.pk}{number}")).problem(404, "NOT_FOUND")
    assert auditor.get(asked("tool_request", critical.flow_id)).ok()["approval"]["approval_id"] is None
    assert not isinstance(factories.decide(critical, mara, Action.ABORT, justification="No."), Problem)
    shown = auditor.get(asked("hitl_decision", critical.flow_id)).ok()
    assert (shown["approval_id"], shown["decision"]["action"]) == (f"{critical.pk}:3", "deny")
    auditor.get(asked("hitl_decision", f"{critical.pk}:1")).problem(404, "NOT_FOUND")


def test_the_bytes_are_canonical(auditor: api_client.Caller, judged: UUID) -> None:
    content = auditor.get(asked("decision_package", judged)).content
    assert canonical.encode(canonical.decode(content)) == content


def test_a_decision_on_a_workflow_is_on_no_proposal(auditor: api_client.Caller, olivia: User) -> None:
    interrupted_flow.register(impact="LOW_IMPACT")
    desk = interrupted_flow.desk()
    opened = desk.open()
    assert desk.propose(opened)["verdict"] == "REJECT"
    answer = interrupted_flow.step(desk, opened.dfid, "GENERATE", output=interrupted_flow.UNSURE)
    row = Escalation.objects.get(pk=answer.escalation_id)
    assert not isinstance(factories.decide(row, olivia, Action.REDIRECT, instruction="VERIFY"), Problem)
    refused = auditor.get(asked("hitl_decision", row.flow_id)).problem(404, "NOT_FOUND")
    assert "not about a proposal" in refused["detail"]


def test_a_bound_has_fired_where_one_of_another_group_with_its_id_held(auditor: api_client.Caller) -> None:
    """A limit that was exceeded, beside a rule of the same id that held."""
    held = {"id": "max_notional", "require": "params.action == 'BUY'", "message": "It only buys."}
    desk = factories.desk(kind=gate_cases.kind(rules=[held]))
    flow = desk.open()
    assert desk.propose(flow, params=factories.OVER_LIMIT)["verdict"] == "ESCALATE"
    matches = reading.view(auditor, "rule_engine_output", flow.dfid)["matches"]
    said = {
        match["justification"]: match["action_proposal"]
        for match in matches
        if match["rule_id"] == held["id"]
    }
    assert sorted(said.values()) == ["allow", "require_approval"]
    nodes = reading.view(auditor, "reasoning_trace", flow.dfid)["structure"]["rule_nodes"]
    fired = {node["reason"]: node["fired"] for node in nodes if node["rule_id"] == held["id"]}
    assert fired == {words: asked != "allow" for words, asked in said.items()}
