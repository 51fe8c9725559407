"""The contracts of other designs, made of real flows: valid by their schemas, equal to what was recorded."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from audit import canonical
from audit.contracts.catalogue import CONTRACTS
from audit.models import LedgerEntry
from runtime.contexts.models import Snapshot
from runtime.contexts.services import steps, usage
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.states import StepType
from runtime.flows.models import Attempt, Intent, Proposal, Verdict
from runtime.state.models import FactVersion
from tests.audit.contracts import reading
from tests.audit.packs_export import test_packs_of_flows as whole_flows
from tests.support import api_client, factories, gate_cases, worlds

pytestmark = pytest.mark.django_db
STEP = "sha256:" + "ab" * 32
GROUPS = ("constraints", "limits", "rules")


@dataclass(frozen=True, kw_only=True)
class Flows(whole_flows.Flows):
    """And a rejected proposal, one of a kind that nobody knows, and a flow whose agent reports its steps."""

    rejected: UUID
    unknown: UUID
    reported: UUID
    auditor: str


@contextmanager
def opened() -> Iterator[Flows]:
    with whole_flows.opened() as flows:
        desk = factories.desk(agent_id="third")
        rejected, unknown, reported = desk.open(), desk.open(), desk.open()
        assert desk.propose(rejected, params={"symbol": "AAPL"})["verdict"] == "REJECT"
        assert desk.propose(unknown, policy_kind="NOBODY_KNOWS")["verdict"] == "REJECT"
        step = api_schemas.StepRequest(
            step_type=StepType.REASONING, digest=STEP, source_labels=("user_input",)
        )
        good(steps.report(agent=desk.again(), dfid=reported.dfid, asked=step))
        used = api_schemas.UsageRequest(tokens=10, cost_usd="0.25")
        good(usage.report(agent=desk.again(), dfid=reported.dfid, asked=used))
        desk.propose(reported)
        yield Flows(
            **{name: getattr(flows, name) for name in whole_flows.Flows.__dataclass_fields__},
            rejected=rejected.dfid,
            unknown=unknown.dfid,
            reported=reported.dfid,
            auditor=api_client.auditor_key("examiner"),
        )


def good(answer: Any) -> None:
    assert not isinstance(answer, Problem), answer


flows = worlds.opened(opened)

OF_PROPOSALS = {
    "structured_context",
    "rule_engine_output",
    "decision_package",
    "reasoning_trace",
    "tool_request",
    "policy_decision",
    "replay_trace",
}
OF_CALLS = {"execution_outcome_package", "tool_response"}
SHOWN = {
    "begun": {"structured_context", "replay_trace"},
    "rejected": OF_PROPOSALS,
    "unknown": OF_PROPOSALS,
    "reported": OF_PROPOSALS,
    "accepted": OF_PROPOSALS | OF_CALLS,
    "undone": OF_PROPOSALS | OF_CALLS,
    "overridden": OF_PROPOSALS | {"hitl_decision"},
    "modified": OF_PROPOSALS | {"hitl_decision"},
    "aborted": OF_PROPOSALS | {"hitl_decision"},
    "asked": OF_PROPOSALS | {"hitl_decision"},
    "stated": OF_PROPOSALS | {"hitl_decision", "execution_outcome_package"},
}


def heard(flows: Flows, name: str, wanted: object) -> api_client.Heard:
    return reading.heard(api_client.Caller(flows.auditor), name, wanted)


def view(flows: Flows, name: str, wanted: object) -> Any:
    return reading.view(api_client.Caller(flows.auditor), name, wanted)


def entries(dfid: UUID, kind: str) -> list[Any]:
    """What the entries of a kind say."""
    rows = LedgerEntry.objects.filter(stream=str(dfid), kind=kind).order_by("seq")
    return [canonical.decode(bytes(row.body)) for row in rows]


def digest(value: Any) -> str:
    return hashlib.sha256(canonical.encode(value)).hexdigest()


@pytest.mark.parametrize("flow", SHOWN)
def test_every_flow_shows_the_contracts_that_it_has_something_for_and_no_other(
    flows: Flows, flow: str
) -> None:
    dfid = getattr(flows, flow)
    for name in CONTRACTS:
        if name in SHOWN[flow]:
            view(flows, name, dfid)
        else:
            heard(flows, name, dfid).problem(404, "NOT_FOUND")


def test_says_why_there_is_nothing_to_show(flows: Flows) -> None:
    wanted = {
        "agent_message": "No message between agents is about this flow.",
        "hitl_decision": "Nobody has decided yet.",
        "execution_outcome_package": "No outcome has been recorded.",
        "tool_response": "No call has ended yet.",
        "policy_decision": "Nothing was proposed in this flow, so there is no verdict.",
    }
    for name, detail in wanted.items():
        assert heard(flows, name, flows.begun).problem(404, "NOT_FOUND")["detail"] == detail


def test_the_context_of_an_accepted_flow_is_the_stored_one(flows: Flows) -> None:
    shown, row = view(flows, "structured_context", flows.accepted), Snapshot.objects.get(flow=flows.accepted)
    [compiled], [given] = (
        entries(flows.accepted, "context:compiled"),
        entries(flows.accepted, "verdict:given"),
    )
    stored = canonical.decode(bytes(row.body))
    assert shown["context_id"] == row.context_ref == compiled["payload"]["context_ref"]
    assert (shown["task_id"], shown["created_at"]) == (str(flows.accepted), compiled["at"])
    assert shown["ttl"] == compiled["payload"]["expires_at"]
    assert {each["name"]: each["value"] for each in shown["features"]} == {
        "market.state": "OPEN",
        "price.ABC": 100,
    }
    assert [each["tags"] for each in shown["features"]] == [["version:1"], ["version:1"]]
    assert shown["actor_profile"] == {"agent_id": "trader", "role": "EXECUTOR", "tenant": "default"}
    assert shown["entitlements"] == ["BUY"]
    assert (shown["risk_tier"], shown["problem_frame"]["constraints"]) == ("T0", ["C_MARKET_OPEN"])
    assert shown["problem_frame"]["objectives"] == [stored["mission"]]
    assert shown["environment"]["budgets"] == stored["budget"]
    assert [each["name"] for each in shown["environment"]["resources"]] == ["slots", "units"]
    assert shown["world_refs"]["world_version_id"] == digest(stored["versions"])
    assert shown["health"]["freshness"].startswith("PT0")
    assert given["payload"]["verdict"] == "ACCEPT"


def test_facts_that_are_also_evidence_name_who_wrote_them(flows: Flows) -> None:
    shown = view(flows, "structured_context", flows.overridden)
    price = next(each for each in shown["features"] if each["name"] == "price.AAPL")
    assert price["source"] == "feed:prices"
    assert price["last_updated"]


def test_facts_without_evidence_name_who_wrote_them_as_their_entries_say(flows: Flows) -> None:
    """A pack wrote them: nobody was asked about this flow, so no evidence holds them."""
    shown = view(flows, "structured_context", flows.accepted)
    written = [
        (said["payload"]["path"], said["payload"]["writer"], said["at"])
        for said in entries_of_facts()
        if said["payload"]["version"] == 1
    ]
    assert {(each["name"], each["source"], each["last_updated"]) for each in shown["features"]} <= set(
        written
    )
    assert {each["source"] for each in shown["features"]} == {"system"}


def entries_of_facts() -> list[Any]:
    rows = LedgerEntry.objects.filter(kind="fact:written").order_by("id")
    return [canonical.decode(bytes(row.body)) for row in rows]


@pytest.mark.parametrize("change", [{"writer": "feed:mallory"}, {"digest": "0" * 64}])
def test_who_wrote_a_fact_is_not_taken_from_a_row_that_its_entry_contradicts(
    flows: Flows, change: dict[str, str]
) -> None:
    FactVersion.objects.filter(path="price.ABC", version=1).update(**change)
    shown = {each["name"]: each for each in view(flows, "structured_context", flows.accepted)["features"]}
    assert (shown["price.ABC"]["source"], shown["price.ABC"]["last_updated"]) == (None, None)
    assert shown["market.state"]["source"] == "system"


def test_the_context_names_the_jurisdiction_that_its_kind_names(flows: Flows) -> None:
    assert view(flows, "structured_context", flows.accepted)["jurisdiction"] is None
    desk = factories.desk(agent_id="lawful")
    factories.policy_kind(gate_cases.kind(kind="LAWFUL", jurisdiction=["EU", "US-NY"]))
    factories.change_manifest("lawful", policy_kinds=["LAWFUL"])
    flow = desk.open()
    assert view(flows, "structured_context", flow.dfid)["jurisdiction"] is None
    desk.propose(flow, policy_kind="LAWFUL")
    assert view(flows, "structured_context", flow.dfid)["jurisdiction"] == ["EU", "US-NY"]


def test_a_person_s_decision_is_one_of_the_prior_ones_only_for_a_later_context(flows: Flows) -> None:
    assert view(flows, "structured_context", flows.overridden)["prior_decisions"] == []


def test_the_rule_output_says_what_each_bound_asked_for(flows: Flows) -> None:
    agents, persons = (row.pk for row in Proposal.objects.filter(flow=flows.overridden).order_by("pk"))
    shown = view(flows, "rule_engine_output", agents)
    assert shown["rule_output_id"] == canonical.digest(bytes(Verdict.objects.get(pk=agents).body))
    assert shown["status"] == "LOW_CONFIDENCE_MATCH"
    assert {each["rule_id"]: each["action_proposal"] for each in shown["matches"]} == {
        "max_price": "allow",
        "max_notional": "require_approval",
        "R_MARKET_OPEN": "allow",
        "R_BUYS_ONLY": "allow",
    }
    assert [each["invariant_id"] for each in shown["guardrails_triggered"]] == ["max_notional"]
    assert (shown["residuals"], shown["coverage"], shown["conflicts"]) == (["max_notional"], 1, [])
    lifted = view(flows, "rule_engine_output", persons)
    assert lifted["status"] == "HIGH_CONFIDENCE_MATCH"
    assert [each["severity"] for each in lifted["guardrails_triggered"]] == ["LIFTED"]
    assert (lifted["residuals"], lifted["matches"][1]["action_proposal"]) == ([], "allow")


def test_a_check_that_was_never_reached_asked_no_bound(flows: Flows) -> None:
    shown = view(flows, "rule_engine_output", flows.rejected)
    assert (shown["matches"], shown["coverage"], shown["status"]) == ([], 0, "NO_MATCH")
    nodes = view(flows, "reasoning_trace", flows.rejected)["structure"]["rule_nodes"]
    assert [node["fired"] for node in nodes] == [False] * 4


@pytest.mark.parametrize("flow", ["accepted", "undone", "overridden", "asked", "rejected"])
def test_a_bound_that_held_has_not_fired_and_never_gives_the_words_of_its_failure(
    flows: Flows, flow: str
) -> None:
    for row in Verdict.objects.filter(proposal__flow=getattr(flows, flow)):
        said = canonical.decode(bytes(row.body))["findings"]
        found = {name for each in said if each["outcome"] != "PASS" for name in _names(each)}
        kind = canonical.decode(bytes(row.bundle.body))["kind"]
        bounds = {bound["id"]: bound for group in GROUPS for bound in kind.get(group, ())}
        nodes = view(flows, "reasoning_trace", row.pk)["structure"]["rule_nodes"]
        assert {node["rule_id"] for node in nodes if node["fired"]} == found & bounds.keys()
        held = {node["rule_id"]: node["reason"] for node in nodes if not node["fired"]}
        for match in view(flows, "rule_engine_output", row.pk)["matches"]:
            bound = bounds[match["rule_id"]]
            if match["rule_id"] not in found:
                assert match["action_proposal"] == "allow"
                assert (bound.get("require") or bound["value"]) in match["justification"]
                assert match["justification"] == held[match["rule_id"]] != bound.get("message")


def _names(finding: dict[str, Any]) -> list[str]:
    return [finding["subject"], finding["code"], finding["message"].partition(":")[0]]


def test_the_decision_package_is_the_verdict_and_the_proposal(flows: Flows) -> None:
    shown, proposal = (
        view(flows, "decision_package", flows.accepted),
        Proposal.objects.get(flow=flows.accepted),
    )
    stored, [given] = canonical.decode(bytes(proposal.body)), entries(flows.accepted, "verdict:given")
    assert (shown["decision_id"], shown["timestamp"]) == (str(proposal.pk), given["at"])
    assert shown["decision_type"] == "approve"
    assert shown["selected_action"]["name"] == "BUY"
    assert shown["selected_action"]["parameters"] == stored["params"]
    assert shown["selected_action"]["required_capabilities"] == ["broker"] * 3
    assert (shown["confidence_score"], shown["abstain_threshold"]) == (0.9, 0.6)
    assert shown["confidence_interpretation"]["band"] == "at_or_above_threshold"
    assert shown["references"] == {
        "context_id": stored["context_ref"],
        "rule_output_id": given["payload"]["verdict_digest"],
        "world_version_id": digest({"market.state": 1, "price.ABC": 1}),
        "CET_version": "1.0.0",
        "Ruleset_version": given["payload"]["policy_bundle_hash"],
        "DER_version": given["payload"]["gate_version"],
        "recommendation_id": None,
        "proposal_ids": [str(proposal.pk)],
    }
    assert (shown["budgets"], shown["human_review_required"]) == ({"time": "PT60S", "cost": None}, False)
    assert shown["escalation_route"] == {"contact": "desk", "SLA": None}


def test_an_escalated_proposal_is_routed_to_people(flows: Flows) -> None:
    shown = view(flows, "decision_package", flows.asked)
    assert (shown["decision_type"], shown["human_review_required"]) == ("route", True)
    assert shown["escalation_route"] == {"contact": "trading-desk", "SLA": "PT600S"}
    assert [each["type"] for each in shown["policy_requirements"]] == ["human_approval"]


def test_a_rejected_proposal_of_an_unknown_kind_has_no_rules_to_name(flows: Flows) -> None:
    shown = view(flows, "decision_package", flows.unknown)
    assert (shown["decision_type"], shown["risk_tier"], shown["safety_assertions"]) == ("deny", None, [])
    assert view(flows, "policy_decision", flows.unknown)["bundles"]["tool_schema_hash"] is None


def test_the_outcome_of_an_accepted_flow_is_the_recorded_one(flows: Flows) -> None:
    shown, [ended] = (
        view(flows, "execution_outcome_package", flows.accepted),
        entries(flows.accepted, "outcome:recorded"),
    )
    begun, answered = (entries(flows.accepted, f"attempt:{word}") for word in ("started", "finished"))
    assert shown["outcome_id"] == ended["payload"]["intent_id"]
    assert (shown["start_time"], shown["end_time"]) == (begun[0]["at"], ended["at"])
    assert (shown["status"], shown["error_diagnostics"], shown["deviations"]) == ("success", None, [])
    assert [each["receipt_commitment"] for each in shown["observed_effects"]] == [
        each["payload"]["receipt_commitment"] for each in answered
    ]
    assert [each["receipt"]["path"] for each in shown["observed_effects"]] == ["/reserve", "/pay", "/ship"]
    assert [each["pass_fail"] for each in shown["safety_validation_results"]] == ["pass"] * 3
    assert shown["telemetry"]["resource_usage"] == [
        {"resource": "slots", "amount": 1},
        {"resource": "units", "amount": 60},
    ]
    assert shown["telemetry"]["api_quota_used"] == 3
    assert shown["outcome_trace_ref"] == f"{flows.accepted}:{ended['seq']}"
    assert shown["world_version_id_after"] == shown["world_version_id_before"]
    states = [each["state"] for each in shown["execution_state_transitions"]]
    assert (states[0], states[-1]) == ("intent:created", "outcome:recorded")


def test_an_undone_saga_is_aborted_and_says_what_failed(flows: Flows) -> None:
    shown = view(flows, "execution_outcome_package", flows.undone)
    assert shown["status"] == "aborted"
    assert (shown["error_diagnostics"]["code"], shown["error_diagnostics"]["category"]) == (
        "TERMINAL_FAILURE",
        "TARGET_REFUSED",
    )
    assert shown["error_diagnostics"]["message"].endswith("Attempt 3: FAILED, status 422.")


def test_the_reasoning_trace_is_a_graph_with_an_address_of_its_own(flows: Flows) -> None:
    shown = view(flows, "reasoning_trace", flows.overridden)
    structure = shown["structure"]
    sorts = ("context_nodes", "rule_nodes", "consultation_nodes", "confidence_nodes", "synthesis_nodes")
    nodes = {node["node_id"] for sort in sorts for node in structure[sort]}
    assert {edge[end] for edge in structure["edges"] for end in ("source", "target")} == nodes
    assert shown["content_address"] == digest(structure)
    [decided] = entries(flows.overridden, "escalation:decided")
    assert shown["signatures"] == [
        {
            "signer": decided["actor"],
            "signature": decided["payload"]["signature"],
            "timestamp": decided["at"],
            "key_id": decided["payload"]["key_id"],
        }
    ]
    assert shown["redaction_info"] == []


def test_reported_steps_are_named_by_their_digest_only(flows: Flows) -> None:
    [step] = view(flows, "reasoning_trace", flows.reported)["structure"]["synthesis_nodes"][0]["steps"]
    assert (step["step_type"], step["digest"], step["text"]) == (
        "reasoning",
        STEP.removeprefix("sha256:"),
        None,
    )
    assert view(flows, "tool_request", flows.reported)["context"]["source_labels"] == ["user_input"]
    trace = view(flows, "replay_trace", flows.reported)["steps"]
    assert [each["step_type"] for each in trace] == ["retrieve_context", "reported_step"]


def test_the_request_of_a_call_is_the_one_that_was_sent(flows: Flows) -> None:
    intent = Intent.objects.get(flow=flows.accepted)
    sent = canonical.decode(bytes(intent.requests))["steps"]
    for number, step in enumerate(sent, start=1):
        shown = view(flows, "tool_request", f"{intent.pk}:{number}")
        assert shown["inputs"]["payload"] == step["body"]
        assert shown["inputs"]["payload_hash"] == digest(step["body"])
        assert shown["tool"]["idempotency_key"] == step["key"]
        assert shown["hashes"]["request_hash"] == Proposal.objects.get(flow=flows.accepted).digest
    newest = view(flows, "tool_request", flows.accepted)
    assert newest == view(flows, "tool_request", intent.pk) == view(flows, "tool_request", f"{intent.pk}:3")
    assert newest["context"]["budgets"]["tokens_remaining"] == 1000


def test_the_request_to_undo_is_the_compensation(flows: Flows) -> None:
    intent = Intent.objects.get(flow=flows.undone)
    reserve = canonical.decode(bytes(intent.requests))["steps"][0]
    shown = view(flows, "tool_request", flows.undone)
    assert shown["tool"]["idempotency_key"] == reserve["compensation"]["key"]
    assert shown["inputs"]["payload"] == reserve["compensation"]["body"]


def test_the_request_of_a_proposal_is_its_parameters(flows: Flows) -> None:
    proposal = Proposal.objects.get(flow=flows.accepted)
    shown = view(flows, "tool_request", proposal.pk)
    assert shown["inputs"]["payload"] == canonical.decode(bytes(proposal.body))["params"]
    assert (shown["tool"]["idempotency_key"], shown["approval"]["required"]) == (None, False)
    bundle = entries(flows.accepted, "verdict:given")[0]["payload"]["policy_bundle_hash"]
    assert shown["bundles"]["policy_bundle_hash"] == bundle
    assert shown["agent"] == {
        "agent_instance_id": f"agent:trader#{flows.accepted}",
        "agent_name": "trader",
        "agent_version": "1.0.0",
    }


def test_a_call_that_a_person_let_through_names_the_approval(flows: Flows) -> None:
    [decided] = entries(flows.overridden, "escalation:decided")
    shown = view(flows, "tool_request", flows.overridden)
    wanted = f"{decided['payload']['escalation_id']}:1"
    assert shown["approval"] == {"required": True, "approval_id": wanted}
    assert view(flows, "hitl_decision", wanted)["approval_id"] == wanted
    assert view(flows, "tool_request", flows.asked)["approval"] == {"required": True, "approval_id": None}


def test_the_answer_of_a_call_is_the_receipt(flows: Flows) -> None:
    intent, answered = Intent.objects.get(flow=flows.undone), entries(flows.undone, "attempt:finished")
    begun = entries(flows.undone, "attempt:started")
    for number, status in enumerate(("success", "success", "failure", "success", "success"), start=1):
        shown, said = view(flows, "tool_response", f"{intent.pk}:{number}"), answered[number - 1]
        assert (shown["tool"]["status"], shown["time"]) == (status, said["at"])
        assert shown["hashes"]["response_hash"] == said["payload"]["receipt_commitment"]
        assert shown["evidence"]["ledger_event_id"] == f"{flows.undone}:{said['seq']}"
        index = int(shown["evidence"]["replay_trace_step_id"].rpartition(":")[2])
        step = view(flows, "replay_trace", flows.undone)["steps"][index - 1]
        assert step["ledger_event_id"] == shown["evidence"]["ledger_event_id"]
        assert step["response_hash"] == shown["hashes"]["response_hash"]
    assert len(begun) == Attempt.objects.filter(intent=intent).count() == 5
    assert view(flows, "tool_response", flows.accepted)["outputs"]["payload_redacted"]["path"] == "/ship"


@pytest.mark.parametrize(
    ("flow", "decision", "codes"),
    [
        ("accepted", "allow", None),
        ("asked", "require_approval", ["RISK_LIMIT_EXCEEDED"]),
        ("rejected", "deny", ["INVALID_SCHEMA"]),
    ],
)
def test_a_verdict_is_named_as_a_policy_decision(
    flows: Flows, flow: str, decision: str, codes: list[str] | None
) -> None:
    dfid = getattr(flows, flow)
    shown, [given] = view(flows, "policy_decision", dfid), entries(dfid, "verdict:given")
    [asked] = entries(dfid, "proposal:submitted")
    assert shown["result"]["decision"] == decision
    # What allows says which checks held.
    said = [each["code"] for each in given["payload"]["reasons"]] or given["payload"]["allowed_by"]
    assert shown["result"]["reason_codes"] == said
    assert set(said) == set(codes) if codes is not None else {"AUTHORITY_OK", "LIMITS_OK"} <= set(said)
    assert (shown["decision_id"], shown["time"]) == (given["payload"]["proposal_id"], given["at"])
    assert shown["inputs"] == {
        "request_hash": asked["payload"]["proposal_digest"],
        "context_hash": asked["payload"]["context_ref"],
    }
    assert shown["subject"]["subject_id"] == asked["payload"]["author"]


@pytest.mark.parametrize(
    ("flow", "action", "changed"),
    [
        ("overridden", "approve", {}),
        ("modified", "approve", {"notional_cents": 94750}),
        ("aborted", "deny", {}),
        ("asked", "request_more_info", {}),
        ("stated", "deny", {}),
    ],
)
def test_what_a_person_did_is_named_as_an_approval_is(
    flows: Flows, flow: str, action: str, changed: dict[str, Any]
) -> None:
    dfid = getattr(flows, flow)
    kind = "information:requested" if flow == "asked" else "escalation:decided"
    shown, decided = view(flows, "hitl_decision", dfid), entries(dfid, kind)[-1]
    assert shown["decision"]["action"] == action
    assert shown["decision"]["modifications"] == changed
    assert shown["decision"]["approver_id"] == decided["actor"]
    assert shown["time"] == decided["at"]
    assert shown["evidence"]["signature"] == decided["payload"]["signature"]
    assert shown["evidence"]["evidence_snapshot_hash"] == decided["payload"]["evidence_hash"]
    assert shown["context"]["ledger_head_ref"] == f"{dfid}:{decided['seq'] - 1}"
    agents = entries(dfid, "proposal:submitted")[0]["payload"]
    assert shown["request"]["request_hash"] == agents["proposal_digest"]
    assert shown["context"]["policy_decision_id"] == agents["proposal_id"]
    words = "Which signals?" if flow == "asked" else factories.JUSTIFICATION
    assert shown["decision"]["justification"] == words


def test_an_escalation_s_question_and_decision_are_found_by_their_numbers(flows: Flows) -> None:
    [decided] = entries(flows.aborted, "escalation:decided")
    escalation = decided["payload"]["escalation_id"]
    assert view(flows, "hitl_decision", f"{escalation}:q1")["decision"]["action"] == "request_more_info"
    assert view(flows, "hitl_decision", f"{escalation}:1") == view(flows, "hitl_decision", escalation)
    heard(flows, "hitl_decision", f"{escalation}:2").problem(404, "NOT_FOUND")


def test_the_replay_trace_has_every_step_at_the_boundary(flows: Flows) -> None:
    shown = view(flows, "replay_trace", flows.accepted)
    steps_of = [each["step_type"] for each in shown["steps"]]
    assert steps_of == ["retrieve_context", *["tool_call"] * 3, "final_output"]
    assert [each["step_index"] for each in shown["steps"]] == [1, 2, 3, 4, 5]
    [ended], [asked] = (entries(flows.accepted, kind) for kind in ("outcome:recorded", "proposal:submitted"))
    assert shown["steps"][-1]["output_hash"] == ended["payload"]["outcome_digest"]
    assert shown["steps"][1]["request_hash"] == asked["payload"]["proposal_digest"]
    assert shown["steps"][0]["provenance_refs"] == ["market.state@1", "price.ABC@1"]
    assert shown["trace_id"] == flows.accepted.hex
    assert shown["model"] == {
        **dict.fromkeys(("model_id", "model_version", "temperature", "seed", "decoding")),
        "claims": [],
    }
