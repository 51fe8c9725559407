"""Cedar policies end to end: a pack with them is loaded, asked by an agent, and asked again by the gate."""

from typing import Any
from uuid import UUID

import pytest

from audit import canonical
from runtime.advice.models import RuleOutput
from runtime.advice.queries import rule_outputs
from runtime.contracts.verdict import VerdictDocument
from runtime.flows.models import Verdict
from runtime.kernel.gate import pipeline
from runtime.kernel.rulesets import cedar
from runtime.proposals.queries import flow_replay, policy_dry_run
from runtime.proposals.queries.replay_results import ReplayEqual
from runtime.registry.models import Ruleset
from tests.support import api_client, records_desk, worlds
from tests.support.records_desk import ASKED

_loaded = worlds.shared(records_desk.load_pack)


@pytest.fixture
def agent(_loaded: None, db: None) -> api_client.Caller:
    """A session of the records clerk."""
    return api_client.session(records_desk.AGENT)


@pytest.fixture
def dfid(agent: api_client.Caller) -> str:
    """An open flow of the records clerk."""
    return agent.open_flow()


def judged(agent: api_client.Caller, dfid: str, **changes: Any) -> tuple[str, dict[str, str]]:
    """The verdict on a proposal to share a record, and its reasons by subject."""
    body = {
        "policy_kind": "SHARE_RECORD",
        "params": {**ASKED, **changes},
        "execution_constraints": {"validity_window_sec": 30},
        "confidence": 0.95,
        "context_ref": agent.context(dfid),
    }
    answer = agent.propose(dfid, body).ok()
    stored = VerdictDocument.from_bytes(bytes(Verdict.objects.latest("judged_at").body))
    return answer["verdict"], {finding.subject: finding.code for finding in stored.reasons}


def test_the_pack_pins_the_version_of_the_library(agent: api_client.Caller) -> None:
    body = canonical.decode(bytes(Ruleset.objects.get().body))
    assert body["cedar_request"]["cedarpy"] == cedar.VERSION == "4.12.2"


def test_an_agent_asks_and_is_itself_the_principal(agent: api_client.Caller, dfid: str) -> None:
    answer = records_desk.ask(agent, dfid, purpose="treatment")
    (match,) = answer["matches"]
    assert (match["rule_id"], match["certainty"]) == ("C_CARE", 1.0)
    assert match["action_proposal"] == {"action": "SHARE_RECORD", "params": {}}
    assert answer["status"] == "HIGH_CONFIDENCE_MATCH"
    stored = canonical.decode(bytes(RuleOutput.objects.get().input))["cedar"]
    assert (stored["agent_id"], stored["policy_kind"]) == ("records-clerk", "SHARE_RECORD")
    assert stored["answers"] == {"C_BILLING": "SILENT", "C_CARE": "PERMITS", "C_SEALED": "SILENT"}


def test_forbidden_and_not_permitted_are_guardrails(agent: api_client.Caller, dfid: str) -> None:
    answer = records_desk.ask(agent, dfid, purpose="research", sealed=True)
    assert answer["guardrails_triggered"] == [
        {"invariant_id": "C_SEALED", "severity": "CRITICAL", "detail": "The record is sealed"},
        {"invariant_id": "NO_PERMIT", "severity": "HIGH", "detail": "No policy permits it."},
    ]
    assert (answer["status"], answer["matches"]) == ("NO_MATCH", [])


def test_policies_need_the_kind_that_they_are_asked_about(agent: api_client.Caller, dfid: str) -> None:
    body = {"ruleset": "record-access", "features": ASKED}
    problem = agent.post(f"/flows/{dfid}/rules", body).problem(422, "INVALID_REQUEST")
    assert [violation["pointer"] for violation in problem["violations"]] == ["/policy_kind"]
    assert not RuleOutput.objects.exists()


@pytest.mark.parametrize(
    ("changes", "verdict", "reasons"),
    [
        ({}, "ACCEPT", {}),
        ({"purpose": "treatment"}, "ACCEPT", {}),
        ({"sealed": True}, "REJECT", {"record-access:C_SEALED": "RULESET_GUARDRAIL"}),
        ({"sealed": True, "purpose": "emergency"}, "ACCEPT", {}),
        ({"ward": "psychiatry"}, "REJECT", {"record-access:NO_PERMIT": "RULESET_GUARDRAIL"}),
    ],
)
def test_the_gate_asks_over_what_it_reads_itself(
    agent: api_client.Caller, dfid: str, changes: dict[str, Any], verdict: str, reasons: dict[str, str]
) -> None:
    assert judged(agent, dfid, **changes) == (verdict, reasons)


def test_a_verdict_is_made_again_from_the_stored_answers_under_another_version(
    agent: api_client.Caller, dfid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records_desk.ask(agent, dfid)
    judged(agent, dfid, sealed=True)
    verdict, output = Verdict.objects.select_related("bundle").get(), RuleOutput.objects.get()
    monkeypatch.setattr(cedar, "VERSION", "9.9.9")
    assert pipeline.judge_bytes(bytes(verdict.input), bytes(verdict.bundle.body)) == bytes(verdict.body)
    assert rule_outputs.make_again(output) == bytes(output.body)
    assert isinstance(flow_replay.replay(tenant="default", dfid=UUID(dfid)), ReplayEqual)
    # What is judged from now on is not let through on the word of a version that nobody has tried.
    found, reasons = judged(agent, agent.open_flow())
    assert (found, set(reasons.values())) == ("REJECT", {"RULESET_GUARDRAIL"})
    assert "record-access:C_BILLING" in reasons


def test_a_dry_run_asks_the_policies_of_the_draft(agent: api_client.Caller, dfid: str) -> None:
    assert judged(agent, dfid) == ("ACCEPT", {})
    rows = policy_dry_run.list_of_kind(tenant="default", kind="SHARE_RECORD")
    strict = records_desk.ruleset(
        records_desk.policy("F", "forbid (principal, action, resource);"), request={"must_permit": False}
    )
    same = policy_dry_run.rejudge(rows=rows, swap=lambda then: then)
    assert (same.looked_at, same.changes, same.other_reasons) == (1, (), 0)
    report = policy_dry_run.rejudge(
        rows=rows, swap=lambda then: then.model_copy(update={"rulesets": (strict,)})
    )
    (change,) = report.changes
    assert (change.was, change.now) == ("ACCEPT", "REJECT")
    assert [finding.subject for finding in change.now_reasons] == ["record-access:F"]
