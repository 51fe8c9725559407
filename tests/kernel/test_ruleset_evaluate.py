"""What a ruleset says of features: hit policies, conflicts, what is missing, and always the same bytes."""

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit import canonical
from runtime.contracts.ruleset import (
    MAX_TEXT_CHARS,
    Feature,
    FeatureType,
    Guardrail,
    MatchStatus,
    RuleInput,
    RulesetDocument,
)
from runtime.kernel.rulesets import evaluate, linter
from tests.support.ruleset_cases import FEATURES, ask, document, row, rule, table

AGED = {**FEATURES, "score": {"type": "integer", "max_age_s": 60}}


def decided(found: Any) -> list[tuple[str, Any]]:
    """The actions that were decided, over all aspects."""
    return [(one.action, one.params) for aspect in found.decided for one in aspect.actions]


@pytest.mark.parametrize(
    ("hit", "fields", "expected", "by"),
    [
        ("UNIQUE", {}, [], ()),
        ("ANY", {}, [], ()),
        ("FIRST", {}, [("STOP", {"n": 1})], ("C",)),
        ("PRIORITY", {"output_values": ["GO", "STOP"]}, [("GO", {"n": 2})], ("B",)),
        ("PRIORITY", {"output_values": ["STOP", "GO"]}, [("STOP", {"n": 1})], ("C",)),
        ("RULE ORDER", {}, [("STOP", {"n": 1}), ("GO", {"n": 2}), ("GO", {"n": 3})], ("C", "B", "A")),
        ("COLLECT", {}, [("GO", {"n": 3}), ("GO", {"n": 2}), ("STOP", {"n": 1})], ("A", "B", "C")),
    ],
)
def test_where_several_rules_match_the_hit_policy_decides(
    hit: str, fields: dict[str, Any], expected: list[Any], by: tuple[str, ...]
) -> None:
    rules = [
        row("C", "> 0", action="STOP", params={"n": 1}),
        row("B", "> 1", params={"n": 2}),
        row("A", "> 2", params={"n": 3}),
    ]
    found = ask(document(table(*rules, hit=hit, **fields)), score=3)
    assert decided(found) == expected
    assert tuple(name for aspect in found.decided for name in aspect.rule_ids) == by
    assert bool(found.conflicts) == (not expected)


@pytest.mark.parametrize("hit", ["UNIQUE", "ANY", "FIRST", "COLLECT", "RULE ORDER"])
def test_one_match_decides_by_every_policy_and_none_decides_nothing(hit: str) -> None:
    ruleset = document(table(row("A", "1", params={"n": 1}), row("B", "2"), hit=hit))
    assert decided(ask(ruleset, score=1)) == [("GO", {"n": 1})]
    nothing = ask(ruleset, score=3)
    assert (nothing.status, nothing.decided, nothing.residuals) == (MatchStatus.NONE, (), ("a",))
    assert (nothing.coverage, nothing.confidence_rule) == (0.0, 0.0)


def test_any_decides_where_all_say_the_same_by_bytes() -> None:
    same = document(table(row("B", "-", params={"n": 1}), row("A", "-", params={"n": 1.0}), hit="ANY"))
    assert ask(same, score=1).decided[0].rule_ids == ("A", "B")
    # Python holds True equal to 1; a reader of the bytes does not.
    other = document(table(row("A", "-", params={"n": True}), row("B", "-", params={"n": 1}), hit="ANY"))
    (conflict,) = ask(other, score=1).conflicts
    assert conflict.rule_ids == ("A", "B")
    assert "say different things" in conflict.rationale


@pytest.mark.parametrize(
    ("collect", "expected"),
    [("sum", 0.3), ("min", 0.1), ("max", 0.2), ("count", 2)],
)
def test_collect_makes_one_number_exactly(collect: str, expected: float) -> None:
    rules = [row("A", "-", params={"n": 0.1}), row("B", "-", params={"n": 0.2}), row("C", "9")]
    ruleset = document(table(*rules, hit="COLLECT", collect=collect, of="n"))
    assert decided(ask(ruleset, score=1)) == [("GO", {"n": expected})]


@pytest.mark.parametrize(
    ("second", "collect"),
    [
        (row("B", "-", params={"n": "two"}), "sum"),
        (row("B", "-", params={"n": True}), "min"),
        (row("B", "-"), "max"),
        (row("B", "-", params={"n": 2**53 - 1}), "sum"),
        (row("B", "-", action="STOP", params={"n": 1}), "sum"),
        (row("B", "-", action="STOP", params={"n": 1}), "count"),
    ],
)
def test_what_cannot_be_made_one_number_decides_nothing(second: dict[str, Any], collect: str) -> None:
    ruleset = document(table(row("A", "-", params={"n": 1}), second, hit="COLLECT", collect=collect, of="n"))
    found = ask(ruleset, score=1)
    assert (found.decided, found.matches) == ((), ())
    assert [conflict.rationale for conflict in found.conflicts] == [
        "What rules of the table t give cannot be made one number."
    ]


NUMBERS = st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6), st.floats(-1e-9, 1e-9))


@given(numbers=st.lists(NUMBERS, min_size=1, max_size=8), collect=st.sampled_from(["sum", "min", "max"]))
def test_a_collected_number_is_that_of_exact_fractions(numbers: list[float], collect: str) -> None:
    rules = [row(f"R{at}", "-", params={"n": number}) for at, number in enumerate(numbers)]
    exact = [Fraction(str(number)) for number in numbers]
    expected = {"sum": sum(exact, start=Fraction(0)), "min": min(exact), "max": max(exact)}[collect]
    found = ask(document(table(*rules, hit="COLLECT", collect=collect, of="n")), score=1)
    ((_, params),) = decided(found)
    assert params["n"] == float(expected)
    assert isinstance(params["n"], int) == (expected.denominator == 1)


def test_a_sum_loses_nothing_on_the_way() -> None:
    rules = [row(f"R{at}", "-", params={"n": each}) for at, each in enumerate([1e14, 1e-20, -1e14])]
    found = ask(document(table(*rules, hit="COLLECT", collect="sum", of="n")), score=1)
    assert decided(found) == [("GO", {"n": 1e-20})]


SHUFFLED = st.sampled_from(
    [("UNIQUE", None), ("ANY", None), ("COLLECT", None)]
    + [("COLLECT", how) for how in ("sum", "min", "max", "count")]
)
CELLS = st.sampled_from(["-", "1", "> 0", "< 2", "not(1)", "[0..1]", "? % 2 == 0"])
RULES = st.lists(
    st.tuples(CELLS, st.sampled_from([0, 1, 0.5]), st.sampled_from([0.5, 0.9, 1.0])), min_size=1, max_size=6
)


@settings(max_examples=200)
@given(rules=RULES, policy=SHUFFLED, score=st.integers(-1, 3), seed=st.integers(0, 99))
def test_the_order_of_rules_changes_nothing_where_order_has_no_meaning(
    rules: list[tuple[str, float, float]], policy: tuple[str, str | None], score: int, seed: int
) -> None:
    hit, collect = policy
    fields = {"hit": hit, **({"collect": collect, "of": "n"} if collect else {})}
    written = [
        row(f"R{at}", cell, params={"n": number}, certainty=certainty)
        for at, (cell, number, certainty) in enumerate(rules)
    ]
    other = random.Random(seed).sample(written, len(written))
    first, second = (ask(document(table(*each, **fields)), score=score) for each in (written, other))
    assert first.to_bytes() == second.to_bytes()


@given(
    score=st.integers(-2, 3) | st.none(),
    rate=st.sampled_from([0, 0.5, 1]) | st.none(),
    age=st.integers(59, 62),
    seed=st.integers(0, 99),
)
def test_the_same_input_gives_the_same_bytes(
    score: int | None, rate: float | None, age: int, seed: int
) -> None:
    rules = [rule("P", "features.rate > 0.2"), rule("Q", "features.score / features.rate > 1.0", "STOP")]
    guards = [{"id": "G", "forbid": "features.score < 0"}]
    one = table(row("A", "> 0", "-"), row("B", "? > 1", "1"), inputs=["score", "rate"])
    ruleset = document(one, rules=rules, guardrails=guards, features=AGED)
    given_ = {name: value for name, value in (("score", score), ("rate", rate)) if value is not None}
    turned = dict(random.Random(seed).sample(sorted(given_.items()), len(given_)))
    again = document(one, rules=rules, guardrails=guards, features=AGED)
    first = evaluate.evaluate(ruleset, given_, {"score": age}).to_bytes()
    assert evaluate.evaluate(again, turned, {"score": age}).to_bytes() == first


def test_a_document_says_the_same_as_its_stored_bytes() -> None:
    ruleset = RulesetDocument(
        ruleset="cases",
        version="1.0.0",
        features={name: Feature(type=FeatureType.STRING) for name in ("b", "a")},
        guardrails=(Guardrail(id="G", forbid="features.a == ''"),),
    )
    again = RulesetDocument.from_bytes(ruleset.to_bytes())
    assert ask(ruleset).to_bytes() == ask(again).to_bytes()


def test_a_table_without_one_of_its_inputs_decides_nothing() -> None:
    ruleset = document(table(row("A", "-", "-"), inputs=["score", "region"]))
    found = ask(ruleset, score=1)
    assert (found.decided, found.guardrails_triggered) == ((), ())
    gaps = [(gap.feature_gap, gap.suggested_scope) for gap in found.requested_retransformations]
    assert ("region", "Give the feature region.") in gaps


@pytest.mark.parametrize(("age", "is_known"), [(None, True), (60, True), (61, False)])
def test_a_feature_that_is_too_old_counts_as_missing(age: int | None, is_known: bool) -> None:
    ruleset = document(table(row("A", "-")), features=AGED)
    features = {"score": 1, "rate": 1, "region": "", "member": True}
    found = evaluate.evaluate(ruleset, features, None if age is None else {"score": age})
    assert bool(found.decided) is is_known
    assert ("score" in evaluate.current(ruleset, features, {} if age is None else {"score": age})) is is_known
    scopes = [gap.suggested_scope for gap in found.requested_retransformations]
    assert scopes == ([] if is_known else ["Read score again: it is older than 60 s."])


def test_a_cell_that_cannot_be_evaluated_is_a_guardrail_and_its_table_decides_nothing() -> None:
    found = ask(document(table(row("A", "1"), row("B", "? / 0 == 1"), hit="FIRST")), score=1)
    assert found.decided == ()
    ((name, severity, detail),) = [
        (guard.invariant_id, guard.severity, guard.detail) for guard in found.guardrails_triggered
    ]
    assert (name, severity) == ("B", "HIGH")
    assert detail == "The rule B could not be evaluated: the expression divides by zero."


@pytest.mark.parametrize(
    ("when", "decides", "fails"),
    [
        ("features.score > 0", True, False),
        ("features.score < 0", False, False),
        # What is not there is asked for elsewhere.
        ("features.region == 'north'", False, False),
        ("features.score / 0 == 1", False, True),
        ("features.score", False, True),
    ],
)
def test_a_rule_holds_where_it_is_exactly_true(when: str, decides: bool, fails: bool) -> None:
    found = ask(document(rules=[rule("P", when)]), score=1)
    assert (bool(found.decided), bool(found.guardrails_triggered)) == (decides, fails)


@pytest.mark.parametrize(
    ("forbid", "message", "detail"),
    [
        ("features.score < 0", None, None),
        ("features.score > 0", None, "G does not hold."),
        ("features.score > 0", "Too much", "Too much"),
        (
            "features.region == 'north'",
            "Too much",
            "G could not be evaluated: the expression reads a field that is not there.",
        ),
        ("features.score", None, "G could not be evaluated: the expression did not give true or false."),
    ],
)
def test_a_guardrail_must_be_exactly_false(forbid: str, message: str | None, detail: str | None) -> None:
    guard = {"id": "G", "forbid": forbid, **({"message": message} if message else {})}
    found = ask(document(guardrails=[{**guard, "severity": "CRITICAL"}]), score=1)
    details = [(one.detail, one.severity) for one in found.guardrails_triggered]
    assert details == ([(detail, "CRITICAL")] if detail else [])
    # With nothing to decide, all of it is.
    assert (found.coverage, found.status) == (1.0, MatchStatus.NONE)


CONTRADICTING = [
    rule("P", "features.score > 0", "GO", mandatory=True),
    rule("Q", "features.score > 0 && features.rate > 0.0 && features.member", "STOP", priority=3),
    rule("R", "features.score > 1", "GO", priority=3, certainty=0.5),
]


@pytest.mark.parametrize(
    ("strategy", "winners", "resolved_by", "hint"),
    [
        ([], (), "", "No declared strategy tells them apart: ask a person."),
        (["mandatory"], ("P",), "mandatory", "P counts by mandatory."),
        (["priority"], (), "", "No declared strategy tells them apart: ask a person."),
        (["specificity"], ("Q",), "specificity", "Q counts by specificity."),
        (["priority", "specificity"], ("Q",), "specificity", "Q counts by specificity."),
        (["priority", "mandatory"], (), "", "No declared strategy tells them apart: ask a person."),
    ],
)
def test_a_contradiction_is_resolved_by_the_first_strategy_that_tells(
    strategy: list[str], winners: tuple[str, ...], resolved_by: str, hint: str
) -> None:
    ruleset = document(rules=CONTRADICTING, strategy=strategy)
    found = ask(ruleset, score=2, rate=1, member=True, region="")
    (conflict,) = found.conflicts
    assert conflict.rule_ids == ("P", "Q", "R")
    assert (conflict.resolved_by, conflict.resolution_hint) == (resolved_by, hint)
    assert tuple(name for aspect in found.decided for name in aspect.rule_ids) == winners
    # Those that count come first, then by priority and by name.
    names = [match.rule_id for match in found.matches]
    assert names == [*winners, *(name for name in ("Q", "R", "P") if name not in winners)]
    assert found.status is (MatchStatus.HIGH if winners else MatchStatus.LOW)


def test_several_that_say_the_same_are_no_contradiction() -> None:
    ruleset = document(table(row("A", "-", certainty=0.9)), rules=[rule("P", "true", certainty=0.7)])
    found = ask(ruleset, score=1)
    assert found.conflicts == ()
    (aspect,) = found.decided
    assert (aspect.rule_ids, aspect.certainty) == (("A", "P"), 0.7)
    # The least certainty is below 0.8.
    assert (found.status, found.confidence_rule) == (MatchStatus.LOW, 0.7)


def test_a_match_has_the_version_of_its_rule_or_of_the_ruleset() -> None:
    one = table(row("A", "-", version="2.0.0", justification="Because"))
    first, second = ask(document(one, rules=[rule("P", "true")]), score=1).matches
    assert (first.rule_version, first.justification) == ("2.0.0", "Because")
    assert (second.rule_version, second.justification) == ("1.0.0", "")


def test_aspects_that_nothing_decided_are_residuals() -> None:
    ruleset = document(rules=[rule("P", "true"), {**rule("Q", "false"), "decides": "b"}], aspects=["b", "a"])
    found = ask(ruleset)
    assert (found.residuals, found.coverage) == (("b",), 0.5)


@pytest.mark.parametrize(
    ("kind", "fitting", "unfit"),
    [
        ("integer", [0, -1], [True, 1.0, "1", None]),
        ("number", [0, 0.5], [False, "1", None, []]),
        ("string", ["", "x" * MAX_TEXT_CHARS], ["x" * (MAX_TEXT_CHARS + 1), 1, None]),
        ("boolean", [True, False], [0, 1, "true", None]),
    ],
)
def test_a_value_fits_the_type_of_its_feature(kind: str, fitting: list[Any], unfit: list[Any]) -> None:
    feature = Feature(type=FeatureType(kind))
    assert [value for value in fitting if not evaluate.fits(feature, value)] == []
    assert [value for value in unfit if evaluate.fits(feature, value)] == []


def test_misfits_name_what_is_no_feature_and_what_is_of_another_type() -> None:
    ruleset = document(table(row("A", "-")))
    assert evaluate.misfits(ruleset, {"score": 1, "rate": "1", "colour": "red"}) == (
        ("rate", "must be number"),
        ("colour", "is no feature of the ruleset"),
    )


def test_features_are_read_in_expressions_and_not_in_fields_of_their_name() -> None:
    read = evaluate.features_read("features.a > 1 && x.features.b == 'features.c' && features.d")
    assert read == {"a", "d"}
    assert evaluate.features_read("true") == frozenset()


def asked(digest: str) -> RuleInput:
    return RuleInput(
        rule_output_id="r", dfid="d", ruleset_digest=digest, features={"score": 1}, salt="0" * 32
    )


def test_an_output_names_its_ruleset_and_comes_out_the_same_from_its_input() -> None:
    ruleset = document(table(row("A", "-")))
    stored = asked(ruleset.digest)
    found = evaluate.output(ruleset, stored)
    assert (found.ruleset, found.ruleset_version, found.rule_output_id) == ("cases", "1.0.0", "r")
    assert found.trace_ref == "/api/v1/audit/contracts/reasoning_trace/d"
    assert found.salt not in (None, stored.salt)
    again = RuleInput.from_bytes(stored.to_bytes())
    assert evaluate.output(ruleset, again).to_bytes() == found.to_bytes()
    assert canonical.decode(found.to_bytes())["decided"][0]["aspect"] == "a"


def test_an_output_is_made_of_the_ruleset_that_was_asked_only() -> None:
    ruleset = document(table(row("A", "-")))
    with pytest.raises(ValueError, match="not the one that was asked"):
        evaluate.output(document(table(row("B", "-"))), asked(ruleset.digest))


def test_every_ruleset_of_these_tests_may_be_stored() -> None:
    assert linter.errors(document(rules=CONTRADICTING)) == ()
