"""The table of each contract, its schema and its page say the same; what may be absent is one fixed list."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from audit.contracts.absent import ABSENT
from audit.contracts.catalogue import CONTRACTS
from audit.contracts.decision_package import TIER_THRESHOLDS
from audit.contracts.fields import Contract, schema_of
from runtime.contracts.policy_kind import CONFIDENCE_THRESHOLDS

DOCS = Path(__file__).parents[3] / "docs" / "contracts"
NAMES = [
    "structured_context",
    "rule_engine_output",
    "decision_package",
    "execution_outcome_package",
    "reasoning_trace",
    "tool_request",
    "tool_response",
    "policy_decision",
    "ledger_event",
    "replay_trace",
    "agent_message",
    "hitl_decision",
]
# The members that the designs name at the top; after the bar, what is ours.
MEMBERS = {
    "structured_context": "context_id schema_version task_id created_at ttl provenance trust_level health "
    "actor_profile entitlements risk_tier jurisdiction problem_frame features environment safety_profile "
    "world_refs prior_decisions context_links",
    "rule_engine_output": "rule_output_id schema_version ruleset_version status matches guardrails_triggered "
    "conflicts residuals coverage confidence_rule trace_ref requested_retransformations | made_by ruleset "
    "decided",
    "decision_package": "decision_id schema_version task_id timestamp decision_type selected_action "
    "safety_assertions confidence_score confidence_interpretation risk_tier abstain_threshold "
    "human_review_required escalation_route alternatives reasoning_trace_ref references consultations "
    "budgets policy_requirements | made_by method expected_utility dropped consensus consultation_note",
    "execution_outcome_package": "outcome_id schema_version decision_id action_name start_time end_time "
    "status execution_state_transitions observed_effects deviations safety_validation_results "
    "error_diagnostics telemetry artifacts outcome_trace_ref world_version_id_before world_version_id_after "
    "next_actions_suggested reengagement_advice",
    "reasoning_trace": "trace_id decision_id schema_version structure signatures redaction_info "
    "content_address",
    "tool_request": "schema_version event_type time run_id trace_id span_id tenant_id environment agent "
    "identity tool inputs bundles hashes context approval",
    "tool_response": "schema_version event_type time run_id trace_id span_id tenant_id environment tool "
    "outputs hashes policy evidence",
    "policy_decision": "schema_version event_type time decision_id run_id trace_id tenant_id environment "
    "subject action inputs bundles result",
    "ledger_event": "schema_version event_type time ledger_event_id run_id tenant_id environment references "
    "hash_chain signatures immutability",
    "replay_trace": "schema_version trace_id run_id tenant_id environment agent model bundles steps",
    "agent_message": "schema_version event_type time run_id trace_id tenant_id protocol sender recipient "
    "payload hashes signature | environment",
    "hitl_decision": "schema_version approval_id time run_id trace_id tenant_id environment request context "
    "decision evidence",
}


def schema(name: str) -> Any:
    return json.loads((DOCS / f"{name}.schema.json").read_text())


def nodes(form: Any, place: str = "") -> Iterator[tuple[str, bool, bool]]:
    """Every member of a schema, at any depth: its path, whether it has no members, whether it may be null."""
    options = form.get("anyOf", [form])
    [bare] = [option for option in options if option != {"type": "null"}]
    items = bare.get("items", {})
    below = [*_members(bare, place), *_members(items, f"{place}[]")]
    for item in items.get("anyOf", ()):
        [sort] = item["properties"]["step_type"]["enum"]
        below += _members(item, f"{place}[{sort}]")
    if place:
        yield place, not below, len(options) > 1
    yield from below


def _members(form: Any, place: str) -> Iterator[tuple[str, bool, bool]]:
    for name, member in form.get("properties", {}).items():
        yield from nodes(member, f"{place}.{name}" if place else name)


@pytest.fixture(params=NAMES)
def contract(request: pytest.FixtureRequest) -> Contract:
    return CONTRACTS[request.param]


def test_the_names_are_the_published_ones() -> None:
    assert sorted(CONTRACTS) == sorted(NAMES)
    published = {path.name for path in DOCS.iterdir()}
    assert published == {f"{name}{ending}" for name in NAMES for ending in (".md", ".schema.json")}


def test_the_members_are_those_of_the_design(contract: Contract) -> None:
    named = {name for name in MEMBERS[contract.name].split() if name != "|"}
    assert set(schema(contract.name)["properties"]) == named


def test_every_property_of_the_schema_is_in_the_table_and_the_reverse(contract: Contract) -> None:
    published = schema(contract.name)
    jsonschema_rs.meta.validate(published)
    assert published == schema_of(contract)
    listed = [field.path for field in contract.fields]
    assert len(listed) == len(set(listed))
    assert {path for path, is_leaf, _ in nodes(published) if is_leaf} == set(listed)


def test_null_is_allowed_for_the_listed_fields_and_for_no_other(contract: Contract) -> None:
    nullable = {path for path, _, may_be_null in nodes(schema(contract.name)) if may_be_null}
    listed = {path for name, path in ABSENT if name == contract.name}
    assert {path.replace("[]", "") for path in nullable} == listed


def test_everything_absent_has_a_reason_on_its_page(contract: Contract) -> None:
    page = (DOCS / f"{contract.name}.md").read_text()
    for (name, _), reason in ABSENT.items():
        assert reason
        assert name != contract.name or reason in page
    for field in contract.fields:
        assert f"| `{field.path}` |" in page


def test_a_field_made_of_nothing_is_always_absent(contract: Contract) -> None:
    for field in contract.fields:
        if field.source.startswith("nothing"):
            assert contract.absent(field.path), field.path


def test_the_thresholds_are_those_of_the_gate() -> None:
    assert dict(TIER_THRESHOLDS) == {tier.value: share for tier, share in CONFIDENCE_THRESHOLDS.items()}
