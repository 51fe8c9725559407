"""What the recommender makes of options, objectives and a rule output: adopt, refine, abstain or deny."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts.decision import (
    MAX_OBJECTIVES,
    ActionFacts,
    DecisionInput,
    DecisionPackage,
    Method,
    Objective,
    Option,
    OptionAction,
    RuleOutputFacts,
)
from runtime.contracts.policy_kind import RiskTier
from runtime.contracts.ruleset import ProposedAction, RulesetDocument
from runtime.kernel import recommender
from runtime.kernel.recommender import Scored
from tests.support import gate_cases, ruleset_cases
from tests.support.ruleset_cases import document, rule

KNOWN = ActionFacts(
    risk_tier=RiskTier.T1,
    threshold=0.6,
    needs_person=False,
    preconditions=("open",),
    expected_effects=("It goes",),
    dependencies=("price",),
    required_capabilities=("go",),
    safety_assertions=({"invariant_id": "limit", "parameters": {"most": 5}},),
    policy_requirements=({"type": "check", "detail": "limits"},),
    sla_s=600,
)
ANY = ActionFacts(risk_tier=RiskTier.T3, threshold=0.9, needs_person=True)


def option(name: str, *, action: Any = "GO", params: Any = None, sure: Any = 0.9, **by: Any) -> Option:
    """An option with a utility for each objective of `by`."""
    done = OptionAction(name=action, parameters=params or {})
    return Option(id=name, action=done, utilities=by, confidence=sure)


def objective(name: str, weight: float = 1, at_least: float | None = None) -> Objective:
    """What options are weighed by."""
    return Objective(id=name, weight=weight, at_least=at_least)


def said(ruleset: RulesetDocument, **features: Any) -> RuleOutputFacts:
    """What a ruleset says of these features, as the recommender is given it."""
    result = ruleset_cases.ask(ruleset, **features)
    return RuleOutputFacts(rule_output_id="out", ruleset_version=ruleset.version, result=result)


def recommend(*options: Option, objectives: Any = (), **fields: Any) -> DecisionPackage:
    """The package on these options; GO is an action that is known, every other one is not."""
    asked = DecisionInput(
        **{
            "decision_id": "dec",
            "dfid": "flow",
            "at_ms": gate_cases.NOW_MS,
            "objectives": tuple(objectives),
            "options": options,
            "rule_output": None,
            "actions": {"GO": KNOWN, "": ANY},
            "unfit": {},
            "contact": "desk",
            "context_id": None,
            "world_version_id": None,
            "time_left_s": None,
            "cost_left_usd": None,
            "salt": "0" * 32,
            **fields,
        }
    )
    found = recommender.recommend(asked)
    again = DecisionInput.from_bytes(asked.to_bytes())
    assert recommender.recommend(again).to_bytes() == found.to_bytes()
    assert DecisionPackage.from_bytes(found.to_bytes()).to_bytes() == found.to_bytes()
    return found


def summary(found: DecisionPackage) -> tuple[str, str, str | None]:
    """The method, the type of the decision, and the action that was selected."""
    selected = found.selected_action
    return found.method, found.decision_type, None if selected is None else selected.name


# All features have values, so that only what a test leaves out is missing.
FULL: dict[str, Any] = {"score": 1, "rate": 1, "region": "", "member": True}


def test_without_options_and_rules_a_person_is_asked() -> None:
    found = recommend()
    assert summary(found) == ("abstain", "route", None)
    assert (found.human_review_required, found.confidence_score) == (True, 0.0)
    assert found.confidence_interpretation.notes == "There are neither options nor a rule output."
    assert (found.risk_tier, found.abstain_threshold) == ("T3", 0.9)
    # Before all else a person approves, and the reason is the same.
    (first,) = found.policy_requirements
    assert (first.type, first.detail) == ("human_approval", found.confidence_interpretation.notes)


def test_the_greatest_sum_of_weight_times_utility_is_selected() -> None:
    found = recommend(
        option("a", speed=3, price=1),
        option("b", speed=1, price=2.5),
        option("c", action="WAIT", speed=2, price=1.75),
        objectives=[objective("speed"), objective("price", 2)],
    )
    assert summary(found) == ("refine", "choose", "GO")
    assert found.expected_utility == 6
    assert [(one.id, one.expected_utility) for one in found.alternatives] == [("c", 5.5), ("a", 5)]
    # Compared with b: c is faster and dearer.
    assert [(one.objective, one.difference) for one in found.alternatives[0].trade_offs] == [
        ("speed", 1),
        ("price", -0.75),
    ]
    assert not found.human_review_required
    assert found.confidence_interpretation.band == "at_or_above_threshold"
    assert "not calibrated" in found.confidence_interpretation.notes
    assert [one.type for one in found.policy_requirements] == ["check"]


def test_equal_sums_are_told_apart_by_id_and_name_no_trade_off() -> None:
    found = recommend(option("b", x=0.3), option("a", x=0.3), objectives=[objective("x")])
    assert (found.alternatives[0].id, found.alternatives[0].trade_offs) == ("b", ())


def test_what_is_known_of_the_selected_action_is_in_the_package() -> None:
    found = recommend(
        option("a", params={"n": 1}, x=1),
        objectives=[objective("x")],
        context_id="context",
        world_version_id="world",
        time_left_s=90,
        cost_left_usd="0.25",
    )
    selected = found.selected_action
    assert selected is not None
    assert (selected.parameters, selected.preconditions, selected.expected_effects) == (
        {"n": 1},
        ("open",),
        ("It goes",),
    )
    assert (selected.dependencies, selected.required_capabilities) == (("price",), ("go",))
    assert [(one.invariant_id, one.parameters) for one in found.safety_assertions] == [("limit", {"most": 5})]
    assert (found.escalation_route.contact, found.escalation_route.SLA) == ("desk", "PT600S")
    assert (found.budgets.time, found.budgets.cost) == ("PT90S", "0.25")
    assert (found.references.context_id, found.references.world_version_id) == ("context", "world")
    assert (found.references.rule_output_id, found.references.Ruleset_version) == (None, None)
    assert (found.decision_id, found.task_id, found.timestamp[:19]) == ("dec", "flow", "2026-01-02T03:04:05")
    assert found.reasoning_trace_ref == "/api/v1/audit/contracts/reasoning_trace/flow"
    assert found.salt not in (None, "0" * 32)
    assert "no capability for consultations" in found.consultation_note


@pytest.mark.parametrize(
    ("one", "unfit", "reason"),
    [
        (option("b"), {}, "It has no utility for x."),
        (option("b", x=0.9), {}, "Its utility for x is below 1."),
        (option("b", x=9), {"b": "Not granted."}, "Not granted."),
        (option("b", x=1), {}, "a is at least as good for every objective, and better for one."),
    ],
)
def test_what_is_ruled_out_is_dropped_with_the_reason(
    one: Option, unfit: dict[str, str], reason: str
) -> None:
    found = recommend(option("a", x=2), one, objectives=[objective("x", 1, 1)], unfit=unfit)
    assert [(each.id, each.reason) for each in found.dropped] == [("b", reason)]
    assert (found.alternatives, found.method) == ((), Method.REFINE)


def test_an_objective_of_no_weight_bounds_and_dominates_nothing() -> None:
    found = recommend(
        option("a", x=1, y=0), option("b", x=2, y=0), objectives=[objective("x", 0), objective("y")]
    )
    assert found.dropped == ()
    assert [one.id for one in found.alternatives] == ["b"]


def test_where_no_option_is_left_a_person_is_asked() -> None:
    found = recommend(option("a", x=0), objectives=[objective("x", 1, 1)])
    assert summary(found) == ("abstain", "route", None)
    assert found.confidence_interpretation.notes == "No option is left."
    assert found.expected_utility is None


@pytest.mark.parametrize(
    ("one", "notes"),
    [
        (option("a", sure=0.6), ""),
        (option("a", sure=0.59), "The confidence is below the threshold 0.6 of the risk tier T1."),
        (option("a", sure=None), "The confidence is below the threshold 0.6 of the risk tier T1."),
        (option("a", action="OTHER", sure=0.9), "Risk tier T3 always needs a person."),
        (
            option("a", action="OTHER", sure=0.8),
            "The confidence is below the threshold 0.9 of the risk tier T3.",
        ),
    ],
)
def test_below_the_threshold_of_the_tier_a_person_is_asked(one: Option, notes: str) -> None:
    found = recommend(one)
    assert found.method is (Method.ABSTAIN if notes else Method.REFINE)
    # What would have been selected is shown all the same.
    assert found.selected_action is not None
    assert notes in found.confidence_interpretation.notes
    is_below = found.confidence_score < found.abstain_threshold
    assert (found.confidence_interpretation.band == "below_threshold") is is_below


def test_what_rules_decide_with_high_confidence_is_adopted() -> None:
    found = recommend(
        rule_output=said(document(rules=[rule("P", "true", params={"n": 1}, certainty=0.9)]), **FULL)
    )
    assert summary(found) == ("adopt", "approve", "GO")
    assert (found.confidence_score, found.expected_utility) == (0.9, None)
    assert (found.references.rule_output_id, found.references.Ruleset_version) == ("out", "1.0.0")
    # Below the threshold of an action that nobody knows.
    other = recommend(rule_output=said(document(rules=[rule("P", "true", "OTHER", certainty=0.85)]), **FULL))
    assert summary(other) == ("abstain", "route", "OTHER")


def test_a_mandatory_rule_is_adopted_before_the_aspect_that_is_declared_first() -> None:
    rules = [rule("P", "true"), {**rule("Q", "true", params={"n": 2}, mandatory=True), "decides": "b"}]
    found = recommend(rule_output=said(document(rules=rules), **FULL))
    assert found.selected_action is not None
    assert found.selected_action.parameters == {"n": 2}
    assert [(one.id, one.trade_offs, one.expected_utility) for one in found.alternatives] == [("a", (), None)]


def test_several_actions_of_one_aspect_are_alternatives() -> None:
    rows = [ruleset_cases.row("A", "-"), ruleset_cases.row("B", "-", action="WAIT")]
    found = recommend(rule_output=said(document(ruleset_cases.table(*rows, hit="RULE ORDER")), **FULL))
    assert summary(found) == ("adopt", "approve", "GO")
    assert [(one.id, one.action.name) for one in found.alternatives] == [("a:1", "WAIT")]


@pytest.mark.parametrize(
    ("rules", "features", "notes", "selected"),
    [
        ([rule("P", "false")], FULL, "The rules gave NO_MATCH.", None),
        ([rule("P", "true", certainty=0.7)], FULL, "The rules gave LOW_CONFIDENCE_MATCH.", "GO"),
        ([rule("P", "true"), rule("Q", "true", "STOP")], FULL, "The rules gave LOW_CONFIDENCE_MATCH.", None),
        (
            [rule("P", "true")],
            {"rate": 1, "member": True},
            "Features are missing or too old: region, score.",
            "GO",
        ),
    ],
)
def test_what_rules_are_not_sure_of_is_for_a_person(
    rules: list[Any], features: dict[str, Any], notes: str, selected: str | None
) -> None:
    found = recommend(rule_output=said(document(rules=rules), **features))
    assert summary(found) == ("abstain", "route", selected)
    assert found.confidence_interpretation.notes == notes


GUARD = {"id": "G", "forbid": "true"}


@pytest.mark.parametrize(
    ("ruleset", "why"),
    [
        (document(rules=[rule("P", "true")], guardrails=[GUARD]), "A guardrail is triggered: G."),
        (document(rules=[rule("P", "true", "DENY", mandatory=True)]), "A mandatory rule says no: P."),
    ],
)
def test_rules_that_say_no_deny_every_option(ruleset: RulesetDocument, why: str) -> None:
    found = recommend(option("a", x=1), rule_output=said(ruleset, **FULL), objectives=[objective("x")])
    assert summary(found) == ("deny", "deny", None)
    assert [(one.id, one.reason) for one in found.dropped] == [("a", why)]
    assert found.human_review_required


def test_a_rule_that_does_not_count_denies_nothing() -> None:
    rules = [rule("P", "true", "DENY", mandatory=True), rule("Q", "true", priority=1)]
    overruled = said(document(rules=rules, strategy=["priority"]), **FULL)
    assert recommender.mandatory_matches(overruled.result) == []
    assert recommend(option("a"), rule_output=overruled).method is Method.REFINE
    # A rule that is not mandatory is advice.
    advice = said(document(rules=[rule("P", "true", "DENY")]), **FULL)
    assert recommend(option("a"), rule_output=advice).method is Method.REFINE


@pytest.mark.parametrize(
    ("params", "dropped"),
    [({"n": 1, "more": 2}, []), ({"n": 2}, ["a"]), ({}, ["a"]), ({"n": True}, ["a"])],
)
def test_options_of_a_mandatory_action_have_its_parameters(
    params: dict[str, Any], dropped: list[str]
) -> None:
    asked = said(document(rules=[rule("P", "true", params={"n": 1}, mandatory=True)]), **FULL)
    found = recommend(option("a", params=params), rule_output=asked)
    assert [one.id for one in found.dropped] == dropped
    assert [one.reason for one in found.dropped] == ["The mandatory rule P asks for other parameters."] * len(
        dropped
    )
    assert found.method is (Method.ABSTAIN if dropped else Method.REFINE)


def test_a_mandatory_rule_that_asks_for_another_action_asks_a_person() -> None:
    asked = said(document(rules=[rule("P", "true", "STOP", mandatory=True)]), **FULL)
    found = recommend(option("a"), rule_output=asked)
    assert summary(found) == ("abstain", "route", "GO")
    assert found.confidence_interpretation.notes == "A mandatory rule asks for another action: P."


def test_an_action_has_the_parameters_that_a_rule_names() -> None:
    done = OptionAction(name="GO", parameters={"n": 1, "more": None})
    assert recommender.has_params(done, ProposedAction(action="GO", params={"n": 1}))
    assert not recommender.has_params(done, ProposedAction(action="GO", params={"other": None}))


NUMBERS = st.one_of(
    st.integers(-(10**9), 10**9), st.floats(-1e9, 1e9), st.floats(-1e-15, 1e-15), st.integers(-2, 2)
)
WEIGHTS = st.one_of(st.integers(0, 10**5), st.floats(0, 1e5), st.integers(0, 2))
NAMES = ("x", "y", "z")
WEIGHED = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=6)


@given(utilities=WEIGHED, weights=st.tuples(WEIGHTS, WEIGHTS, WEIGHTS), data=st.data())
def test_the_selected_option_is_the_best_by_exact_fractions(
    utilities: list[tuple[float, ...]], weights: tuple[float, ...], data: st.DataObject
) -> None:
    objectives = [objective(name, weight) for name, weight in zip(NAMES, weights, strict=True)]
    options = [option(f"o{at}", **dict(zip(NAMES, each, strict=True))) for at, each in enumerate(utilities)]
    found = recommend(*options, objectives=objectives)
    totals = {
        f"o{at}": sum(Fraction(str(w)) * Fraction(str(u)) for w, u in zip(weights, each, strict=True))
        for at, each in enumerate(utilities)
    }
    ranked = sorted(totals, key=lambda name: (-totals[name], name))
    gone = {one.id for one in found.dropped}
    kept = [name for name in ranked if name not in gone]
    assert [one.id for one in found.alternatives] == kept[1:]
    assert kept[0] == ranked[0]
    assert found.expected_utility == float(totals[ranked[0]])
    # Nothing depends on the order in which options and objectives are given.
    turned = recommend(
        *data.draw(st.permutations(options)), objectives=data.draw(st.permutations(objectives))
    )
    assert turned.expected_utility == found.expected_utility
    assert [one.id for one in turned.alternatives] == kept[1:]
    assert {one.id for one in turned.dropped} == gone


def test_the_greatest_sum_that_there_can_be_is_written_and_read_back() -> None:
    names = [f"x{at}" for at in range(MAX_OBJECTIVES)]
    best = recommend(
        option("a", **dict.fromkeys(names, 10**9)), objectives=[objective(name, 10**5) for name in names]
    )
    assert best.expected_utility == MAX_OBJECTIVES * 10**14


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=3))
def test_domination_is_a_strict_order(values: list[tuple[int, int]]) -> None:
    scored = [
        Scored(
            id=f"o{at}",
            action=OptionAction(name="GO"),
            confidence=1,
            utilities={"x": Fraction(x), "y": Fraction(y)},
        )
        for at, (x, y) in enumerate(values)
    ]
    a, b, c = scored
    names = ("x", "y")
    assert not recommender.dominates(a, a, names)
    assert not recommender.dominates(a, a, ())
    if recommender.dominates(a, b, names):
        assert not recommender.dominates(b, a, names)
        assert recommender.dominates(a, c, names) or not recommender.dominates(b, c, names)


def test_an_action_that_nobody_knows_is_taken_at_its_strictest() -> None:
    assert recommender.known({"GO": KNOWN, "": ANY}, "GO") is KNOWN
    assert recommender.known({"GO": KNOWN, "": ANY}, "OTHER") is ANY
