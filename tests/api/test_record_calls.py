"""`/api/v1/audit/records`: every filter finds what it should, and only what was emitted is answered."""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit import actors, canonical, signing
from audit.api import record_schema
from audit.models import DecisionRecord, LedgerEntry
from audit.records import dsse, fold, queries
from runtime.maintenance.services import payloads, sealing
from tests.support import api_client, factories, ledger_tampering, recorded_flows, worlds
from tests.support.recorded_flows import RULE, TRACE, Recorded

world = worlds.shared(recorded_flows.build)
UNKNOWN = "01890000-0000-7000-8000-000000000000"
ALL = {
    "accepted 1",
    "rejected 1",
    "overridden 1",
    "overridden 2",
    "aborted 1",
    "aborted 2",
    "cancelled 1",
    "another agent's 1",
}
ESCALATED = {"overridden 1", "overridden 2", "aborted 1", "aborted 2"}
PROPOSED = ALL - {"cancelled 1"}
FOUND: dict[str, set[str]] = {
    "": ALL,
    "decision_key=&subject=&status=&approver=&approval_mode=&from=&to=&after=": ALL,
    "decision_key=ADJUST_POSITION": PROPOSED,
    "decision_key=ADJUST": set(),
    "subject=symbol:MSFT": {"rejected 1"},
    "subject=symbol:AAPL": PROPOSED - {"rejected 1"},
    "subject=AAPL": set(),
    "subject=olivia": set(),
    "status=REJECTED": {"rejected 1", "aborted 2"},
    "status=ESCALATED": {"overridden 1", "aborted 1"},
    "status=IN_FLIGHT": {"accepted 1", "overridden 2", "another agent's 1"},
    "status=CLOSED": {"cancelled 1"},
    "status=DECIDED": set(),
    "approver=olivia": {"overridden 2"},
    "approver=OTTO": {"aborted 2"},
    "approver=nobody": set(),
    "approver=user:0": set(),
    "policy_decision=deny": {"rejected 1"},
    "policy_decision=require_approval": ESCALATED,
    "policy_decision=allow": {"accepted 1", "overridden 2", "another agent's 1"},
    f"policy_decision={RULE}": {"rejected 1"},
    "policy_decision=RISK_LIMIT_EXCEEDED": ESCALATED,
    f"trace_id={TRACE}": {"accepted 1"},
    f"trace_id={TRACE.upper()}": {"accepted 1"},
    "trace_id=4bf9": set(),
    "agent_id=trader": ALL - {"another agent's 1"},
    "agent_id=other-trader": {"another agent's 1"},
    "approval_mode=none": {"accepted 1", "rejected 1", "cancelled 1", "another agent's 1"},
    "approval_mode=person": ESCALATED,
    "approval_mode=destructive": set(),
    "approval_mode=two_persons": set(),
    "from=2026-01-01": ALL,
    "to=2026-01-01": set(),
    "from=2026-01-01T00:00:00Z&to=2999-01-01": ALL,
    "from=2999-01-01T00:00:00%2B02:00": set(),
    "subject=symbol:AAPL&approver=olivia": {"overridden 2"},
    "subject=symbol:AAPL&policy_decision=allow&agent_id=trader": {"accepted 1", "overridden 2"},
    "approver=olivia&status=REJECTED": set(),
    "approver=olivia&policy_decision=allow&policy_decision=require_approval": {"overridden 2"},
    f"trace_id={TRACE}&subject=symbol:AAPL&status=IN_FLIGHT": {"accepted 1"},
    f"trace_id={TRACE}&policy_decision=deny": set(),
    "status=REJECTED&decision_key=ADJUST_POSITION&approval_mode=person": {"aborted 2"},
    "subject=%00": set(),
    "decision_key=%00": set(),
    "approver=%00": set(),
    f"dfid={UNKNOWN}": set(),
}


@pytest.fixture
def auditor(world: Recorded, db: None) -> api_client.Caller:
    return api_client.Caller(api_client.auditor_key())


def names(world: Recorded, answer: Any) -> list[str]:
    known = world.names()
    assert answer["mismatches"] == []
    return [known[record["record_id"]] for record in answer["records"]]


def is_of(schema: dict[str, Any], answer: Any) -> bool:
    return jsonschema_rs.is_valid(schema, answer)


@pytest.mark.parametrize("asked", FOUND)
def test_finds_what_is_asked_and_nothing_else(
    world: Recorded, auditor: api_client.Caller, asked: str
) -> None:
    answer = auditor.get(f"/audit/records?{asked}").ok()
    found = names(world, answer)
    assert len(found) == len(set(found))
    assert set(found) == FOUND[asked]
    assert answer["next"] is None
    assert is_of(record_schema.PAGE, answer)


def test_finds_a_flow_a_policy_decision_and_an_approver_as_the_ledger_names_them(
    world: Recorded, auditor: api_client.Caller
) -> None:
    record = canonical.decode(bytes(world.row("overridden 2").body))
    first, second = record["policy_decisions"]
    olivia = actors.user(User.objects.get(username="olivia").pk)
    for asked, found in (
        (f"policy_decision={first['policy_decision_id']}", ["overridden 2", "overridden 1"]),
        (f"policy_decision={second['policy_decision_id']}", ["overridden 2"]),
        (f"approver={olivia}", ["overridden 2"]),
        (f"dfid={world.flows['aborted']}", ["aborted 2", "aborted 1"]),
        (f"dfid={world.flows['aborted']}&approver=otto", ["aborted 2"]),
    ):
        assert names(world, auditor.get(f"/audit/records?{asked}").ok()) == found


def test_a_period_begins_with_its_first_moment_and_ends_before_its_last(
    world: Recorded, auditor: api_client.Caller
) -> None:
    at = quote(canonical.decode(bytes(world.row("aborted 2").body))["timestamp"])
    assert "aborted 2" in names(world, auditor.get(f"/audit/records?from={at}").ok())
    assert "aborted 2" not in names(world, auditor.get(f"/audit/records?to={at}").ok())


def test_pages_meet_without_gap_or_repeat_while_records_are_written(
    world: Recorded, auditor: api_client.Caller
) -> None:
    before = names(world, auditor.get("/audit/records").ok())
    seen: list[str] = []
    after = ""
    while True:
        page = auditor.get(f"/audit/records?limit=3&after={after}").ok()
        seen += names(world, page)
        if page["next"] is None:
            break
        after = page["next"]
        recorded_flows.propose(api_client.session())
    assert seen == before
    assert auditor.get(f"/audit/records?after={'9' * 16}&limit=1").ok()["next"]


def test_a_page_of_terms_has_its_cursor_too(world: Recorded, auditor: api_client.Caller) -> None:
    first = auditor.get("/audit/records?subject=symbol:AAPL&limit=2").ok()
    second = auditor.get(f"/audit/records?subject=symbol:AAPL&limit=9&after={first['next']}").ok()
    assert names(world, first) == ["another agent's 1", "aborted 2"]
    assert names(world, second) == ["aborted 1", "overridden 2", "overridden 1", "accepted 1"]


@pytest.mark.parametrize(
    "asked",
    [
        "status=DONE",
        "status=decided",
        "approval_mode=three_persons",
        "from=yesterday",
        "to=2026-02-30",
        "from=20260101",
        "dfid=trader",
        "after=x",
        "after=-1",
        "limit=0",
        "limit=201",
        "limit=many",
        f"subject={'s' * 301}",
    ],
)
def test_a_parameter_of_another_form_is_named(auditor: api_client.Caller, asked: str) -> None:
    problem = auditor.get(f"/audit/records?{asked}").problem(422, "INVALID_REQUEST")
    assert problem["violations"][0]["pointer"].endswith(asked.partition("=")[0])


def test_answers_the_bytes_of_one_record(world: Recorded, auditor: api_client.Caller) -> None:
    for record_id in world.names():
        answer = auditor.get(f"/audit/records/{record_id}")
        assert is_of(record_schema.RECORD, answer.ok())
        assert answer.content == bytes(DecisionRecord.objects.get(record_id=record_id).body)
        assert fold.record_hash(answer.body) == answer.body["audit"]["record_hash"]


def test_an_envelope_is_signed_by_a_known_key(world: Recorded, auditor: api_client.Caller) -> None:
    sealing.seal_now()
    row = world.row("overridden 2")
    envelope = auditor.get(f"/audit/records/{row.record_id}/dsse").ok()
    assert is_of(record_schema.DSSE, envelope)
    (signature,) = envelope["signatures"]
    key_of = {key["key_id"]: key["public_key"] for key in auditor.get("/audit/keys").ok()["keys"]}
    public_key = base64.b64decode(key_of[signature["keyid"]])
    assert public_key == signing.signer().public_key
    body = base64.b64decode(envelope["payload"])
    assert body == bytes(row.body)
    assert envelope["payloadType"] == dsse.PAYLOAD_TYPE
    signed = dsse.statement(body)
    Ed25519PublicKey.from_public_bytes(public_key).verify(base64.b64decode(signature["sig"]), signed)


def test_the_program_in_the_docs_checks_an_envelope_and_notices_a_change(
    world: Recorded, auditor: api_client.Caller, tmp_path: Path
) -> None:
    page = Path("docs/records.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    sealing.seal_now()
    program, envelope, keys = (tmp_path / name for name in ("check.py", "envelope.json", "keys.json"))
    program.write_text(text, encoding="utf-8")
    keys.write_bytes(auditor.get("/audit/keys").content)
    whole = auditor.get(f"/audit/records/{world.row('aborted 2').record_id}/dsse").body
    payload = base64.b64decode(whole["payload"]).replace(b'"REJECTED"', b'"DECIDED"')
    changed = {**whole, "payload": base64.b64encode(payload).decode()}
    for answer, signed in ((whole, True), (changed, False)):
        envelope.write_text(json.dumps(answer), encoding="utf-8")
        command = [sys.executable, str(program), str(envelope), str(keys)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ran.returncode == 0) is ("REJECTED denied is signed" in ran.stdout) is signed, ran.stderr


def test_lists_the_records_of_a_flow_oldest_first(world: Recorded, auditor: api_client.Caller) -> None:
    for name, count in (("aborted", 2), ("cancelled", 1), ("accepted", 1)):
        answer = auditor.get(f"/audit/flows/{world.flows[name]}/records").ok()
        assert is_of(record_schema.RECORDS, answer)
        assert names(world, answer) == [f"{name} {place}" for place in range(1, count + 1)]
        hashes = [record["audit"] for record in answer["records"]]
        assert [each["prev_hash"] for each in hashes[1:]] == [each["record_hash"] for each in hashes[:-1]]
        ended = [record["terminal"] for record in answer["records"]]
        assert ended == [False] * (count - 1) + [name != "accepted"]


def test_a_flow_without_a_record_has_none(auditor: api_client.Caller) -> None:
    dfid = api_client.session().open_flow()
    assert auditor.get(f"/audit/flows/{dfid}/records").ok() == {
        "records": [],
        "mismatches": [],
        "superseded_by": {},
    }


def test_what_is_unknown_is_not_found(auditor: api_client.Caller) -> None:
    for path in (
        f"/audit/flows/{UNKNOWN}/records",
        "/audit/flows/trader/records",
        "/audit/records/dr_1",
        "/audit/records/%00",
        f"/audit/records/dr_{UNKNOWN.replace('-', '')}_1",
        f"/audit/records/dr_{UNKNOWN.replace('-', '')}_1/dsse",
    ):
        auditor.get(path).problem(404, "NOT_FOUND")


def test_records_of_another_tenant_are_not_there(world: Recorded, auditor: api_client.Caller) -> None:
    row = DecisionRecord.objects.get(tenant=recorded_flows.OTHER_TENANT)
    assert queries.search(tenant=row.tenant, wanted=queries.RecordFilter()).records
    for path in (
        f"/audit/records/{row.record_id}",
        f"/audit/records/{row.record_id}/dsse",
        f"/audit/flows/{row.dfid}/records",
    ):
        auditor.get(path).problem(404, "NOT_FOUND")
    for asked in (f"dfid={row.dfid}", f"trace_id={row.trace_id}"):
        assert auditor.get(f"/audit/records?{asked}").ok()["records"] == []


def rewritten(world: Recorded) -> DecisionRecord:
    row = world.row("overridden 2")
    body = bytes(row.body).replace(b'"IN_FLIGHT"', b'"DECIDED"')
    ledger_tampering.quietly("UPDATE audit_decisionrecord SET body = %s WHERE id = %s", [body, row.pk])
    return row


def test_a_rewritten_record_is_named_and_not_shown(world: Recorded, auditor: api_client.Caller) -> None:
    row = rewritten(world)
    told = [{"record_id": row.record_id, "mismatch": queries.DIFFERENT}]
    for path in ("/audit/records", "/audit/records?approver=olivia", f"/audit/flows/{row.dfid}/records"):
        answer = auditor.get(path).ok()
        assert answer["mismatches"] == told
        assert row.record_id not in json.dumps(answer["records"])
    for path in (f"/audit/records/{row.record_id}", f"/audit/records/{row.record_id}/dsse"):
        problem = auditor.get(path).problem(409, "TAMPERED")
        assert problem["detail"].startswith(queries.DIFFERENT)


def test_pages_go_on_past_a_record_that_is_not_shown(world: Recorded, auditor: api_client.Caller) -> None:
    row = rewritten(world)
    page = auditor.get("/audit/records?limit=1").ok()
    found = page["records"] + page["mismatches"]
    while page["next"]:
        page = auditor.get(f"/audit/records?limit=1&after={page['next']}").ok()
        found += page["records"] + page["mismatches"]
    assert [item["record_id"] for item in found].count(row.record_id) == 1
    assert len(found) == len(ALL)


def test_a_record_that_is_gone_is_missed(world: Recorded, auditor: api_client.Caller) -> None:
    row = world.row("aborted 2")
    ledger_tampering.quietly("DELETE FROM audit_decisionrecord WHERE id = %s", [row.pk])
    answer = auditor.get(f"/audit/flows/{row.dfid}/records").ok()
    assert answer["mismatches"] == [{"record_id": row.record_id, "mismatch": queries.GONE}]
    assert len(answer["records"]) == 1
    problem = auditor.get(f"/audit/records/{row.record_id}").problem(409, "TAMPERED")
    assert problem["detail"].startswith(queries.GONE)


@pytest.mark.parametrize("field", ["trigger_commitment", "params_commitment"])
def test_a_record_whose_subjects_may_repeat_erased_words_is_not_shown(
    world: Recorded, auditor: api_client.Caller, field: str
) -> None:
    row = world.row("accepted 1")
    kinds = ("flow:opened", "proposal:submitted")
    said = LedgerEntry.objects.filter(stream=str(row.dfid), kind__in=kinds)
    (commitment,) = (entry.payload[field] for entry in said if field in entry.payload)
    payloads.erase(tenant="default", commitment=commitment, reason="asked", actor="user:1")
    answer = auditor.get(f"/audit/flows/{row.dfid}/records").ok()
    assert answer["records"] == []
    assert answer["mismatches"] == [{"record_id": row.record_id, "mismatch": queries.ERASED}]
    for path in (f"/audit/records/{row.record_id}", f"/audit/records/{row.record_id}/dsse"):
        assert auditor.get(path).problem(404, "NOT_FOUND")["detail"] == queries.ERASED


def test_reads_a_page_with_as_many_queries_as_one_record(world: Recorded, auditor: api_client.Caller) -> None:
    def count(size: int) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert len(auditor.get(f"/audit/records?limit={size}").ok()["records"]) == size
        return len(captured)

    trader = api_client.session()
    for _ in range(14):
        recorded_flows.propose(trader)
    count(1)  # notes that the key is in use
    assert count(2) == count(20) <= 8


def calls(world: Recorded) -> list[str]:
    row = world.row("accepted 1")
    return [
        "/audit/records",
        f"/audit/records/{row.record_id}",
        f"/audit/records/{row.record_id}/dsse",
        f"/audit/flows/{row.dfid}/records",
    ]


def test_only_auditors_and_users_with_a_role_may_read(world: Recorded, auditor: api_client.Caller) -> None:
    others = (api_client.agent_key(), api_client.feed_key(), api_client.session().token)
    reader, nobody = api_client.Caller(), api_client.Caller()
    reader.client.force_login(factories.user("iris", "auditor"))
    nobody.client.force_login(User.objects.create(username="nobody"))
    for path in calls(world):
        api_client.Caller().get(path).problem(401, "UNAUTHENTICATED")
        for token in others:
            api_client.Caller(token).get(path).problem(403, "UNAUTHORIZED")
        nobody.get(path).problem(403, "ROLE_MISSING")
        assert auditor.get(path).status == reader.get(path).status == 200
        auditor.post(path, {}).problem(405, "METHOD_NOT_ALLOWED")
