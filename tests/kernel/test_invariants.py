"""Invariants of a pack: pinned into the kinds that assert them, asked at the gate and before each call."""

from typing import Any

import pytest

from audit import canonical
from runtime.contracts.facts import Lift
from runtime.contracts.pack import PackDocument
from runtime.contracts.policy_kind import InvariantPlace, KindDocument
from runtime.contracts.states import Decision
from runtime.contracts.verdict import Finding, FindingOutcome
from runtime.kernel.gate import pipeline, recheck
from runtime.kernel.rules import invariants, kind_linter
from tests.support import gate_cases

EXPOSURE: dict[str, Any] = {
    "invariant_id": "exposure",
    "require": "with.amount <= with.most && params.quantity > 0",
    "severity": "HIGH",
    "message": "Too much at once",
}
GIVEN = {"amount": "params.notional_cents", "most": 90_000}
OPEN: dict[str, Any] = {"invariant_id": "open", "require": "context.facts.market.state == 'OPEN'"}


def pack(*listed: dict[str, Any], asserts: list[dict[str, Any]]) -> PackDocument:
    return PackDocument.model_validate_json(
        canonical.encode(
            {
                "pack": "p",
                "version": "1.0.0",
                "invariants": list(listed),
                "policy_kinds": [{**gate_cases.KIND, "safety_assertions": asserts}],
            }
        )
    )


def pinned(*listed: dict[str, Any], asserts: list[dict[str, Any]] | None = None) -> KindDocument:
    """The kind with all that is listed; what reads `with` is given GIVEN."""
    named = asserts or [
        {"invariant_id": one["invariant_id"], **({"with": GIVEN} if "with." in one["require"] else {})}
        for one in listed
    ]
    return invariants.pin(pack(*listed, asserts=named)).policy_kinds[0]


def judged(kind: KindDocument, **changes: Any) -> tuple[Decision, list[str]]:
    case = gate_cases.case(rules=gate_cases.rules(kind=kind), **changes)
    verdict = pipeline.judge(case.proposal, case.facts, case.rules, case.now_ms)
    return verdict.decision, [item.subject for item in verdict.reasons if item.check == "invariants"]


def test_what_is_given_takes_its_place_in_brackets() -> None:
    [assertion] = pinned(EXPOSURE).safety_assertions
    assert assertion.pinned is not None
    assert assertion.pinned.require == "(params.notional_cents) <= (90000) && params.quantity > 0"
    assert assertion.given == {"amount": "params.notional_cents", "most": "90000"}


def test_words_in_a_text_and_members_of_another_name_are_left_alone() -> None:
    odd = {**OPEN, "require": "params.symbol != 'with.most' && with . most == 1 && params.with.most == 2"}
    [assertion] = pinned(odd, asserts=[{"invariant_id": "open", "with": {"most": True}}]).safety_assertions
    assert assertion.pinned is not None
    assert assertion.pinned.require == "params.symbol != 'with.most' && (true) == 1 && params.with.most == 2"


def test_a_pinned_kind_is_read_back_from_its_bytes() -> None:
    kind = pinned(EXPOSURE, OPEN)
    assert KindDocument.from_bytes(kind.to_bytes()) == kind
    assert b"safety_assertions" not in gate_cases.kind().to_bytes()
    assert invariants.pin(pack(asserts=[])).policy_kinds[0].digest == gate_cases.kind().digest


def test_a_kind_whose_invariants_hold_is_judged_as_before() -> None:
    assert judged(pinned({**EXPOSURE, "require": "with.amount <= 94750"}, OPEN)) == (Decision.ACCEPT, [])
    assert kind_linter.lint_kind(pinned(EXPOSURE, OPEN)) == ()


@pytest.mark.parametrize(
    ("severity", "decision"),
    [
        ("LOW", Decision.ESCALATE),
        ("MEDIUM", Decision.ESCALATE),
        ("HIGH", Decision.REJECT),
        ("CRITICAL", Decision.REJECT),
    ],
)
def test_the_severity_says_whether_a_person_may_let_it_pass(severity: str, decision: Decision) -> None:
    assert judged(pinned({**EXPOSURE, "severity": severity})) == (decision, ["exposure"])


def test_what_cannot_be_evaluated_is_refused_however_light() -> None:
    kind = pinned({**OPEN, "severity": "LOW", "require": "context.facts.market.nothing == 1"})
    assert judged(kind) == (Decision.REJECT, ["open"])


def test_an_invariant_of_the_claim_alone_is_not_asked_at_the_gate() -> None:
    kind = pinned({**EXPOSURE, "at": ["CLAIM"]})
    assert judged(kind) == (Decision.ACCEPT, [])
    assert [one.invariant_id for one in kind.asserted(InvariantPlace.CLAIM)] == ["exposure"]
    assert looked(kind) == ["exposure"]


def looked(kind: KindDocument, *, lifts: tuple[Lift, ...] = (), **world: Any) -> list[str]:
    """What the second look finds, in a world of its own."""
    case = gate_cases.case(rules=gate_cases.rules(kind=kind), facts=gate_cases.facts(lifts=lifts))
    judgement = pipeline.Judgement(
        proposal=case.proposal, facts=case.facts, now_ms=case.now_ms, rules_digest=case.rules.digest
    )
    seen = {**gate_cases.WORLD, **{name.replace("_", "."): value for name, value in world.items()}}
    found = recheck.recheck(judgement, case.rules, world=seen, now_ms=case.now_ms)
    return [item.subject for item in found if item.check == "invariants"]


def test_it_is_asked_again_of_the_world_before_the_call() -> None:
    assert looked(pinned(OPEN)) == []
    assert looked(pinned(OPEN), market_state="CLOSED") == ["open"]
    assert looked(pinned({**OPEN, "at": ["GATE"]}), market_state="CLOSED") == []


def test_what_a_person_let_pass_is_not_held_against_the_call() -> None:
    lift = Lift(check="invariants", code="INVARIANT_VIOLATED", subject="open", proposed_value=None)
    assert looked(pinned({**OPEN, "severity": "LOW"}), market_state="CLOSED") == ["open"]
    assert looked(pinned({**OPEN, "severity": "LOW"}), lifts=(lift,), market_state="CLOSED") == []
    assert looked(pinned(OPEN), lifts=(lift,), market_state="CLOSED") == ["open"]


def test_a_person_lifts_a_light_one_at_the_gate() -> None:
    kind = pinned({**EXPOSURE, "severity": "MEDIUM"})
    lift = Lift(check="invariants", code="INVARIANT_VIOLATED", subject="exposure", proposed_value=None)
    case = gate_cases.case(rules=gate_cases.rules(kind=kind), facts=gate_cases.facts(lifts=(lift,)))
    verdict = pipeline.judge(case.proposal, case.facts, case.rules, case.now_ms)
    assert verdict.decision is Decision.ACCEPT
    assert [item.outcome for item in verdict.findings if item.subject == "exposure"] == [
        FindingOutcome.LIFTED
    ]


def test_a_new_version_of_the_kind_is_asked_of_what_waits() -> None:
    case = gate_cases.case(rules=gate_cases.rules(kind=pinned(EXPOSURE)))
    judgement = pipeline.Judgement(
        proposal=case.proposal, facts=case.facts, now_ms=case.now_ms, rules_digest=case.rules.digest
    )
    lifted: list[Finding] = []
    gone = recheck.withdrawn(judgement, case.rules, known=case.facts, lifted=lifted, now_ms=case.now_ms)
    assert (gone.code, gone.is_final) == ("INVARIANT_VIOLATED", True)


@pytest.mark.parametrize(
    ("listed", "asserts", "place", "said"),
    [
        ((), [{"invariant_id": "open"}], ("invariant_id",), "the pack has no invariant open"),
        ((EXPOSURE,), [{"invariant_id": "exposure"}], ("with",), "exposure needs with.amount"),
        (
            (OPEN,),
            [{"invariant_id": "open"}, {"invariant_id": "open"}],
            ("invariant_id",),
            "the invariant open is asserted twice",
        ),
        (
            (EXPOSURE,),
            [{"invariant_id": "exposure", "with": {**GIVEN, "most": "params.nothing"}}],
            ("with", "most"),
            "params.nothing is not a field of the params schema",
        ),
        (
            (EXPOSURE,),
            [{"invariant_id": "exposure", "with": {**GIVEN, "most": f"{'1 + ' * 495}1"}}],
            ("with",),
            "with what exposure is given it has more than 2000 characters",
        ),
    ],
)
def test_the_linter_says_what_is_wrong(
    listed: tuple[dict[str, Any], ...], asserts: list[dict[str, Any]], place: tuple[str, ...], said: str
) -> None:
    found = kind_linter.lint_kind(pinned(*listed, asserts=asserts))
    assert said in {
        one.message for one in found if one.place[0] == "safety_assertions" and one.place[2:] == place
    }


def test_another_invariant_cannot_be_pinned_under_a_name() -> None:
    kind = gate_cases.kind(
        safety_assertions=[{"invariant_id": "open", "pinned": {**OPEN, "invariant_id": "x"}}]
    )
    assert [one.message for one in kind_linter.lint_kind(kind)] == ["x is pinned in the place of open"]


def test_a_pack_says_each_once_and_gives_what_is_read() -> None:
    given = [{"invariant_id": "open", "with": {"most": 1}}]
    assert list(invariants.lint_pack(pack(OPEN, OPEN, asserts=given))) == [
        (("invariants", 1, "invariant_id"), "the invariant open is given twice"),
        (("policy_kinds", 0, "safety_assertions", 0, "with"), "open does not read with.most"),
    ]
    assert list(invariants.lint_pack(pack(asserts=given))) == []


@pytest.mark.parametrize("place", ["BETWEEN", "ALWAYS"])
def test_a_place_where_nothing_is_asked_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="GATE"):
        pack({**OPEN, "at": [place]}, asserts=[])
