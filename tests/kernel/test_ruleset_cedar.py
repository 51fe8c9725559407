"""Cedar policies of a ruleset: which are refused, what they are asked, and what comes of their answers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contracts.ruleset import CedarAnswers, MatchStatus, PolicyAnswer, RuleResult, RulesetDocument
from runtime.kernel.rulesets import cedar, evaluate, linter
from tests.support import records_desk
from tests.support.records_desk import ASKED, PERMIT, policy, ruleset

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["x", '"', "\\", "a\nb", "\x00"])
SILENCE: dict[str, Any] = {"must_permit": False}
TAKEN: dict[str, Any] = {"resource": {"type": "Agent", "id": "record"}}


def answers(rules: RulesetDocument, **changes: Any) -> dict[str, PolicyAnswer]:
    """What the policies answer to the agent of the documentation."""
    features = {name: value for name, value in {**ASKED, **changes}.items() if value is not None}
    found = cedar.ask(rules, features, agent_id=records_desk.AGENT, policy_kind=records_desk.KIND)
    assert found is not None
    return found.answers


def result(rules: RulesetDocument, **changes: Any) -> RuleResult:
    """What the ruleset says then."""
    features = {name: value for name, value in {**ASKED, **changes}.items() if value is not None}
    said = cedar.ask(rules, features, agent_id=records_desk.AGENT, policy_kind=records_desk.KIND)
    return evaluate.evaluate(rules, features, cedar=said)


def guarded(found: RuleResult) -> dict[str, str]:
    """The guardrails that are triggered, with what is said."""
    return {guard.invariant_id: guard.detail for guard in found.guardrails_triggered}


def said(rules: RulesetDocument) -> list[tuple[str, str]]:
    """The codes and places of the findings of the linter."""
    return [(finding.code.value, finding.where) for finding in linter.lint(rules)]


def when(condition: str, effect: str = "permit") -> str:
    """A policy with a condition."""
    return f"{effect} (principal, action, resource) when {{ {condition} }};"


def test_the_example_is_in_order() -> None:
    assert said(ruleset()) == []
    assert ruleset().declared == ("access",)


def test_a_permit_is_a_match_of_certainty_one() -> None:
    found = result(ruleset())
    (match,) = found.matches
    assert (match.rule_id, match.certainty, match.mandatory) == ("C_BILLING", 1.0, False)
    assert match.action_proposal.action == "SHARE_RECORD"
    assert match.justification == "Bills are written from it"
    assert (found.status, found.residuals, guarded(found)) == (MatchStatus.HIGH, (), {})


def test_a_forbid_is_a_guardrail_beside_the_permits() -> None:
    found = result(ruleset(), sealed=True)
    assert guarded(found) == {"C_SEALED": "The record is sealed"}
    assert found.guardrails_triggered[0].severity == "CRITICAL"
    assert [match.rule_id for match in found.matches] == ["C_BILLING"]


def test_a_forbid_without_a_message_names_itself() -> None:
    rules = ruleset(policy("F", when("resource.sealed", "forbid")), request=SILENCE)
    assert guarded(result(rules, sealed=True)) == {"F": "The policy F forbids it."}


def test_where_nothing_permits_it_is_no_match_and_a_guardrail_only_if_asked_for() -> None:
    found = result(ruleset(request=SILENCE), purpose="research")
    assert (found.status, guarded(found), found.residuals) == (MatchStatus.NONE, {}, ("access",))
    found = result(ruleset(), purpose="research")
    assert (found.status, guarded(found)) == (MatchStatus.NONE, {"NO_PERMIT": "No policy permits it."})


def test_the_agent_is_the_principal_and_the_kind_the_action() -> None:
    rules = ruleset(
        policy("MINE", 'permit (principal == Agent::"records-clerk", action, resource);'),
        policy("OTHERS", 'permit (principal == Agent::"somebody", action, resource);'),
        policy("KIND", 'permit (principal, action == Action::"SHARE_RECORD", resource);'),
        policy("RECORD", 'permit (principal, action, resource == MedicalRecord::"r-1");'),
    )
    assert answers(rules) == {
        "MINE": PolicyAnswer.PERMITS,
        "OTHERS": PolicyAnswer.SILENT,
        "KIND": PolicyAnswer.PERMITS,
        "RECORD": PolicyAnswer.PERMITS,
    }


def test_features_are_attributes_and_context_and_an_integer_may_be_an_id() -> None:
    features = {"record": {"type": "integer"}, "ward": {"type": "string"}, "age": {"type": "integer"}}
    request = {
        "principal": {"type": "Clerk", "attributes": ["ward"]},
        "resource": {"type": "Paper", "id": "record", "attributes": ["ward"]},
        "context": ["age"],
    }
    rules = ruleset(
        policy("P", when("principal.ward == resource.ward && context.age > 3")),
        policy("ID", 'permit (principal is Clerk, action, resource == Paper::"7");'),
        request=request,
        features=features,
    )
    assert said(rules) == []
    found = cedar.ask(
        rules, {"record": 7, "ward": "x", "age": 4}, agent_id='odd "name"\n', policy_kind="READ"
    )
    assert found is not None
    assert set(found.answers.values()) == {PolicyAnswer.PERMITS}


def test_a_policy_that_fails_is_a_guardrail_in_our_own_words() -> None:
    features = {**records_desk.written()["features"], "count": {"type": "integer", "value": "params.count"}}
    rules = ruleset(
        policy("OVER", when("context.count * 4611686018427387904 > 1")),
        policy("OK", PERMIT),
        request={"context": ["count"]},
        features=features,
    )
    assert said(rules) == []
    found = result(rules, count=9007199254740991)
    assert guarded(found) == {"OVER": "The policy OVER could not be evaluated."}
    assert [match.rule_id for match in found.matches] == ["OK"]


@pytest.mark.parametrize("changes", [{"purpose": None}, {"record": None}, {"sealed": None}])
def test_without_a_feature_of_the_request_no_policy_is_asked_and_each_is_a_guardrail(
    changes: dict[str, Any],
) -> None:
    found = result(ruleset(), **changes)
    assert guarded(found)["C_CARE"] == "The policy C_CARE was not asked of cedarpy 4.12.2."
    assert set(guarded(found)) == {"C_CARE", "C_BILLING", "C_SEALED", "NO_PERMIT"}
    assert found.matches == ()


def test_another_version_of_the_library_is_not_asked() -> None:
    rules = ruleset(request={"cedarpy": "4.12.1", **SILENCE})
    assert said(rules) == [("OTHER_ENGINE", "cedar_request.cedarpy")]
    assert answers(rules) == {}
    assert guarded(result(rules))["C_SEALED"] == "The policy C_SEALED was not asked of cedarpy 4.12.1."
    assert rules.digest != ruleset(request=SILENCE).digest


def test_answers_that_are_not_given_are_guardrails() -> None:
    assert set(guarded(evaluate.evaluate(ruleset(), ASKED))) == {
        "C_CARE",
        "C_BILLING",
        "C_SEALED",
        "NO_PERMIT",
    }
    some = CedarAnswers(agent_id="a", policy_kind="K", answers={"C_CARE": PolicyAnswer.PERMITS})
    assert set(guarded(evaluate.evaluate(ruleset(), ASKED, cedar=some))) == {"C_BILLING", "C_SEALED"}


def test_the_installed_version_is_filled_in_where_none_is_named() -> None:
    bare = ruleset(request={"cedarpy": None})
    assert cedar.pin(bare).digest == ruleset(request={"cedarpy": cedar.VERSION}).digest
    other = ruleset(request={"cedarpy": "1.0.0"})
    assert cedar.pin(other) is other
    tables = ruleset(policies=(), cedar_request=None, guardrails=[{"id": "G", "forbid": "false"}])
    assert cedar.pin(tables) is tables
    assert cedar.ask(tables, ASKED, agent_id="a", policy_kind="K") is None


@pytest.mark.parametrize(
    "text",
    [
        "permit (principal, action, resource)",
        "permit (principal, action, resource) when { true && };",
        "// nothing",
        f"{PERMIT} forbid (principal, action, resource);",
        "permit (principal == ?principal, action, resource);",
        when("foo(1)"),
        when("context.purpos == 'x'"),
    ],
)
def test_what_is_not_one_policy_is_refused(text: str) -> None:
    rules = ruleset(policy("P", text))
    (found,) = linter.errors(rules)
    assert (found.code, found.where) == ("BAD_EXPRESSION", "policies[0].cedar")
    assert found.message == "it cannot be read as one Cedar policy without slots"
    # Stored in spite of that, it would be a guardrail.
    assert answers(rules) == {"P": PolicyAnswer.FAILED}


@pytest.mark.parametrize(
    "text",
    [
        when('context.purpos == "x"'),
        when('resource.purpose == "x"'),
        when("context.purpose == 3"),
        when("context.purpose > 3"),
        when("resource.sealed == principal.sealed"),
        when('resource in MedicalFolder::"x"'),
        "permit (principal is Nurse, action, resource);",
    ],
)
def test_what_the_request_does_not_have_is_refused(text: str) -> None:
    (found,) = linter.errors(ruleset(policy("P", text)))
    assert (found.code, found.where) == ("BAD_EXPRESSION", "policies[0].cedar")
    assert found.message.startswith("it does not fit cedar_request: ")


@pytest.mark.parametrize(
    "text",
    [
        when("(" * 900 + "true" + ")" * 900),
        when("[" * 900 + "]" * 900 + " == 1"),
        when("if true then true else " * 80 + "true"),
        when("{a: " * 300 + "1" + "}" * 300 + " == 1"),
        when("&&".join(["true"] * 200)),
        when("context" + ".a" * 300 + " == 1"),
    ],
)
def test_what_nests_too_deep_never_reaches_the_library(text: str) -> None:
    rules = ruleset(policy("P", text))
    (found,) = linter.errors(rules)
    assert found.message == "it nests deeper than 20, or has more than 20 times if or 200 signs"
    assert answers(rules) == {"P": PolicyAnswer.FAILED}


@pytest.mark.parametrize("text", [" && ".join(["true"] * 100), "+".join(["1"] * 190) + " == 190"])
def test_a_long_row_of_operators_is_read(text: str) -> None:
    rules = ruleset(policy("P", when(text)))
    assert linter.errors(rules) == ()
    assert answers(rules) == {"P": PolicyAnswer.PERMITS}


def test_brackets_in_texts_and_comments_do_not_count() -> None:
    deep = "(" * 30
    assert said(ruleset(policy("P", f'// {deep}\n{when(f"""context.purpose != "{deep}" """)}'))) == []


@pytest.mark.parametrize(
    ("request_", "findings"),
    [
        ({"context": ["colour"]}, [("UNKNOWN_FEATURE", "cedar_request.context[0]")]),
        ({"principal": {"type": "Agent", "attributes": ["x"]}}, [
            ("UNKNOWN_FEATURE", "cedar_request.principal.attributes[0]")
        ]),
        ({"principal": {"type": "Action"}}, [("BAD_EXPRESSION", "cedar_request.principal.type")]),
        (TAKEN, [("BAD_EXPRESSION", "cedar_request.resource.type")]),
        ({"resource": {"type": "R", "id": "sealed"}}, [("BAD_EXPRESSION", "cedar_request.resource.id")]),
        ({"resource": {"type": "R", "id": "record", "attributes": ["rate"]}}, [
            ("BAD_EXPRESSION", "cedar_request.resource.attributes[0]")
        ]),
    ],
)  # fmt: skip
def test_a_request_is_made_of_features_that_cedar_has_types_for(
    request_: dict[str, Any], findings: list[tuple[str, str]]
) -> None:
    features = {**records_desk.written()["features"], "rate": {"type": "number"}}
    assert said(ruleset(policy("P", PERMIT), request=request_, features=features)) == findings


def test_ids_and_aspects_of_policies_are_those_of_rules() -> None:
    rules = ruleset(
        policy("P", PERMIT),
        {**policy("NO_PERMIT", PERMIT), "decides": "other"},
        guardrails=[{"id": "P", "forbid": "false"}],
        aspects=["access"],
    )
    assert said(rules) == [
        ("DUPLICATE_ID", "guardrails[0].id"),
        ("DUPLICATE_ID", "policies[0].id"),
        ("DUPLICATE_ID", "policies[1].id"),
        ("DUPLICATE_ID", "cedar_request.must_permit"),
        ("UNKNOWN_ASPECT", "policies[1].decides"),
    ]


@pytest.mark.parametrize("fields", [{"policies": []}, {"cedar_request": None}])
def test_policies_and_their_request_go_together(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="cedar_request says what policies are asked"):
        ruleset(guardrails=[{"id": "G", "forbid": "false"}], **fields)


@settings(max_examples=60, deadline=None)
@given(agent=TEXTS, record=TEXTS, purpose=TEXTS, count=st.integers(-(2**53) + 1, 2**53 - 1))
def test_whatever_text_is_asked_about_there_is_an_answer(
    agent: str, record: str, purpose: str, count: int
) -> None:
    features = {**records_desk.written()["features"], "count": {"type": "integer"}}
    policies = [
        policy("SAME", 'permit (principal, action, resource) when { context.purpose == "x" };'),
        policy("COUNT", when("context.count > 0", "forbid")),
    ]
    rules = ruleset(*policies, request={"context": ["purpose", "count"]}, features=features)
    asked = {**ASKED, "record": record, "purpose": purpose, "count": count}
    found = cedar.ask(rules, asked, agent_id=agent, policy_kind="K")
    assert found is not None
    assert found.answers == {
        "SAME": PolicyAnswer.PERMITS if purpose == "x" else PolicyAnswer.SILENT,
        "COUNT": PolicyAnswer.FORBIDS if count > 0 else PolicyAnswer.SILENT,
    }
