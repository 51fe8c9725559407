"""The arithmetic of labels: what is gained stays until its time or a person ends it, and only restricts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contracts.facts import Facts
from runtime.contracts.source_labels import LabelRule
from runtime.contracts.states import Decision
from runtime.contracts.verdict import VerdictDocument
from runtime.kernel import source_labels
from runtime.kernel.gate import recheck
from runtime.kernel.gate.pipeline import Judgement
from runtime.kernel.source_labels import MOST_CLAIMED
from tests.support import gate_cases

NAMES = st.sampled_from(["untrusted", "secret", "user_input", "retrieved_doc"])
MOMENTS = st.integers(0, 100_000)
HELD = st.dictionaries(NAMES, st.none() | st.integers(0, 100_000))
RULE = {"id": "outward", "after": ["untrusted", "secret"]}
EFFECTLESS = gate_cases.kind(steps=[])


def judge(*labels: str, rule: dict[str, Any] | None = None, **fields: Any) -> VerdictDocument:
    manifest = gate_cases.manifest(label_rules=[{**RULE, **(rule or {})}])
    rules = gate_cases.rules(manifest=manifest, **fields.pop("rules", {}))
    return gate_cases.judge(rules=rules, facts=gate_cases.facts(labels=labels), **fields)


def reasons(verdict: VerdictDocument) -> list[tuple[str, str, str | None]]:
    return [(item.code, item.subject, item.proposed_value) for item in verdict.reasons]


@given(HELD, st.lists(NAMES, max_size=4), st.dictionaries(NAMES, st.integers(60, 90)), MOMENTS)
def test_a_gain_takes_nothing_away_and_ends_nothing_earlier(
    held: dict[str, int | None], gained: list[str], lasts: dict[str, int], now_ms: int
) -> None:
    before = source_labels.held_at(held, now_ms)
    after = source_labels.gain(held, gained, ends_after_s=lasts, now_ms=now_ms)
    assert set(after) == set(before) | set(gained)
    for label, ends in before.items():
        later = after[label]
        assert later is None or (ends is not None and later >= ends)
    for label in gained:
        ends = after[label]
        assert ends is None or ends >= now_ms + lasts[label] * 1000
    assert list(after) == sorted(after)


def test_time_ends_a_label_to_the_millisecond() -> None:
    held = source_labels.gain({}, ["secret"], ends_after_s={"secret": 60}, now_ms=1)
    assert held == {"secret": 60_001}
    assert source_labels.held_at(held, 60_000) == held
    assert source_labels.held_at(held, 60_001) == {}


def test_without_a_time_only_a_person_ends_it() -> None:
    held = source_labels.gain({"secret": 70_000}, ["secret"], ends_after_s={}, now_ms=0)
    assert held == {"secret": None}
    assert source_labels.gain(held, ["secret"], ends_after_s={"secret": 60}, now_ms=0) == held


def test_an_agents_own_words_cannot_crowd_its_entries() -> None:
    said = [f"l{number}" for number in range(MOST_CLAIMED + 5)]
    taken = source_labels.claimed({}, [*said, "l0"], now_ms=0)
    assert taken == tuple(said[:MOST_CLAIMED])
    full = dict.fromkeys(taken)
    assert source_labels.claimed(full, ["l0", "new"], now_ms=0) == ("l0",)


@pytest.mark.parametrize("labels", [(), ("retrieved_doc",)])
def test_what_no_rule_names_changes_nothing(labels: tuple[str, ...]) -> None:
    assert judge(*labels).decision is Decision.ACCEPT


def test_after_a_label_a_person_decides() -> None:
    verdict = judge("secret", "untrusted", "user_input")
    assert verdict.decision is Decision.ESCALATE
    assert reasons(verdict) == [("LABELLED", "outward", "secret, untrusted")]
    (reason,) = verdict.reasons
    assert reason.message == "The agent has received something labelled secret, untrusted."


def test_a_rule_may_refuse_in_its_own_words() -> None:
    verdict = judge("untrusted", rule={"on_fail": "REJECT", "message": "Not after the web."})
    assert verdict.decision is Decision.REJECT
    assert verdict.reasons[0].message == "Not after the web."


@pytest.mark.parametrize(
    ("on_fail", "decision"), [("ESCALATE", Decision.ACCEPT), ("REJECT", Decision.REJECT)]
)
def test_a_person_decides_what_a_rule_asks_a_person_for(on_fail: str, decision: Decision) -> None:
    by_person = gate_cases.proposal(by_person=True, author="user:7")
    assert judge("untrusted", rule={"on_fail": on_fail}, proposal=by_person).decision is decision


def test_a_rule_without_kinds_holds_for_what_has_an_effect() -> None:
    assert judge("untrusted", rules={"kind": EFFECTLESS}).decision is Decision.ACCEPT
    named = {"kinds": ["ADJUST_POSITION"]}
    assert judge("untrusted", rule=named, rules={"kind": EFFECTLESS}).decision is Decision.ESCALATE
    assert judge("untrusted", rule={"kinds": ["OTHER"]}).decision is Decision.ACCEPT


def test_expressions_of_a_kind_read_them() -> None:
    asks = {"id": "NOT_AFTER_SECRETS", "require": "!('secret' in labels)", "on_fail": "ESCALATE"}
    rules = gate_cases.rules(kind=gate_cases.kind(rules=[asks]))
    for labels, decision in ((None, Decision.ACCEPT), (("secret",), Decision.ESCALATE)):
        verdict = gate_cases.judge(rules=rules, facts=gate_cases.facts(labels=labels))
        assert verdict.decision is decision


def test_facts_without_labels_are_stored_as_before() -> None:
    facts = gate_cases.facts()
    assert b"labels" not in facts.to_bytes()
    labelled = gate_cases.facts(labels=("secret",))
    assert Facts.from_bytes(labelled.to_bytes()) == labelled
    assert b"label" not in gate_cases.manifest().to_bytes() + gate_cases.kind().to_bytes()
    rule = gate_cases.manifest(label_rules=[RULE]).label_rules[0]
    assert LabelRule.from_bytes(rule.to_bytes()) == rule


def test_what_it_received_since_cannot_have_steered_it() -> None:
    """New labels do not hold a call back that was accepted before; what the gate saw still counts."""
    limit = {"id": "clean", "value": "labels.size() > 0 ? 2 : 0", "limit": "1"}
    kind = gate_cases.kind(limits=[limit])
    for then, now, is_withdrawn in (((), ("secret",), False), (("secret",), (), True)):
        case = gate_cases.case(rules=gate_cases.rules(kind=kind), facts=gate_cases.facts(labels=then))
        asked = Judgement(
            proposal=case.proposal,
            facts=case.facts,
            now_ms=case.now_ms,
            rules_digest="",
            gate_version=case.gate,
        )
        known = gate_cases.facts(labels=now)
        found = recheck.withdrawn(asked, case.rules, known=known, lifted=(), now_ms=case.now_ms)
        assert bool(found.findings) is is_withdrawn
