"""Each check of the gate: what it finds, and in which words."""

import ast
import inspect
from types import ModuleType
from typing import Any

import pytest

from runtime.contracts.states import AgentStatus
from runtime.contracts.verdict import FindingOutcome
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.checks import capacity, instructions, what, who_and_when
from runtime.kernel.gate.findings import Check
from runtime.kernel.gate.gate_input import GateVersion
from tests.support import gate_cases

FAIL, REFER = FindingOutcome.FAIL, FindingOutcome.REFER


def found(check: Check, **fields: Any) -> list[tuple[str, FindingOutcome]]:
    """Codes and outcomes of one check on a case."""
    return [(item.code, item.outcome) for item in check(gate_cases.case(**fields))]


@pytest.mark.parametrize(
    "check",
    [
        who_and_when.check_authority,
        what.check_conditions,
        what.check_confidence,
        what.check_constraints,
        who_and_when.check_context_freshness,
        capacity.check_escalation_budget,
        what.check_limits,
        capacity.check_rate,
        who_and_when.check_retries,
        what.check_rules,
        what.check_schema,
        who_and_when.check_validity,
    ],
)
def test_the_plain_case_holds_everywhere(check: Check) -> None:
    assert found(check) == []


# schema


def test_an_unknown_kind_is_refused_by_its_name() -> None:
    asked = gate_cases.proposal(policy_kind="LAUNCH")
    (finding,) = what.check_schema(gate_cases.case(proposal=asked, rules=gate_cases.rules(kind=None)))
    assert (finding.code, finding.outcome) == ("CAPABILITY_NOT_FOUND", FAIL)
    assert finding.message == "No active policy kind is called LAUNCH."


@pytest.mark.parametrize(
    ("asked", "is_served"),
    [("1.2.0", True), ("1.0.0", True), ("1.2", True), ("1.3.0", False), ("2.0.0", False), ("latest", False)],
)
def test_a_version_is_served_by_the_same_major_that_is_not_older(asked: str, is_served: bool) -> None:
    expected = [] if is_served else [("VERSION_UNSUPPORTED", FAIL)]
    assert found(what.check_schema, proposal=gate_cases.proposal(policy_version=asked)) == expected


def test_params_and_constraints_are_named_with_their_pointer() -> None:
    asked = gate_cases.proposal(
        params={**gate_cases.PARAMS, "quantity": 0, "colour": "red"},
        execution_constraints={"validity_window_sec": "soon"},
    )
    messages = [item.message for item in what.check_schema(gate_cases.case(proposal=asked))]
    assert messages == [
        "/params/colour is not a known field",
        "/params/quantity must be at least 1",
        "/execution_constraints/validity_window_sec must be number",
    ]


UNDECLARED = {**gate_cases.CONSTRAINTS, "requires_market_state": "OPEN"}
OPEN_SCHEMAS: list[dict[str, Any]] = [
    {"type": "object"},
    {"type": "object", "additionalProperties": True},
    {"type": "object", "properties": {"max_slippage_bps": {}}, "patternProperties": {".*": {}}},
]


@pytest.mark.parametrize("json_schema", OPEN_SCHEMAS)
def test_a_bound_that_the_kind_does_not_declare_is_refused(json_schema: dict[str, Any]) -> None:
    """Whatever the schema lets pass: no expression reads it, so nothing would keep it."""
    kind = gate_cases.kind(constraints_schema=json_schema)
    asked = gate_cases.proposal(execution_constraints=UNDECLARED)
    answers = what.check_schema(gate_cases.case(proposal=asked, rules=gate_cases.rules(kind=kind)))
    assert "/execution_constraints/requires_market_state is not a known field" in {
        item.message for item in answers if item.code == "INVALID_SCHEMA"
    }


def test_a_field_that_is_refused_twice_is_told_once() -> None:
    (finding,) = what.check_schema(
        gate_cases.case(proposal=gate_cases.proposal(execution_constraints=UNDECLARED))
    )
    assert finding.message == "/execution_constraints/requires_market_state is not a known field"


def test_the_window_needs_no_declaration() -> None:
    kind = gate_cases.kind(constraints_schema={"type": "object"})
    asked = gate_cases.proposal(execution_constraints={"validity_window_sec": 30})
    assert found(what.check_schema, proposal=asked, rules=gate_cases.rules(kind=kind)) == []


def test_many_undeclared_bounds_are_told_up_to_a_bound() -> None:
    asked = gate_cases.proposal(execution_constraints={f"bound_{at:03}": 1 for at in range(500)})
    assert len(found(what.check_schema, proposal=asked)) == 20


def test_what_the_first_gate_judged_it_judges_as_it_did() -> None:
    kind = gate_cases.kind(constraints_schema={"type": "object"})
    asked = gate_cases.proposal(execution_constraints=UNDECLARED)
    assert (
        found(what.check_schema, proposal=asked, rules=gate_cases.rules(kind=kind), gate=GateVersion.V1_0)
        == []
    )


# authority


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (AgentStatus.PASSIVE, "AGENT_PASSIVE"),
        (AgentStatus.LOCKED, "AGENT_LOCKED"),
        (AgentStatus.SUSPENDED, "AGENT_SUSPENDED"),
        (AgentStatus.RETIRED, "AGENT_RETIRED"),
    ],
)
def test_every_status_but_active_bars_the_agent(status: AgentStatus, code: str) -> None:
    assert found(who_and_when.check_authority, facts=gate_cases.facts(status=status)) == [(code, FAIL)]


@pytest.mark.parametrize("status", list(AgentStatus))
def test_a_person_may_decide_for_a_passive_agent_and_for_no_other_barred_one(status: AgentStatus) -> None:
    asked = gate_cases.proposal(by_person=True, author="user:1")
    answers = found(who_and_when.check_authority, proposal=asked, facts=gate_cases.facts(status=status))
    assert bool(answers) is (status not in {AgentStatus.ACTIVE, AgentStatus.PASSIVE})


def test_a_session_that_has_ended_is_unauthorized() -> None:
    assert found(who_and_when.check_authority, facts=gate_cases.facts(session_valid=False)) == [
        ("UNAUTHORIZED", FAIL)
    ]


def test_an_agent_without_a_manifest_is_unauthorized() -> None:
    assert found(who_and_when.check_authority, rules=gate_cases.rules(manifest=None)) == [
        ("UNAUTHORIZED", FAIL)
    ]


def test_a_kind_that_is_not_granted_is_unauthorized() -> None:
    in_force = gate_cases.rules(manifest=gate_cases.manifest(policy_kinds=["TRANSFER_FUNDS"]))
    (finding,) = who_and_when.check_authority(gate_cases.case(rules=in_force))
    assert finding.message == "The active manifest does not grant ADJUST_POSITION."


@pytest.mark.parametrize(
    ("scope", "holds"),
    [
        ({"symbol": ["AAPL", "MSFT"]}, True),
        ({"symbol": ["MSFT"]}, False),
        ({"symbol": []}, False),
        ({"quantity": [5]}, True),
        ({"quantity": [True]}, False),
        ({"quantity": ["5"]}, False),
        ({"account": ["main"]}, True),  # no parameter of this kind
    ],
)
def test_the_scope_of_the_manifest_narrows_parameters(scope: dict[str, Any], holds: bool) -> None:
    in_force = gate_cases.rules(manifest=gate_cases.manifest(scope=scope))
    assert found(who_and_when.check_authority, rules=in_force) == ([] if holds else [("UNAUTHORIZED", FAIL)])


def test_true_is_not_one_and_zero_is_not_false_in_a_scope() -> None:
    in_force = gate_cases.rules(manifest=gate_cases.manifest(scope={"live": [False]}))
    asked = gate_cases.proposal(params={**gate_cases.PARAMS, "live": 0})
    assert found(who_and_when.check_authority, proposal=asked, rules=in_force) == [("UNAUTHORIZED", FAIL)]


def test_leaving_a_narrowed_parameter_out_does_not_widen_the_scope() -> None:
    in_force = gate_cases.rules(manifest=gate_cases.manifest(scope={"symbol": ["AAPL"]}))
    asked = gate_cases.proposal(params={"quantity": 5})
    assert found(who_and_when.check_authority, proposal=asked, rules=in_force) == [("UNAUTHORIZED", FAIL)]


# validity


@pytest.mark.parametrize(("late_ms", "is_expired"), [(-1, False), (0, False), (1, True)])
def test_the_window_ends_after_its_last_millisecond(late_ms: int, is_expired: bool) -> None:
    asked = gate_cases.proposal()
    now_ms = asked.valid_until_ms + late_ms
    assert found(who_and_when.check_validity, now_ms=now_ms) == ([("EXPIRED", FAIL)] if is_expired else [])


# retries


@pytest.mark.parametrize(
    ("used", "by_person", "is_exhausted"), [(2, False, False), (3, False, True), (3, True, False)]
)
def test_the_governor_counts_the_attempts_of_the_agent(
    used: int, by_person: bool, is_exhausted: bool
) -> None:
    answers = found(
        who_and_when.check_retries,
        proposal=gate_cases.proposal(by_person=by_person),
        facts=gate_cases.facts(attempts_used=used),
    )
    assert answers == ([("REASONING_EXHAUSTION", FAIL)] if is_exhausted else [])


# context_freshness


def test_a_context_that_was_not_issued_to_the_flow_is_unknown() -> None:
    assert found(who_and_when.check_context_freshness, facts=gate_cases.facts(snapshot=None)) == [
        ("CONTEXT_UNKNOWN", FAIL)
    ]


@pytest.mark.parametrize(("late_ms", "is_expired"), [(0, False), (1, True)])
def test_a_snapshot_has_a_time_to_live_of_its_own(late_ms: int, is_expired: bool) -> None:
    known = gate_cases.facts()
    assert known.snapshot is not None
    answers = found(
        who_and_when.check_context_freshness, facts=known, now_ms=known.snapshot.expires_at_ms + late_ms
    )
    assert answers == ([("CONTEXT_EXPIRED", FAIL)] if is_expired else [])


@pytest.mark.parametrize(
    ("world", "words"),
    [
        ({"price.AAPL": 19044}, ""),  # half a per cent, inside the bound of 50 basis points
        ({"price.AAPL": 19045}, "price.AAPL has moved since the context was made."),
        ({"price.AAPL": "18950"}, "price.AAPL has moved since the context was made."),
        ({"market.state": "CLOSED"}, "market.state has moved since the context was made."),
        ({"price.MSFT": 1}, ""),  # nothing that the proposal depends on
    ],
)
def test_a_fact_is_stale_once_it_has_moved_materially(world: dict[str, Any], words: str) -> None:
    known = gate_cases.facts(world={**gate_cases.WORLD, **world})
    messages = [item.message for item in who_and_when.check_context_freshness(gate_cases.case(facts=known))]
    assert messages == ([f"{words} Ask for a fresh context."] if words else [])


@pytest.mark.parametrize("side", ["world", "seen"])
def test_a_fact_that_is_missing_on_either_side_is_stale(side: str) -> None:
    known = gate_cases.facts(**{side: {"market.state": "OPEN"}})
    (finding,) = who_and_when.check_context_freshness(gate_cases.case(facts=known))
    assert finding.code == "STALE_CONTEXT"
    assert finding.message.startswith("price.AAPL is missing from the context or from the world.")


def test_a_fact_that_cannot_be_named_is_stale() -> None:
    asked = gate_cases.proposal(params={**gate_cases.PARAMS, "symbol": "../AAPL"})
    (finding,) = who_and_when.check_context_freshness(gate_cases.case(proposal=asked))
    assert finding.message.startswith("The fact price.${params.symbol} cannot be named")


def test_what_was_seen_and_what_is_are_shown_in_at_most_64_characters() -> None:
    known = gate_cases.facts(world={**gate_cases.WORLD, "market.state": "X" * 500})
    (finding,) = who_and_when.check_context_freshness(gate_cases.case(facts=known))
    assert finding.proposed_value == '"OPEN"'
    assert finding.limit is not None
    assert len(finding.limit) == 64


# constraints and conditions


@pytest.mark.parametrize(("bound", "holds"), [(18950, True), (18949, False)])
def test_the_agents_own_bound_is_asked_of_the_live_facts(bound: int, holds: bool) -> None:
    asked = gate_cases.proposal(execution_constraints={**gate_cases.CONSTRAINTS, "max_price_cents": bound})
    (*answers,) = what.check_constraints(gate_cases.case(proposal=asked))
    assert [item.message for item in answers] == (
        [] if holds else ["max_price: The price is above the proposal's own bound"]
    )
    assert all((item.code, item.outcome) == ("CONSTRAINT_VIOLATED", FAIL) for item in answers)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("context.facts.price.AAPL < 20000", ""),
        ("context.facts.price.AAPL < 10000", "does not hold"),
        ("context.facts.price.AAPL", "did not give true or false"),
        ("context.facts.price.GOOG < 1", "reads a field that is not there"),
        ("rm -rf /", "cannot be read"),
        ("1 / 0 == 1", "divides by zero"),
    ],
)
def test_a_condition_holds_only_when_it_is_exactly_true(condition: str, words: str) -> None:
    asked = gate_cases.proposal(conditions=(condition,))
    answers = list(what.check_conditions(gate_cases.case(proposal=asked)))
    assert len(answers) == bool(words)
    assert all(item.code == "CONDITION_FAILED" and item.outcome is FAIL for item in answers)
    assert all(item.subject == condition and words in item.message for item in answers)


# rate


@pytest.mark.parametrize(
    ("history", "by_person", "is_limited"),
    [
        ({"proposals_1m": 1}, False, False),
        ({"proposals_1m": 2}, False, True),
        ({"proposals_1m": 2}, True, False),
        (None, False, True),  # a limit that cannot be counted is used up
        ({}, False, True),
    ],
)
def test_a_rate_limit_counts_this_proposal_too(
    history: dict[str, int] | None, by_person: bool, is_limited: bool
) -> None:
    answers = found(
        capacity.check_rate,
        proposal=gate_cases.proposal(by_person=by_person),
        facts=gate_cases.facts(history=history),
        rules=gate_cases.rules(manifest=gate_cases.manifest(proposals_per_minute=2)),
    )
    assert answers == ([("RATE_LIMITED", FAIL)] if is_limited else [])


# limits and rules


def test_an_amount_above_the_limit_is_referred_with_both_numbers() -> None:
    asked = gate_cases.proposal(params={**gate_cases.PARAMS, "notional_cents": 100_001})
    (finding,) = what.check_limits(gate_cases.case(proposal=asked))
    assert (finding.code, finding.outcome, finding.subject) == ("RISK_LIMIT_EXCEEDED", REFER, "max_notional")
    assert (finding.proposed_value, finding.limit) == ("100001", "100000")
    assert finding.message == "max_notional: 100001 is above the limit of 100000"


def test_a_limit_rejects_where_the_kind_says_so() -> None:
    bound = {"id": "hard", "value": "params.quantity", "limit": "1", "on_exceed": "REJECT"}
    in_force = gate_cases.rules(kind=gate_cases.kind(limits=[bound]))
    assert found(what.check_limits, rules=in_force) == [("RISK_LIMIT_EXCEEDED", FAIL)]


def test_a_limit_that_the_manifest_lacks_is_a_fail() -> None:
    in_force = gate_cases.rules(manifest=gate_cases.manifest(limits={}))
    assert found(what.check_limits, rules=in_force) == [("RISK_LIMIT_EXCEEDED", FAIL)]


def test_a_broken_rule_has_its_own_id_as_code() -> None:
    known = gate_cases.facts(world={**gate_cases.WORLD, "market.state": "CLOSED"})
    asked = gate_cases.proposal(params={**gate_cases.PARAMS, "action": "SELL"})
    assert found(what.check_rules, facts=known, proposal=asked) == [
        ("R_MARKET_OPEN", FAIL),
        ("R_BUYS_ONLY", REFER),
    ]


def test_a_rule_that_errors_is_a_fail_whatever_it_would_lead_to() -> None:
    broken = {"id": "R_BROKEN", "require": "params.nothing", "on_fail": "ESCALATE"}
    in_force = gate_cases.rules(kind=gate_cases.kind(rules=[broken]))
    assert found(what.check_rules, rules=in_force) == [("R_BROKEN", FAIL)]


# confidence


@pytest.mark.parametrize(
    ("tier", "threshold", "given", "is_low"),
    [
        ("T0", None, None, False),
        ("T1", None, None, False),
        ("T2", None, None, True),
        ("T1", 0.5, None, True),
        ("T1", None, 0.69, True),
        ("T1", None, 0.7, False),
        ("T1", 0.8, 0.75, True),
        ("T2", 0.5, 0.79, True),
        ("T0", None, 0.0, True),
    ],
)
def test_the_stricter_of_two_thresholds_counts(
    tier: str, threshold: float | None, given: float | None, is_low: bool
) -> None:
    answers = found(
        what.check_confidence,
        proposal=gate_cases.proposal(confidence=given),
        rules=gate_cases.rules(
            kind=gate_cases.kind(risk_tier=tier),
            manifest=gate_cases.manifest(escalate_below_confidence=threshold),
        ),
    )
    assert answers == ([("LOW_CONFIDENCE", REFER)] if is_low else [])


def test_a_kind_may_waive_confidence() -> None:
    in_force = gate_cases.rules(kind=gate_cases.kind(risk_tier="T2", confidence_waiver=True))
    assert found(what.check_confidence, proposal=gate_cases.proposal(confidence=0.1), rules=in_force) == []


@pytest.mark.parametrize(("waived", "is_required"), [(False, True), (True, False)])
def test_the_highest_tier_always_needs_a_person_unless_waived(waived: bool, is_required: bool) -> None:
    in_force = gate_cases.rules(
        kind=gate_cases.kind(risk_tier="T3"), manifest=gate_cases.manifest(waive_tier3_review=waived)
    )
    answers = found(what.check_confidence, proposal=gate_cases.proposal(confidence=0.95), rules=in_force)
    assert answers == ([("REVIEW_REQUIRED", REFER)] if is_required else [])


def test_an_agent_may_ask_for_a_person() -> None:
    asked = gate_cases.proposal(human_review_required=True)
    assert found(what.check_confidence, proposal=asked) == [("REVIEW_REQUESTED", REFER)]


def test_confidence_is_not_asked_of_a_person() -> None:
    asked = gate_cases.proposal(by_person=True, confidence=None, human_review_required=True)
    in_force = gate_cases.rules(kind=gate_cases.kind(risk_tier="T3"))
    assert found(what.check_confidence, proposal=asked, rules=in_force) == []


# how checks are put together


def test_every_stage_asks_the_check_of_its_name() -> None:
    for stage in pipeline.STAGES:
        assert getattr(stage.check, "__name__", "") == f"check_{stage.name}"


@pytest.mark.parametrize("module", [what, who_and_when, capacity, instructions])
def test_no_check_asks_another(module: ModuleType) -> None:
    """Each is read, changed and explained alone; only the pipeline puts them in an order."""
    functions = [
        node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.FunctionDef)
    ]
    names = {node.name for node in functions if node.name.startswith("check_")}
    assert names
    for function in functions:
        read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        assert not read & names, function.name


# escalation_budget


@pytest.mark.parametrize(
    ("tokens", "by_person", "is_empty"), [(1, False, False), (0, False, True), (0, True, False)]
)
def test_an_empty_bucket_pays_for_no_person(tokens: int, by_person: bool, is_empty: bool) -> None:
    answers = found(
        capacity.check_escalation_budget,
        proposal=gate_cases.proposal(by_person=by_person),
        facts=gate_cases.facts(escalation_tokens=tokens),
    )
    assert answers == ([("ESCALATION_BUDGET_EXHAUSTED", FAIL)] if is_empty else [])


def test_a_count_that_is_one_too_many_is_shown_with_its_limit() -> None:
    in_force = gate_cases.rules(manifest=gate_cases.manifest(proposals_per_minute=2))
    (sent,) = capacity.check_rate(
        gate_cases.case(rules=in_force, facts=gate_cases.facts(history={"proposals_1m": 2}))
    )
    (used,) = who_and_when.check_retries(gate_cases.case(facts=gate_cases.facts(attempts_used=3)))
    (asked,) = capacity.check_escalation_budget(gate_cases.case(facts=gate_cases.facts(escalation_tokens=0)))
    assert (sent.proposed_value, sent.limit) == ("3", "2")
    assert (used.proposed_value, used.limit) == ("4", "3")
    assert (asked.proposed_value, asked.limit) == ("1", "0")


@pytest.mark.parametrize(("own", "declared", "is_old"), [(None, 9, True), (None, 10, False), (10, 9, False)])
def test_a_fact_is_as_new_as_the_ontology_says_where_the_kind_does_not(
    own: int | None, declared: int, is_old: bool
) -> None:
    need = {"fact": "price.${params.symbol}"} | ({} if own is None else {"max_age_s": own})
    name = f"fact:price.{gate_cases.PARAMS['symbol']}"
    facts = gate_cases.facts(evidence={name: gate_cases.NOW_MS - 10_000}, max_ages={name: declared})
    case = gate_cases.case(
        rules=gate_cases.rules(kind=gate_cases.kind(required_evidence=[need])), facts=facts
    )
    said = [found.message for found in what.check_evidence(case)]
    assert said == (["The fact price.${params.symbol} is older than 9 s."] if is_old else [])


def test_evidence_whose_fact_has_no_path_is_missing() -> None:
    kind = gate_cases.kind(required_evidence=[{"fact": "price.${params.symbol}"}])
    asked = {**gate_cases.PARAMS, "symbol": "A.B"}
    case = gate_cases.case(rules=gate_cases.rules(kind=kind), proposal=gate_cases.proposal(params=asked))
    (found,) = what.check_evidence(case)
    assert (found.code, found.message) == (
        "INVALID_EVIDENCE",
        "The fact price.${params.symbol} is missing.",
    )


@pytest.mark.parametrize("need", [{}, {"max_age_s": 5}, {"step": "self_check", "label": "crm"}])
def test_a_need_names_one_sort_of_evidence(need: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        gate_cases.kind(required_evidence=[need])
