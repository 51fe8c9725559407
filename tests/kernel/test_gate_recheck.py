"""The second look, inside the worker's claim: what may have changed since the verdict."""

from typing import Any

import pytest

from runtime.contracts.states import AgentStatus
from runtime.contracts.verdict import Finding, FindingOutcome
from runtime.kernel.gate import recheck
from runtime.kernel.gate.gate_input import GateVersion, PolicyBundle
from runtime.kernel.gate.pipeline import Judgement
from runtime.kernel.gate.recheck import Withdrawn
from tests.support import gate_cases


def looked(
    *, now_ms: int = gate_cases.NOW_MS, world: dict[str, Any] | None = None, **fields: Any
) -> list[str]:
    """The codes of a second look on a case, in a world that has moved by `world`."""
    evidence = fields.pop("evidence", None)
    asked = gate_cases.case(**fields)
    stored, _ = gate_cases.judgement(asked)
    found = recheck.recheck(
        Judgement.from_bytes(stored),
        asked.rules,
        world={**gate_cases.WORLD, **(world or {})},
        evidence=evidence,
        now_ms=now_ms,
    )
    return gate_cases.codes(found)


def test_nothing_has_changed() -> None:
    assert looked() == []


def test_a_price_within_its_bounds_is_no_reason() -> None:
    assert looked(world={"price.AAPL": 18_951}) == []


def test_a_price_past_its_bounds_is_stale() -> None:
    assert looked(world={"price.AAPL": 20_000}) == ["STALE_CONTEXT"]


@pytest.mark.parametrize(("late_ms", "codes"), [(0, []), (1, ["EXPIRED"])])
def test_the_window_is_asked_again(late_ms: int, codes: list[str]) -> None:
    assert looked(now_ms=gate_cases.NOW_MS + gate_cases.WINDOW_MS + late_ms) == codes


def test_the_agents_own_bound_is_asked_again() -> None:
    asked = gate_cases.proposal(execution_constraints={**gate_cases.CONSTRAINTS, "max_price_cents": 18_950})
    assert looked(proposal=asked) == []
    assert looked(proposal=asked, world={"price.AAPL": 18_951}) == ["CONSTRAINT_VIOLATED"]


def test_a_persons_condition_is_an_obligation() -> None:
    asked = gate_cases.proposal(conditions=("context.facts.price.AAPL <= 18960",), by_person=True)
    assert looked(proposal=asked) == []
    assert looked(proposal=asked, world={"price.AAPL": 18_961}) == ["CONDITION_FAILED"]


def test_everything_that_no_longer_holds_is_said_at_once() -> None:
    asked = gate_cases.proposal(
        execution_constraints={**gate_cases.CONSTRAINTS, "max_price_cents": 18_950},
        conditions=("context.facts.market.state == 'OPEN'",),
    )
    world = {"price.AAPL": 30_000, "market.state": "CLOSED"}
    assert looked(proposal=asked, world=world, now_ms=gate_cases.NOW_MS * 2) == [
        "EXPIRED",
        "CONSTRAINT_VIOLATED",
        "CONDITION_FAILED",
        "STALE_CONTEXT",
        "STALE_CONTEXT",
    ]


def test_a_verdict_without_a_snapshot_has_nothing_to_compare() -> None:
    assert looked(facts=gate_cases.facts(snapshot=None), world={"price.AAPL": 1}) == []


def asked_again(
    in_force: PolicyBundle,
    *,
    lifted: tuple[Finding, ...] = (),
    known: dict[str, Any] | None = None,
    **fields: Any,
) -> Withdrawn:
    """What the rules in force withdraw of an accepted case."""
    stored, _ = gate_cases.judgement(gate_cases.case(**fields))
    return recheck.withdrawn(
        Judgement.from_bytes(stored),
        in_force,
        known=gate_cases.facts(**(known or {})),
        lifted=lifted,
        now_ms=gate_cases.NOW_MS,
    )


def limited(cents: int, **fields: Any) -> PolicyBundle:
    """Rules in force with another limit."""
    return gate_cases.rules(manifest=gate_cases.manifest(limits={"max_notional_cents": cents}, **fields))


def seen(value: str | None = "94750", limit: str | None = "100", **fields: Any) -> Finding:
    """The finding on a tightened limit, as a person saw it."""
    return Finding(
        **{
            "check": "limits",
            "outcome": FindingOutcome.REFER,
            "code": "RISK_LIMIT_EXCEEDED",
            "subject": "max_notional",
            "proposed_value": value,
            "limit": limit,
            **fields,
        }
    )


def test_other_rules_that_grant_as_much_withdraw_nothing() -> None:
    assert asked_again(limited(94_750, version="1.5.0")).findings == ()


def test_a_tightened_limit_is_for_a_person() -> None:
    found = asked_again(limited(100))
    assert (found.code, found.is_final) == ("RISK_LIMIT_EXCEEDED", False)
    assert (found.findings[0].proposed_value, found.findings[0].limit) == ("94750", "100")


def test_a_hard_limit_is_final() -> None:
    hard = {"id": "most", "value": "params.quantity", "limit": "1", "on_exceed": "REJECT"}
    soft = {"id": "soft", "value": "params.quantity", "limit": "2"}
    found = asked_again(gate_cases.rules(kind=gate_cases.kind(limits=[soft, hard])))
    assert gate_cases.codes(found.findings) == ["RISK_LIMIT_EXCEEDED", "RISK_LIMIT_EXCEEDED"]
    assert found.is_final


def test_the_worst_finding_names_the_reason() -> None:
    found = Withdrawn(
        findings=(seen(), seen(outcome=FindingOutcome.FAIL, code="UNAUTHORIZED")), rules=limited(100)
    )
    assert (found.code, found.is_final) == ("UNAUTHORIZED", True)


@pytest.mark.parametrize(
    ("in_force", "code"),
    [
        (gate_cases.rules(kind=None), "CAPABILITY_NOT_FOUND"),
        (gate_cases.rules(manifest=None), "UNAUTHORIZED"),
        (gate_cases.rules(manifest=gate_cases.manifest(policy_kinds=["OTHER"])), "UNAUTHORIZED"),
        (gate_cases.rules(manifest=gate_cases.manifest(scope={"symbol": ["MSFT"]})), "UNAUTHORIZED"),
    ],
)
def test_a_right_that_is_gone_is_final(in_force: PolicyBundle, code: str) -> None:
    found = asked_again(in_force)
    assert (gate_cases.codes(found.findings), found.is_final) == ([code], True)


def test_a_new_version_of_the_kind_asks_for_no_other_parameters() -> None:
    needs_more = {"type": "object", "required": ["desk"]}
    changed = gate_cases.kind(version="2.0.0", params_schema=needs_more, limits=[])
    assert asked_again(gate_cases.rules(kind=changed)).findings == ()


def test_neither_the_status_nor_an_ended_session_is_a_right() -> None:
    known = {"status": AgentStatus.PASSIVE, "session_valid": False}
    assert asked_again(limited(94_750), known=known).findings == ()


def test_facts_count_as_the_gate_saw_them_and_others_as_they_are() -> None:
    priced = [{"id": "most", "value": "context.facts.price.AAPL", "limit": "context.facts.cap.price"}]
    in_force = gate_cases.rules(kind=gate_cases.kind(limits=priced))
    moved = {**gate_cases.WORLD, "price.AAPL": 99_999, "cap.price": 18_950}
    assert asked_again(in_force, known={"world": moved}).findings == ()


@pytest.mark.parametrize(("then", "now"), [({"accepted_1h": 1}, None), (None, {"accepted_1h": 1})])
def test_counts_are_those_of_then_where_they_were_kept(then: Any, now: Any) -> None:
    counted = [{"id": "most", "value": "history.accepted_1h", "limit": "1"}]
    in_force = gate_cases.rules(kind=gate_cases.kind(limits=counted))
    found = asked_again(in_force, facts=gate_cases.facts(history=then), known={"history": now})
    assert found.findings == ()


@pytest.mark.parametrize(
    "lifted", [seen(), seen(outcome=FindingOutcome.LIFTED), seen(value="200000"), seen(limit="99")]
)
def test_what_a_person_saw_stays_lifted(lifted: Finding) -> None:
    assert asked_again(limited(100), lifted=(lifted,)).findings == ()


@pytest.mark.parametrize(
    "lifted",
    [
        seen(limit="101"),
        seen(value="94749"),
        seen(value=None),
        seen(limit=None),
        seen(subject="max_orders"),
        seen(check="rules"),
        seen(code="LOW_CONFIDENCE"),
    ],
)
def test_what_a_person_did_not_see_is_asked(lifted: Finding) -> None:
    assert gate_cases.codes(asked_again(limited(100), lifted=(lifted,)).findings) == ["RISK_LIMIT_EXCEEDED"]


def test_a_refusal_is_never_lifted() -> None:
    hard = [{"id": "max_notional", "value": "params.quantity", "limit": "1", "on_exceed": "REJECT"}]
    in_force = gate_cases.rules(kind=gate_cases.kind(limits=hard))
    assert asked_again(in_force, lifted=(seen(value="5", limit="1"),)).is_final


LINE = {"id": "L_CHEAP", "forbid": "context.facts.price.AAPL < 18900"}


def with_spec(**fields: Any) -> dict[str, Any]:
    return {"rules": gate_cases.rules(kind=gate_cases.kind(depends_on=[], constraints=[], **fields))}


def test_a_red_line_is_asked_of_the_world_of_now() -> None:
    drawn = with_spec(red_lines=[LINE])
    assert looked(**drawn) == []
    assert looked(**drawn, world={"price.AAPL": 18_899}) == ["RED_LINE_CROSSED"]


def test_required_evidence_is_asked_as_it_is_now() -> None:
    needed = with_spec(required_evidence=[{"step": "self_check", "max_age_s": 5}])
    came = {"step:self_check": gate_cases.NOW_MS}
    assert looked(**needed, evidence=came) == []
    assert looked(**needed, evidence=came, now_ms=gate_cases.NOW_MS + 5_001) == ["INVALID_EVIDENCE"]
    assert looked(**needed) == ["INVALID_EVIDENCE"]


def test_a_gate_that_asked_for_neither_asks_for_neither_later() -> None:
    asked = with_spec(red_lines=[LINE], required_evidence=[{"step": "self_check"}])
    assert looked(**asked, gate=GateVersion.V1_1, world={"price.AAPL": 1}) == []


def test_a_red_line_that_comes_into_force_holds_what_was_accepted() -> None:
    asked = gate_cases.case()
    stored, _ = gate_cases.judgement(asked)
    judgement = Judgement.from_bytes(stored)
    drawn = gate_cases.rules(kind=gate_cases.kind(limits=[], red_lines=[{"id": "L", "forbid": "true"}]))
    found = recheck.withdrawn(judgement, drawn, known=judgement.facts, lifted=(), now_ms=gate_cases.NOW_MS)
    assert (found.code, found.is_final) == ("RED_LINE_CROSSED", True)
