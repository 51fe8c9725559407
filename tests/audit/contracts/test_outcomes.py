"""What targets, guards and reports add to the contracts: deviations, written facts, flags, costs, doubt."""

from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit import canonical
from runtime.contexts.services import usage
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.execution.services import attempting
from runtime.flows.models import Intent, Outcome
from tests.audit.contracts.test_views import digest
from tests.support import api_client, factories, fake_target, guard_rounds, misbehaving_targets, trading_desk

pytestmark = pytest.mark.django_db


@pytest.fixture
def auditor(db: None) -> api_client.Caller:
    return api_client.Caller(api_client.auditor_key())


def outcome(auditor: api_client.Caller, wanted: UUID) -> Any:
    return auditor.get(f"/audit/contracts/execution_outcome_package/{wanted}").ok()


def carried_out(
    receipt: bytes, monkeypatch: pytest.MonkeyPatch, settings: Settings, *, writes: str = ""
) -> UUID:
    """An accepted proposal whose target answers with `receipt`; the id of its intent."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    text = trading_desk.PACK.replace("path: /orders}}", f"path: /orders}}, writes: [{writes}]}}")
    monkeypatch.setattr(trading_desk, "PACK", text)
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, receipt)) as target:
        intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
        attempting.attempt(intent_id, owner=trading_desk.OWNER)
    return intent_id


def test_a_receipt_that_says_otherwise_is_a_deviation(
    auditor: api_client.Caller, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    intent_id = carried_out(b'{"status":"PARTIAL"}', monkeypatch, settings)
    [stored] = canonical.decode(bytes(Outcome.objects.get(pk=intent_id).deviations))
    assert outcome(auditor, intent_id)["deviations"] == [
        {
            "expected": {"order.status": stored["expected"]},
            "observed": {"order.status": stored["observed"]},
            "severity": None,
            "remediation": None,
        }
    ]
    assert (stored["expected"], stored["observed"]) == ("FILLED", "PARTIAL")


def test_a_deviation_that_cannot_be_worked_out_again_is_absent(
    auditor: api_client.Caller, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    writes = '{fact: order.fee, value: "receipt.fee"}'
    intent_id = carried_out(b'{"order_id":"o1"}', monkeypatch, settings, writes=writes)
    assert canonical.decode(bytes(Outcome.objects.get(pk=intent_id).deviations))
    assert outcome(auditor, intent_id)["deviations"] is None


def test_facts_that_were_written_make_another_version_of_the_world(
    auditor: api_client.Caller, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    writes = '{fact: order.id, value: "receipt.order_id"}'
    intent_id = carried_out(b'{"order_id":"o1"}', monkeypatch, settings, writes=writes)
    shown, row = outcome(auditor, intent_id), Outcome.objects.get(pk=intent_id)
    before = digest({"market.state": 1, "price.ABC": 1})
    assert shown["world_version_id_before"] == before
    wanted = {"before": before, "writes": canonical.digest(bytes(row.writes))}
    assert shown["world_version_id_after"] == digest(wanted)


def test_what_the_agent_reports_is_the_cost(
    auditor: api_client.Caller, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, b"{}")) as target:
        desk = trading_desk.open_desk(base_url=target.base_url)
        intent_id = desk.accept()
        dfid = trading_desk.flow_of(intent_id).dfid
        for cost in ("0.10", "0.25"):
            asked = api_schemas.UsageRequest(tokens=1, cost_usd=cost)
            assert not isinstance(usage.report(agent=desk.agent, dfid=dfid, asked=asked), Problem)
        attempting.attempt(intent_id, owner=trading_desk.OWNER)
    assert float(outcome(auditor, dfid)["telemetry"]["cost"]) == 0.35


def test_an_unanswered_call_is_of_unknown_status(
    auditor: api_client.Caller, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened() as target:
        target.faults["/reserve"] = [fake_target.LOSE]
        intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
        fake_target.attempt(intent_id)
    shown = auditor.get(f"/audit/contracts/tool_response/{intent_id}:1").ok()
    assert (shown["tool"]["status"], shown["hashes"]["response_hash"]) == ("unknown", None)
    auditor.get(f"/audit/contracts/tool_response/{intent_id}:2").problem(404, "NOT_FOUND")
    dfid = Intent.objects.get(pk=intent_id).flow_id
    auditor.get(f"/audit/contracts/execution_outcome_package/{dfid}").problem(404, "NOT_FOUND")


def test_a_soft_guard_that_flagged_the_proposal_was_consulted(auditor: api_client.Caller) -> None:
    guard_rounds.configure()
    review = guard_rounds.flagged(factories.desk())
    dfid = review.flow_id
    shown = auditor.get(f"/audit/contracts/decision_package/{dfid}").ok()
    [consulted] = shown["consultations"]
    assert consulted["consultation_id"] == str(review.pk)
    trace = auditor.get(f"/audit/contracts/reasoning_trace/{dfid}").ok()
    [node] = trace["structure"]["consultation_nodes"]
    assert (node["provider"], node["prompts"]) == (consulted["provider"], None)
