"""`/api/v1/audit/reports/...`: amounts, denials and replays, and what they do not know."""

from typing import Any
from uuid import UUID

import jsonschema_rs
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit import canonical
from audit.models import DecisionRecord, LedgerEntry
from audit.packs import sources
from audit.records import queries
from dir_console.api import api
from runtime.flows.models import Proposal
from runtime.maintenance.services import payloads
from runtime.proposals.queries import record_reports
from tests.support import api_client, factories, ledger_tampering, recorded_flows, worlds
from tests.support.recorded_flows import RULE, Recorded

world = worlds.shared(recorded_flows.build)
HIGH_VALUE = "/audit/reports/high_value_outcomes?decision_key=ADJUST_POSITION&param=notional_cents&over="
DENIALS = "/audit/reports/most_denials"
HEALTH = "/audit/reports/replay_health"


@pytest.fixture
def auditor(world: Recorded, db: None) -> api_client.Caller:
    return api_client.Caller(api_client.auditor_key())


def answered(auditor: api_client.Caller, path: str) -> Any:
    """The answer, after a check of its form."""
    answer = auditor.get(path).ok()
    operation = api.get_openapi_schema()["paths"][f"/api/v1{path.partition('?')[0]}"]["get"]
    schema = operation["responses"][200]["content"]["application/json"]["schema"]
    jsonschema_rs.validate(schema, answer)
    return answer


def names(world: Recorded, items: Any) -> list[str]:
    known = world.names()
    return [known[item["record_id"]] for item in items]


def test_finds_the_amounts_above_a_value_once_for_each_flow(
    world: Recorded, auditor: api_client.Caller
) -> None:
    answer = answered(auditor, f"{HIGH_VALUE}100000")
    assert names(world, answer["outcomes"]) == ["aborted 2", "overridden 2"]
    aborted, overridden = answer["outcomes"]
    assert (aborted["amount"], aborted["status"], aborted["outcome"]) == (200_000, "REJECTED", "denied")
    assert (overridden["amount"], overridden["status"]) == (150_000, "IN_FLIGHT")
    record = canonical.decode(bytes(world.row("overridden 2").body))
    for name in ("approvals", "evidence_refs", "lineage"):
        assert overridden[name] == record[name]
    assert answer["without_amount"] == answer["mismatches"] == []
    assert (answer["flows"], answer["complete"]) == (5, True)


@pytest.mark.parametrize(
    ("over", "found"),
    [
        ("200000", []),
        ("199999.99", ["aborted 2"]),
        ("150000", ["aborted 2"]),
        ("149999&to=2026-01-01", []),
        ("149999&from=2999-01-01", []),
        ("-1", ["another agent's 1", "aborted 2", "overridden 2", "rejected 1", "accepted 1"]),
    ],
)
def test_an_amount_is_above_and_within_the_period(
    world: Recorded, auditor: api_client.Caller, over: str, found: list[str]
) -> None:
    assert names(world, answered(auditor, f"{HIGH_VALUE}{over}")["outcomes"]) == found


def test_says_which_amounts_cannot_be_read(world: Recorded, auditor: api_client.Caller) -> None:
    other = answered(auditor, HIGH_VALUE.replace("notional_cents", "symbol") + "0")
    assert other["outcomes"] == []
    assert {item["why"] for item in other["without_amount"]} == {record_reports.NO_NUMBER}
    proposal = Proposal.objects.filter(flow=world.flows["accepted"])
    held = bytes(proposal.values_list("body", flat=True)[0])
    proposal.update(body=held.replace(b"18950", b"99950"))
    Proposal.objects.filter(flow=world.flows["another agent's"]).update(body=b"")
    answer = answered(auditor, f"{HIGH_VALUE}0")
    found = {world.names()[item["record_id"]]: item["why"] for item in answer["without_amount"]}
    assert found == {"accepted 1": sources.DIFFERENT, "another agent's 1": sources.EMPTIED}


def test_repeats_no_amount_of_erased_words(world: Recorded, auditor: api_client.Caller) -> None:
    said = LedgerEntry.objects.get(stream=str(world.flows["accepted"]), kind="flow:opened")
    record = world.row("accepted 1")
    erased = said.payload["trigger_commitment"]
    payloads.erase(tenant="default", commitment=erased, reason="asked", actor="user:1")
    answer = answered(auditor, f"{HIGH_VALUE}0")
    assert answer["mismatches"] == [{"record_id": record.record_id, "mismatch": queries.ERASED}]
    assert "accepted 1" not in names(world, answer["outcomes"])


def test_an_amount_beside_an_erased_explanation_is_not_read(
    world: Recorded, auditor: api_client.Caller
) -> None:
    dfid = recorded_flows.propose(api_client.session(), explain="A name.")
    known = Recorded({**world.flows, "explained": dfid})
    said = LedgerEntry.objects.get(stream=str(dfid), kind="proposal:submitted")
    erased = said.payload["explain_commitment"]
    payloads.erase(tenant="default", commitment=erased, reason="asked", actor="user:1")
    answer = answered(auditor, f"{HIGH_VALUE}0")
    assert names(known, answer["without_amount"]) == ["explained 1"]
    assert [item["why"] for item in answer["without_amount"]] == [sources.ERASED]


def test_counts_the_rules_that_denied(world: Recorded, auditor: api_client.Caller) -> None:
    trader = api_client.session()
    dfid = trader.open_flow()
    for symbol in ("MSFT", "MSFT"):
        params = {"symbol": symbol, "action": "BUY", "quantity": 1, "notional_cents": 1}
        trader.propose(dfid, api_client.proposal(trader.context(dfid), params=params)).ok()
    trader.propose(dfid, api_client.proposal(trader.context(dfid), params={"symbol": 1})).ok()
    answer = answered(auditor, DENIALS)
    assert answer["rules"] == [
        {"rule_id": RULE, "denials": 3, "flows": 2},
        {"rule_id": "INVALID_SCHEMA", "denials": 1, "flows": 1},
        {"rule_id": "REASONING_EXHAUSTION", "denials": 1, "flows": 1},
    ]
    assert answer["by_people"] == 1
    assert (answer["flows"], answer["complete"]) == (3, True)


def test_denials_are_those_of_the_last_days(world: Recorded, auditor: api_client.Caller) -> None:
    ledger_tampering.quietly("UPDATE audit_decisionrecord SET at = '2026-01-01 00:00:00'")
    assert answered(auditor, f"{DENIALS}?days=1")["rules"] == []
    assert answered(auditor, f"{DENIALS}?days=1")["records_read"] == 0


def test_replays_the_flows_of_each_version(world: Recorded, auditor: api_client.Caller) -> None:
    answer = answered(auditor, HEALTH)
    spec = "ADJUST_POSITION@1.2.0"
    known = {item["decision_spec"]: item for item in answer["decision_specs"]}
    assert known.keys() == {spec, None}
    assert (known[spec]["records"], known[spec]["flows"]) == (7, 5)
    assert (known[spec]["replay_equal"], known[spec]["replay_equal_rate"]) == (5, 1.0)
    assert (known[None]["records"], known[None]["replay_equal"]) == (1, 1)
    proposal = Proposal.objects.filter(flow=world.flows["accepted"])
    proposal.update(body=b"{}")
    (changed, _) = answered(auditor, HEALTH)["decision_specs"]
    assert (changed["difference"], changed["replay_equal_rate"]) == (1, 0.8)
    said = LedgerEntry.objects.get(stream=str(world.flows["cancelled"]), kind="flow:opened")
    erased = said.payload["trigger_commitment"]
    payloads.erase(tenant="default", commitment=erased, reason="asked", actor="user:1")
    (_, empty) = answered(auditor, HEALTH)["decision_specs"]
    assert (empty["not_replayable"], empty["replay_equal_rate"]) == (1, 0.0)


def test_replays_the_newest_flows_and_says_that_there_are_more(
    world: Recorded, auditor: api_client.Caller
) -> None:
    answer = answered(auditor, f"{HEALTH}?flows=2")
    assert (answer["flows"], answer["complete"]) == (2, False)
    assert sum(item["flows"] for item in answer["decision_specs"]) == 2
    assert answered(auditor, f"{HEALTH}?to=2026-01-01")["decision_specs"] == []


def test_a_report_uses_no_record_that_was_rewritten(world: Recorded, auditor: api_client.Caller) -> None:
    row = world.row("rejected 1")
    body = bytes(row.body).replace(RULE.encode(), b"R_NOT_AAPL")
    ledger_tampering.quietly("UPDATE audit_decisionrecord SET body = %s WHERE id = %s", [body, row.pk])
    told = [{"record_id": row.record_id, "mismatch": queries.DIFFERENT}]
    for path in (f"{HIGH_VALUE}0", DENIALS, HEALTH):
        answer = answered(auditor, path)
        assert answer["mismatches"] == told
        assert row.record_id not in str(answer.get("outcomes"))
    assert answered(auditor, DENIALS)["rules"] == []


def test_a_report_says_that_it_did_not_read_everything(
    world: Recorded, auditor: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_reports, "MOST_RECORDS", 1)
    for path in (f"{HIGH_VALUE}0", DENIALS, HEALTH):
        answer = answered(auditor, path)
        assert (answer["records_read"], answer["complete"]) == (1, False)


def test_amounts_and_denials_take_as_many_queries_for_many_records(
    world: Recorded, auditor: api_client.Caller
) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            answered(auditor, f"{HIGH_VALUE}0")
            answered(auditor, DENIALS)
        return len(captured)

    count()
    before = count()
    trader = api_client.session()
    for _ in range(5):
        recorded_flows.propose(trader)
        recorded_flows.propose(trader, symbol="MSFT")
    assert count() == before <= 24


@pytest.mark.parametrize(
    "path",
    [
        "/audit/reports/high_value_outcomes",
        f"{HIGH_VALUE}much",
        f"{HIGH_VALUE}NaN",
        f"{HIGH_VALUE}1&from=x",
        HIGH_VALUE.replace("notional_cents", "") + "1",
        f"{DENIALS}?days=0",
        f"{DENIALS}?days=x",
        f"{HEALTH}?flows=201",
        f"{HEALTH}?to=tomorrow",
    ],
)
def test_a_parameter_of_another_form_is_named(auditor: api_client.Caller, path: str) -> None:
    assert auditor.get(path).problem(422, "INVALID_REQUEST")["violations"]


def test_another_name_is_no_report(auditor: api_client.Caller) -> None:
    auditor.get("/audit/reports/high_value").problem(404, "NOT_FOUND")
    auditor.get("/audit/reports/").problem(404, "NOT_FOUND")


def test_reports_are_for_auditors_and_users_with_a_role(world: Recorded, auditor: api_client.Caller) -> None:
    reader = api_client.Caller()
    reader.client.force_login(factories.user("iris", "auditor"))
    for path in (f"{HIGH_VALUE}0", DENIALS, HEALTH):
        api_client.Caller().get(path).problem(401, "UNAUTHENTICATED")
        for token in (api_client.agent_key(), api_client.feed_key()):
            api_client.Caller(token).get(path).problem(403, "UNAUTHORIZED")
        assert reader.get(path).status == 200


def test_reports_read_the_readers_tenant_alone(world: Recorded, auditor: api_client.Caller) -> None:
    other = DecisionRecord.objects.get(tenant=recorded_flows.OTHER_TENANT)
    own = DecisionRecord.objects.filter(tenant="default").count()
    assert answered(auditor, HEALTH)["records_read"] == own
    found = record_reports.replay_health(tenant=other.tenant)
    assert found["records_read"] == 1
    assert UUID(str(other.dfid)) not in world.flows.values()
